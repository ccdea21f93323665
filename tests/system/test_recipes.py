"""Two nodes that know nothing of each other, and programs of six kinds that ask either."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from tests.smollm2 import smollm2_path
from tests.system.processes import Roost, fetch, gone, wait

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(240)]
MODEL = "smollm2-135m-instruct"
TURNS = 3
SMALL = ("--port", "0", "--slots", "4", "--ctx", "512", "--placement-keep", f"{MODEL}=1")

HEAD = """
import json, subprocess, sys
from http.client import HTTPConnection
from urllib.parse import urlsplit
urls = sys.argv[1:]
said = [{"role": "user", "content": "Tell me of a river."}]
def each(ask):
    for turn in range(TURNS):
        for url in urls:
            assert ask(url, turn), "an empty answer"
""".replace("TURNS", str(TURNS))

PROGRAMS = {
    "openai": """
from openai import OpenAI
def ask(url, turn):
    client = OpenAI(base_url=url + "/v1", api_key="-", max_retries=0)
    create = client.chat.completions.create
    parts = create(model=MODEL, messages=said, max_tokens=8, stream=True)
    return "".join(one.choices[0].delta.content or "" for one in parts if one.choices)
""",
    "responses": """
from openai import OpenAI
def ask(url, turn):
    client = OpenAI(base_url=url + "/v1", api_key="-", max_retries=0)
    return client.responses.create(model=MODEL, input="Hello", max_output_tokens=16).output_text
""",
    "anthropic": """
from anthropic import Anthropic
def ask(url, turn):
    client = Anthropic(base_url=url, api_key="-", max_retries=0)
    answer = client.messages.create(model=MODEL, max_tokens=8, messages=said)
    return answer.content[0].text
""",
    "plain": """
def ask(url, turn):
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname, parts.port, timeout=200)
    body = {"model": MODEL, "prompt": "The river", "max_tokens": 8}
    connection.request("POST", "/v1/completions", json.dumps(body))
    reply = connection.getresponse()
    assert reply.status == 200, reply.read()
    return json.loads(reply.read())["choices"][0]["text"]
""",
    "conversation": """
def ask(url, turn):
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname, parts.port, timeout=200)
    body = {"conversation_id": "trip", "prompt": "And then?", "model": MODEL, "max_tokens": 8}
    connection.request("POST", "/coordinator/infer", json.dumps(body))
    reply = connection.getresponse()
    assert reply.status == 200, reply.read()
    return "token" in reply.read().decode()
""",
    "roost run": """
def ask(url, turn):
    command = [sys.executable, "-m", "roost", "run", MODEL, "Hello", "--max-tokens", "8"]
    ran = subprocess.run([*command, "--url", url], capture_output=True, timeout=200, check=True)
    return ran.stdout.strip()
""",
}


def client(kind: str, *urls: str) -> subprocess.Popen[str]:
    """Start a program that asks these servers in turn."""
    code = "\n".join((HEAD, f"MODEL = {MODEL!r}", PROGRAMS[kind], "each(ask)"))
    return subprocess.Popen(
        [sys.executable, "-c", code, *urls],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def outcomes(*urls: str) -> dict[str, tuple[int, str]]:
    """How each program ended that asked these servers while all others did, and its last words."""
    with ExitStack() as stack:
        running = {kind: stack.enter_context(client(kind, *urls)) for kind in PROGRAMS}
        for program in running.values():
            stack.callback(program.kill)
        said = {kind: program.communicate(timeout=200)[0] for kind, program in running.items()}
        return {kind: (running[kind].returncode, said[kind][-400:]) for kind in PROGRAMS}


def test_two_nodes_that_know_nothing_of_each_other_and_six_programs(tmp_path: Path) -> None:
    """Either serves whoever asks; the end of one of them is nothing to the other."""
    with ExitStack() as stack:
        nodes = []
        for name in ("one", "two"):
            home = tmp_path / name / "home"
            home.parent.mkdir()
            log = tmp_path / f"{name}.log"
            arguments = ("serve", str(smollm2_path()), *SMALL)
            nodes.append(stack.enter_context(Roost(log, *arguments, home=home)))
        one, two = nodes
        urls = [one.url(), two.url()]
        assert outcomes(*urls) == dict.fromkeys(PROGRAMS, (0, ""))
        for url in urls:
            told = msgspec.json.decode(fetch(url, "/roost/v1/fleet"))
            assert len(told["nodes"]) == 1
            assert told["statistics"]["leases"] == 0
        family = one.descendants()
        one.signal(signal.SIGKILL)
        wait(lambda: gone(family), "nothing of the one that was killed is left")
        assert outcomes(urls[1]) == dict.fromkeys(PROGRAMS, (0, ""))
        refused = outcomes(urls[0])
        assert all(code != 0 for code, _ in refused.values()), refused
