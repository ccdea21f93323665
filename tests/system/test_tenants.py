"""What a key's requests leave in a real runtime, and that no other key can find out about it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from openai import OpenAI

from tests.smollm2 import smollm2_path
from tests.system.processes import Roost, is_ready, wait

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(240)]
MODEL = "smollm2-135m-instruct"
SPIES = 3
SECRET = "The treasure of the old captain lies under " + "sand palm rock wave gull wreck " * 50
"""Longer than what is worth a copy (`sessions.shared_tokens_min`)."""
OTHER = "The recipe of the young baker begins with " + "salt flour milk yeast oven bread " * 50
"""As long, and asked by nobody before."""


def added_key(home: Path, name: str) -> str:
    """Add a key, as a person does."""
    command = [sys.executable, "-m", "roost", "keys", "add", name, "--json", "--home", str(home)]
    ran = subprocess.run(command, capture_output=True, check=True, timeout=60)
    return str(json.loads(ran.stdout)["key"])


def asked(url: str, key: str, prompt: str) -> tuple[float, int, int]:
    """Ask for one token: seconds, and how many tokens the prompt had and how many were cached."""
    client = OpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=200)
    began_s = time.monotonic()
    usage = client.completions.create(model=MODEL, prompt=prompt, max_tokens=1).usage
    took_s = time.monotonic() - began_s
    assert usage is not None
    assert usage.prompt_tokens_details is not None
    return took_s, usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens or 0


def test_neither_times_nor_counts_tell_what_another_key_has_asked(tmp_path: Path) -> None:
    """The very same prompt, and another one with its beginning, take as long as a new one.

    Least times are compared, which a busy machine makes longer and never shorter.
    """
    home = tmp_path / "home"
    mine = added_key(home, "mine")
    spies = [added_key(home, f"spy{number}") for number in range(SPIES)]
    arguments = ("serve", str(smollm2_path()), "--port", "0", "--slots", "2", "--ctx", "1024")
    with Roost(tmp_path / "roost.log", *arguments, home=home) as roost:
        url = roost.url()
        wait(lambda: is_ready(url), "it serves")
        _, prompt, _ = asked(url, mine, SECRET)
        assert prompt > 300
        again = [asked(url, mine, SECRET) for _ in range(4)]
        assert {cached for _, _, cached in again} == {prompt - 1}
        tried: dict[str, list[float]] = {"same": [], "begins like it": [], "new": []}
        for number, spy in enumerate(spies):
            for name, words in (
                ("same", SECRET),
                ("new", f"{number} {OTHER}"),
                ("begins like it", f"{SECRET} {number}"),
            ):
                # A key of its own for each: nobody is to profit from what it has asked itself.
                key = spy if name == "same" else added_key(home, f"{name[:3]}{number}")
                took_s, _, cached = asked(url, key, words)
                assert cached == 0, name
                tried[name].append(took_s)
        least = {name: min(times) for name, times in tried.items()}
        assert min(took_s for took_s, _, _ in again) < least["new"] / 3
        assert least["same"] > least["new"] / 2
        assert least["begins like it"] > least["new"] / 2
