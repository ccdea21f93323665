"""Somebody looks at the fleet in a browser, and an operator does something about it."""

from __future__ import annotations

from typing import cast

import pytest

from tests.system.processes import wait
from tests.web.browser import Visitor
from tests.web.conftest import Fleet, script
from tests.web.walk import FOREVER, answered, come_in, confirm, say, show_key

pytestmark = [pytest.mark.web, pytest.mark.slow, pytest.mark.timeout(180)]
ASKED = (
    "performance.getEntriesByType('resource').filter((one) => one.name.includes('/stats')).length"
)


def test_a_fleet_is_seen_and_drained_with_the_key_of_an_operator(
    fleet: Fleet, visitor: Visitor
) -> None:
    """Figures, machines and requests for everybody; what changes something asks for more."""
    page = come_in(fleet, visitor)
    say(page, script("ok"))
    answered(page)
    page.click("#tab-fleet")
    page.sees("1 of 1", within=".figures")
    node = fleet.alive()
    page.sees(str(node["id"]), within=".node")
    page.sees("alive", within=".node")
    page.sees("other", within=".runtimes")
    page.sees("done", within="#fleet")
    page.click(".node > header button", "Drain")
    page.sees("This needs the key of an operator")
    assert fleet.alive()["draining"] is False
    show_key(page, fleet.boss, "operator")
    page.sees("It gets nothing new")
    page.click("dialog button", "Cancel")
    page.until("!document.querySelector('dialog')", "nothing is done")
    assert fleet.alive()["draining"] is False
    page.click(".node > header button", "Drain")
    confirm(page, "Drain it")
    page.sees("draining", within=".node > header")
    assert fleet.alive()["draining"] is True
    page.click(".node > header button", "Take")
    confirm(page, "Take it back")
    page.until("document.querySelector('.node .chip.warn').hidden", "it is back")
    assert fleet.alive()["draining"] is False
    page.click("#tab-chat")
    page.sees("ok", within="#messages")


def test_an_operator_cancels_what_runs_and_unloads_a_model(fleet: Fleet, visitor: Visitor) -> None:
    """Somebody's request ends by his hand, and a model's memory is freed."""
    page = come_in(fleet, visitor)
    page.click("#keys")
    show_key(page, fleet.boss, "operator")
    page.click("#tab-fleet")
    with fleet.asking(FOREVER) as request:
        page.sees("answering", within="#fleet")
        page.click("#fleet td button", "Cancel")
        confirm(page, "Cancel the request")
        page.sees("The request is cancelled.")
        wait(fleet.idle, "its slot is free")
        ended = {one["id"]: one["state"] for one in fleet.requests()}
        assert ended[request] == "cancelled"
    page.sees("cancelled", within="#fleet")
    page.click(".runtimes li button", "Unload tiny")
    confirm(page, "Unload it")
    page.sees("tiny is unloaded.")
    wait(lambda: "tiny" not in loaded(fleet), "it is unloaded")
    told = "[...document.querySelectorAll('.node .about')].map((one) => one.innerText).join()"
    page.until(f"/Could load: .*tiny/.test({told})", "it is one that could be loaded")


def loaded(fleet: Fleet) -> set[object]:
    """Name the models that are ready."""
    runtimes = cast("list[dict[str, object]]", fleet.alive()["runtimes"])
    return {one["model"] for one in runtimes if one["state"] == "ready"}


def test_a_key_that_is_wrong_is_told(fleet: Fleet, visitor: Visitor) -> None:
    """It is asked for again, with the reason, and forgotten with the tab."""
    page = visitor.open(f"{fleet.url}/#/fleet")
    show_key(page, "rk-nobody-has-this", right=False)
    page.sees("This key is not known here", within="dialog")
    show_key(page, fleet.key)
    page.sees("1 of 1", within=".figures")
    assert page.js("Object.keys(localStorage).some((key) => key.includes('key'))") is False
    other = visitor.open(f"{fleet.url}/stats")
    other.sees("A key is needed")


def test_system_1s_pages_ask_and_show_what_came_of_it(fleet: Fleet, visitor: Visitor) -> None:
    """A turn, a second one that knows the first, and the session that they are, live."""
    ask = visitor.open(f"{fleet.url}/coordinator")
    show_key(ask, fleet.key)
    ask.until("document.querySelector('#model').value !== 'tinyllama-1.1b'", "a model that is here")
    ask.click("#submit")
    assert ask.js("document.activeElement.id") == "prompt"
    ask.click("#max-tokens")
    ask.js("document.querySelector('#max-tokens').value = 4711")
    ask.js("document.querySelector('#ask').noValidate = true")
    ask.click("#prompt")
    ask.write(script("one ", "two"))
    ask.click("#submit")
    ask.sees("done")
    assert ask.text("#answer") == "one two"
    assert ask.js("document.querySelector('#max-tokens').value") == "1000"
    assert "+ 2 tokens" in ask.text("#status")
    ask.js("document.querySelector('#prompt').value = ''")
    ask.click("#prompt")
    ask.write(FOREVER)
    ask.click("#submit")
    ask.sees("and on and on")
    assert ask.js("document.querySelector('#submit').disabled") is True
    ask.click("#stop")
    ask.sees("You stopped it.")
    wait(fleet.idle, "a stopped turn frees its slot")
    before = ask.text("#conversation")
    ask.click("#new")
    assert ask.text("#conversation") != before
    stats = visitor.open(f"{fleet.url}/stats")
    show_key(stats, fleet.key)
    stats.sees("last update")
    stats.until("document.querySelector('.worker').open", "who has sessions is open")
    stats.click(".worker summary")
    stats.until("!document.querySelector('.worker').open", "it is closed")
    polls = cast("int", stats.js(ASKED))
    stats.until(f"{ASKED} > {polls + 1}", "it has asked again")
    assert stats.js("document.querySelector('.worker').open") is False


def test_a_hidden_page_asks_nothing(fleet: Fleet, visitor: Visitor) -> None:
    """While another one is in front the figures are not asked for; then they are again."""
    hidden = visitor.open(f"{fleet.url}/stats")
    show_key(hidden, fleet.key)
    hidden.sees("last update")
    front = visitor.open(f"{fleet.url}/stats")
    show_key(front, fleet.key)
    front.sees("last update")
    hidden.until("document.hidden", "it is behind the other one")
    asked = cast("int", hidden.js(ASKED))
    polls = cast("int", front.js(ASKED))
    front.until(f"{ASKED} > {polls + 1}", "the one in front goes on")
    assert cast("int", hidden.js(ASKED)) <= asked + 1
    hidden.front()
    hidden.until(f"{ASKED} > {asked}", "it asks again once it is seen")
