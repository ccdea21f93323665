"""How serving verbs end: by which signal, with which code, and what is left of what they did."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable

import pytest
from openai import APIError, APIStatusError, OpenAI

from tests.system.conftest import MODEL, Start
from tests.system.processes import Roost, fetch, gone, is_ready, wait

Client = Callable[[str], OpenAI]
SCRIPTED = ("--backend", "scripted", "--ctx", "32768")
ENDLESS = "@script " + json.dumps({"pieces": ["x"] * 900, "delay_ms": 50})
SHORT = "@script " + json.dumps({"pieces": ["tick "] * 20, "delay_ms": 40})


def stream(client: OpenAI, prompt: str) -> Callable[[], str]:
    """Begin an answer; the function that is returned reads it to its end."""
    chunks = iter(
        client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": prompt}], stream=True
        )
    )
    next(chunks)
    return lambda: "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)


def test_a_grace_that_runs_out_is_abrupt_with_143(start: Start, openai: Client) -> None:
    """While it drains nobody new is let in; then the answer is cut, and its client hears of it."""
    roost = start("serve", "--port", "0", *SCRIPTED, "--drain-grace-s", "1.5")
    url = roost.url()
    client = openai(url)
    rest = stream(client, ENDLESS)
    children = roost.descendants()
    roost.signal(signal.SIGTERM)
    roost.wait_for("stopping")
    with pytest.raises(APIError) as refused:
        stream(client, SHORT)
    told = refused.value.response if isinstance(refused.value, APIStatusError) else None
    assert told is None or (told.status_code, "retry-after" in told.headers) == (503, True)
    with pytest.raises(APIError):
        rest()
    assert roost.ends() == 143
    assert gone(children)


def test_a_term_to_the_whole_group_drains_like_one_to_the_process(
    start: Start, openai: Client
) -> None:
    """What a service manager sends: the running answer completes, and then it ends with 0."""
    roost = start("serve", "--port", "0", *SCRIPTED)
    rest = stream(openai(roost.url()), SHORT)
    os.killpg(roost.process.pid, signal.SIGTERM)
    assert rest().count("tick") == 20
    assert roost.ends() == 0


def joined(start: Start) -> tuple[Roost, Roost, str]:
    """A gateway, a node that has joined it, and where they serve."""
    gateway = start("gateway", "--port", "0")
    url = gateway.url()
    token = start("token", "--json")
    assert token.ends() == 0
    file = token.output_path.with_suffix(".token")
    file.write_text(json.loads(token.output)["token"])
    node = start("node", "--join", url, "--token-file", str(file), *SCRIPTED)
    wait(lambda: is_ready(url), "the node has joined")
    return gateway, node, url


def test_nodes_and_gateways_end_with_the_codes_of_serve(start: Start, openai: Client) -> None:
    """A second TERM ends a node that drains with 143, Ctrl-C a gateway with 130."""
    gateway, node, url = joined(start)
    rest = stream(openai(url), ENDLESS)
    node.signal(signal.SIGTERM)
    node.wait_for("stopping")
    assert node.process.poll() is None
    node.signal(signal.SIGTERM)
    with pytest.raises(APIError):
        rest()
    assert node.ends() == 143
    gateway.signal(signal.SIGINT)
    assert gateway.ends() == 130


def test_servers_of_others_outlive_the_gateway_in_front_of_them(
    start: Start, openai: Client
) -> None:
    """They are referenced and never owned: the answer is cut, its server serves on."""
    server = start("serve", "--port", "0", *SCRIPTED)
    gateway = start("gateway", "--port", "0", "--upstream", server.url())
    url = gateway.url()
    wait(lambda: is_ready(url), "the server is known")
    rest = stream(openai(url), ENDLESS)
    gateway.signal(signal.SIGINT)
    with pytest.raises(APIError):
        rest()
    assert gateway.ends() == 130
    fetch(server.url(), "/ready")
    assert stream(openai(server.url()), SHORT)().count("tick") == 20
    server.signal(signal.SIGTERM)
    assert server.ends() == 0
