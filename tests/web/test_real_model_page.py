"""Somebody talks with a real model in a browser, on a machine that asks for no key."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.smollm2 import smollm2_path
from tests.system.processes import Roost, is_ready, wait
from tests.web.browser import Visitor
from tests.web.walk import answered, say

pytestmark = [pytest.mark.web, pytest.mark.slow, pytest.mark.timeout(240)]
LOAD_S = 90.0
"""A machine that is busy may take that long to load a real model."""


def test_a_real_model_is_talked_with(tmp_path: Path, visitor: Visitor) -> None:
    """Two turns of SmolLM2, at most so long as the options say; the second one is warm."""
    serving = ("serve", str(smollm2_path()), "--port", "0", "--ctx", "1024", "--slots", "1")
    with Roost(tmp_path / "roost.log", *serving, home=tmp_path / "home") as roost:
        url = roost.url()
        wait(lambda: is_ready(url), "the model is there")
        page = visitor.open(f"{url}/")
        page.until("document.querySelector('#model').value.includes('smollm2')", "it is offered")
        page.click("#options")
        page.click("dialog input[name=maxTokens]")
        page.write("12")
        page.press("Enter")
        page.until("!document.querySelector('dialog')", "the options are chosen")
        say(page, "Why is the sky blue?")
        assert "The answer has reached its limit of tokens" in answered(page, LOAD_S)
        assert len(page.text(".message.model .prose").split()) > 3
        assert "12 said" in page.text(".message.model .facts")
        say(page, "And at night?")
        answered(page, LOAD_S)
        facts = page.text(".message.model:last-child .facts")
        assert "cached" in facts
        assert "warm" in facts
        page.click("#tab-fleet")
        page.sees("smollm2-135m-instruct", within=".runtimes")
        page.sees("2", within=".figures")
