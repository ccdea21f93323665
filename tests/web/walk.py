"""SHELL: what people do on the pages, again and again: show a key, say something, say yes."""

from __future__ import annotations

from tests.web.browser import DESKTOP, Page, Size, Visitor
from tests.web.conftest import Fleet, script

FOREVER = script(*["and on "] * 60, delay_ms=300)
"""An answer that lasts until somebody stops it."""

ENDED = "document.querySelector('#stop').hidden && document.querySelector('.message.model')"


def come_in(fleet: Fleet, visitor: Visitor, size: Size = DESKTOP) -> Page:
    """Open the page, and show a key when it asks for one."""
    page = visitor.open(f"{fleet.url}/", size)
    show_key(page, fleet.key)
    page.until("document.querySelector('#model').value !== ''", "the models are listed")
    return page


def show_key(page: Page, key: str, field: str = "chat", *, right: bool = True) -> None:
    """Answer the question for a key; where the key is not `right` it is asked again."""
    page.click(f"dialog input[name={field}]")
    page.js("document.activeElement.select()")
    page.write(key)
    page.press("Enter")
    if right:
        page.until("!document.querySelector('dialog input')", "the question is answered")


def say(page: Page, text: str) -> None:
    """Write a message and send it."""
    page.click("#text")
    page.write(text)
    page.press("Enter")
    page.until("document.querySelector('#text').value === ''", "the message is sent")


def answered(page: Page, within_s: float = 30.0) -> str:
    """Wait for the end of the answer and read it."""
    page.until(ENDED, "the answer has ended", within_s)
    return page.text(".message.model:last-child")


def confirm(page: Page, yes: str) -> None:
    """Say yes to the question that is open."""
    page.click("dialog button", yes)
    page.until("!document.querySelector('dialog')", "the question is answered")
