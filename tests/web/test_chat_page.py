"""Somebody talks with models in a browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from tests.system.processes import wait
from tests.web.browser import PHONE, Visitor
from tests.web.conftest import Fleet, Making, script
from tests.web.walk import FOREVER, answered, come_in, confirm, say, show_key

pytestmark = [pytest.mark.web, pytest.mark.slow, pytest.mark.timeout(180)]
KEPT = "Object.keys(localStorage).filter((key) => key.startsWith('roost.talk.')).length"


@contextmanager
def busy(fleet: Fleet) -> Iterator[None]:
    """Let somebody else have the only slot, for the length of a block."""
    with fleet.asking(FOREVER) as request:
        yield
        fleet.ask("DELETE", f"/roost/v1/requests/{request}", fleet.boss)


def test_a_conversation_is_asked_stopped_made_anew_and_found_again(
    fleet: Fleet, visitor: Visitor
) -> None:
    """The whole way: key, answer, stop, answer again, another wording, and a reload."""
    page = come_in(fleet, visitor)
    say(
        page, "What is this?\n" + script("<think>Let me see.</think>", "It is **a test**.", " Yes.")
    )
    assert "It is a test. Yes." in answered(page)
    assert page.text(".message.model strong") == "a test"
    page.click(".thought summary")
    assert page.text(".thought-text") == "Let me see."
    assert "said" in page.text(".message.model .facts")
    say(page, FOREVER)
    page.sees("and on and on")
    assert not fleet.idle()
    page.press("Escape")
    page.sees("You stopped this answer")
    wait(fleet.idle, "a stopped answer frees its slot")
    said = page.text(".message.model:last-child .prose")
    assert "and on" in said
    page.click(".message:last-child button", "Go on from here")
    longer = f"?.innerText.length > {len(said)}"
    page.until(f"document.querySelector('.model:last-child .prose'){longer}", "it has gone on")
    page.click("#stop")
    page.click(".message.model:last-child button", "Answer again")
    page.sees("and on and on", within=".message.model:last-child")
    page.click("#stop")
    page.sees("You stopped this answer")
    assert page.count(".message") == 4
    page.click(".message.person:nth-child(3) button", "Edit")
    page.js("document.querySelector('.editor textarea').value = ''")
    page.write("And now?\n" + script("Something", " else."))
    page.click(".editor button", "Ask again")
    page.sees("Something else.")
    answered(page)
    assert page.count(".message") == 4
    address = page.js("location.hash")
    page.reload()
    page.sees("Something else.")
    assert page.js("location.hash") == address
    assert "It is a test. Yes." in page.text("#messages")
    assert page.text(".talk-title").startswith("What is this?")
    wait(fleet.idle, "nothing is left behind")


def test_what_was_on_its_way_when_the_page_went_is_told(fleet: Fleet, visitor: Visitor) -> None:
    """A reload in the middle of an answer keeps what had come, frees the slot, and says so."""
    page = come_in(fleet, visitor)
    say(page, FOREVER)
    page.sees("and on and on")
    page.reload()
    page.sees("This page was closed before the answer was complete")
    assert "and on" in page.text(".message.model .prose")
    wait(fleet.idle, "a page that is gone frees its slot")


def test_conversations_are_found_named_exported_and_deleted(
    fleet: Fleet, visitor: Visitor, tmp_path: Path
) -> None:
    """What is kept is kept in this browser, and its owner does with it what he wants."""
    visitor.keep_downloads(tmp_path)
    page = come_in(fleet, visitor)
    say(page, "First one\n" + script("alpha"))
    answered(page)
    page.press("o", control=True, shift=True)
    page.sees("What shall we talk about?")
    say(page, "Second one\n" + script("beta"))
    answered(page)
    assert page.count(".talk") == 2
    page.click(".talk", "First one")
    page.sees("alpha", within="#messages")
    page.click("li:has([aria-current]) .menu-place .tool")
    page.click(".menu button", "Rename")
    page.js("document.querySelector('dialog input').value = ''")
    page.write("Alphabet")
    confirm(page, "Rename")
    page.sees("Alphabet", within="#talks")
    page.click("li:has([aria-current]) .menu-place .tool")
    page.click(".menu button", "Export as Markdown")
    file = tmp_path / "alphabet.md"
    wait(file.exists, "the export is there")
    wait(lambda: "alpha" in file.read_text("utf-8"), "the export is whole")
    assert file.read_text("utf-8").startswith("# Alphabet\n\n## You\n\nFirst one")
    page.click("#export-all")
    wait(lambda: bool(list(tmp_path.glob("conversations-*.json"))), "both are exported")
    other = visitor.open(f"{fleet.url}/")
    show_key(other, fleet.key)
    other.sees("Alphabet", within="#talks")
    page.click("li:has([aria-current]) .menu-place .tool")
    page.click(".menu button", "Delete")
    page.sees("nobody can bring it back")
    page.press("Enter")
    page.until("!document.querySelector('dialog')", "Enter alone destroys nothing")
    assert page.js(KEPT) == 2
    page.click("li:has([aria-current]) .menu-place .tool")
    page.click(".menu button", "Delete")
    confirm(page, "Delete")
    page.sees("What shall we talk about?")
    assert page.js(KEPT) == 1
    other.until("document.querySelectorAll('.talk').length === 1", "another tab hears of it")


def test_a_conversation_may_change_its_model(fleet: Fleet, visitor: Visitor) -> None:
    """The next answer is the chosen model's, and the choice is remembered."""
    page = come_in(fleet, visitor)
    page.choose("#model", "other")
    say(page, script("one"))
    assert answered(page).startswith("other")
    page.choose("#model", "tiny")
    say(page, script("two"))
    assert answered(page).startswith("tiny")
    page.reload()
    page.until("document.querySelector('#model').value === 'tiny'", "the choice is remembered")
    names = cast(
        "list[str]", page.js("[...document.querySelectorAll('.who')].map((x) => x.innerText)")
    )
    assert names == ["other", "tiny"]


def test_who_waits_is_told_where_he_stands(fleet: Fleet, visitor: Visitor) -> None:
    """While somebody else has the only slot, the page says so; then the answer comes."""
    page = come_in(fleet, visitor)
    page.choose("#model", "tiny")
    with busy(fleet):
        say(page, script("At last."))
        page.sees("Waiting in line: place 1 of 1")
    assert "At last." in answered(page)


def test_nothing_a_model_says_becomes_markup(fleet: Fleet, visitor: Visitor) -> None:
    """Tags are text, addresses that run scripts are no links, and the policy stands behind that."""
    page = come_in(fleet, visitor)
    hostile = (
        '<img src=x onerror="window.hacked=1"> <script>window.hacked=1</script>\n\n',
        "[click](javascript:window.hacked=1) ![x](https://evil.example/x.png)\n\n",
        "```html\n<iframe srcdoc='<script>parent.hacked=1</script>'></iframe>\n```\n\n",
        "<a href=javascript:window.hacked=1>link</a> <style>*{display:none}</style>",
    )
    say(page, script(*hostile))
    said = answered(page)
    assert "<img src=x onerror=" in said
    assert "<iframe srcdoc=" in said
    assert page.js("window.hacked === undefined")
    inside = "#messages :is(img, script, iframe, style, object, form[action])"
    assert page.js(f"document.querySelectorAll({json.dumps(inside)}).length") == 0
    links = "[...document.querySelectorAll('#messages a')].map((one) => one.href)"
    assert page.js(links) == ["https://evil.example/x.png"]
    page.click(".code .copy")
    page.until("document.querySelector('.code .copy').innerText === 'Copied'", "code is copied")
    refused = page.js(
        "(() => { try { document.body.innerHTML = '<b>x</b>'; return 'made'; }"
        " catch (error) { return error.name; } })()"
    )
    assert refused == "TypeError"
    assert ["TrustedHTML" in one for one in visitor.complaints()] == [True]
    visitor.pages.clear()


def test_a_machine_that_dies_is_told_and_the_question_asked_again(
    making: Making, visitor: Visitor
) -> None:
    """In mid-answer: what had come stays, the reason is named, and the next try is answered."""
    fleet = making()
    page = come_in(fleet, visitor, PHONE)
    say(page, FOREVER)
    page.sees("and on and on")
    fleet.kill(fleet.node)
    page.sees("The machine that was answering is gone")
    assert "and on" in page.text(".message.model .prose")
    stats = visitor.open(f"{fleet.url}/stats")
    show_key(stats, fleet.key)
    stats.sees("dead")
    stats.sees("0 of 1")
    fleet.node = fleet.add_node()
    page.click(".ending button", "Try again")
    page.until("document.querySelector('.message.model .prose').innerText.includes('and on')", "on")
    assert page.count(".ending") == 0
    fleet.gateway.process.kill()
    fleet.gateway.process.wait()
    page.sees("The answer broke off")
    page.click(".ending button", "Try again")
    page.sees("The gateway does not answer")
    stats.front()
    stats.sees("Retrying.")
    stats.sees("What is shown is from")
