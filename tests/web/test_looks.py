"""How the pages look: something is there, nothing sticks out, and everybody can read it."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import cast

import pytest

from tests.web.browser import DESKTOP, PHONE, Json, Page, Size, Visitor
from tests.web.conftest import Fleet, script
from tests.web.walk import answered, come_in, say, show_key

pytestmark = [pytest.mark.web, pytest.mark.slow, pytest.mark.timeout(180)]
SMALL = Size(320, 568, phone=True)
RICH = """# A heading

A paragraph with **bold**, *slanted* and `code`, a-very-long-word-{long},
and <https://x.example/{long}>.

```python
print("{long}")
```

| Name | Value | And {long} |
|---|--:|:-:|
| one | 1 | x |

> Quoted, and

1. counted
   - nested
"""
PIECES = [RICH.format(long="x" * 120)[at : at + 40] for at in range(0, 900, 40)]
LOOKS = (Path(__file__).parent / "looks.js").read_text("utf-8")


def ask(page: Page, question: str) -> Json:
    """Ask a page about its looks: see `looks.js`, whose comment is no part of the expression."""
    return page.js(f"{LOOKS[LOOKS.index('({') :].rstrip()}.{question}")


@pytest.fixture
def painter(visitor: Visitor) -> Page:
    """A page without a policy, for looking at pictures."""
    return visitor.open("about:blank")


def assert_well(page: Page, painter: Page, what: str) -> None:
    """Look at a page in both schemes and three widths."""
    for size in (DESKTOP, PHONE, SMALL):
        page.resize(size)
        assert ask(page, "stickingOut()") == [], (what, size)
    for scheme in ("dark", "light"):
        page.prefer(scheme)
        assert ask(page, "pale()") == [], (what, scheme)
        page.resize(DESKTOP)
        page.front()
        picture = json.dumps(base64.b64encode(page.picture()).decode())
        colours, commonest = cast("list[float]", ask(painter, f"colours({picture})"))
        assert colours > 50, (what, scheme)
        assert 0.2 < commonest < 0.98, (what, scheme)
    assert ask(page, "nameless()") == [], what


def test_a_conversation_looks_well(fleet: Fleet, visitor: Visitor, painter: Page) -> None:
    """Long words, code, a table, reasoning, a failure, a dialog: on a desk and on a phone."""
    page = come_in(fleet, visitor)
    assert_well(page, painter, "nothing yet")
    say(page, "y" * 200 + "\n" + script("<think>Hm.</think>", *PIECES))
    assert "A heading" in answered(page)
    assert_well(page, painter, "an answer")
    say(page, script("half", "lost", fail_after=1))
    page.sees("Try again")
    assert_well(page, painter, "a failure")
    page.click("#options")
    page.sees("Temperature")
    assert ask(page, "nameless()") == []
    page.press("Escape")
    page.resize(PHONE)
    page.click("#drawer")
    page.until(
        "document.querySelector('.side').checkVisibility({visibilityProperty: true})", "list"
    )
    assert ask(page, "stickingOut()") == []
    page.press("Escape")
    page.until("!document.body.classList.contains('drawer-open')", "the list is away")


def test_the_fleet_looks_well(fleet: Fleet, visitor: Visitor, painter: Page) -> None:
    """Cards, bars and wide tables."""
    page = come_in(fleet, visitor)
    page.click("#tab-fleet")
    page.sees("1 of 1", within=".figures")
    assert_well(page, painter, "the fleet")


@pytest.mark.parametrize("path", ["/stats", "/coordinator"])
def test_system_1s_pages_look_well(
    fleet: Fleet, visitor: Visitor, painter: Page, path: str
) -> None:
    """The two small pages."""
    page = visitor.open(f"{fleet.url}{path}")
    page.sees("A key is needed")
    assert ask(page, "nameless()") == []
    show_key(page, fleet.key)
    page.until("document.querySelector('#status').dataset.state !== 'error'", "it is there")
    assert_well(page, painter, path)


def test_the_page_of_all_addresses_looks_well(
    fleet: Fleet, visitor: Visitor, painter: Page
) -> None:
    """It needs no key; what is looked for is left, and opens."""
    page = visitor.open(f"{fleet.url}/docs")
    page.sees("/v1/chat/completions")
    assert_well(page, painter, "all addresses")
    page.js(
        "(() => { const find = document.querySelector('#find'); find.value = 'post api/chat';"
        " find.dispatchEvent(new Event('input')); })()"
    )
    page.until("document.querySelectorAll('.address').length === 1", "one address is left")
    page.click(".address summary")
    page.sees("keep_alive")
    assert_well(page, painter, "one address")
