"""`roost serve` as a process: the official client, signals, exit codes, bad starts."""

from __future__ import annotations

import json
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from openai import APIError, BadRequestError, NotFoundError, OpenAI

from tests.store.gguf_writer import Typed, tiny
from tests.system.conftest import MODEL, Start
from tests.system.processes import BEYOND, ENDS_S, Roost, fetch, gone, wait

Client = Callable[[str], OpenAI]
SCRIPTED = ("serve", "--port", "0", "--backend", "scripted", "--ctx", "32768")


def script(**what: object) -> str:
    """Write a prompt that tells the scripted backend what to do."""
    return "@script " + json.dumps(what)


def test_the_official_client_chats_completes_and_lists(start: Start, openai: Client) -> None:
    """Every call of the client that this version serves gives what OpenAI's types promise."""
    url = start(*SCRIPTED).url()
    # Whoever was told where it serves is served: its own node is there before that is said.
    fetch(url, "/ready")
    client = openai(url)
    chat = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "say it back: naïve 😀"}]
    )
    assert chat.choices[0].message.content == "say it back: naïve 😀"
    assert chat.choices[0].finish_reason == "stop"
    assert chat.usage is not None
    assert chat.usage.total_tokens == chat.usage.prompt_tokens + chat.usage.completion_tokens

    stream = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": script(pieces=["a", "b", "c d"])}],
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == "abc d"
    assert chunks[-1].usage is not None

    completion = client.completions.create(model=MODEL, prompt="once", max_tokens=2)
    assert completion.choices[0].finish_reason == "length"
    assert completion.usage is not None
    assert completion.usage.completion_tokens == 2

    # What its node says of itself comes with its first look at the machine, after it has joined.
    def promised() -> dict[str, str]:
        nodes = json.loads(fetch(url, "/roost/v1/capabilities"))["data"]["nodes"]
        models = [model for node in nodes for model in node["models"]]
        return {p["id"]: p["status"] for model in models for p in model["promises"]}

    wait(lambda: promised().get("generation.chat") == "supported", "the node has looked at itself")
    assert promised()["generation.logprobs"] == "unsupported"
    told = json.loads(fetch(url, "/roost/v1/observability"))["data"]
    assert (told["totals"]["completed"], told["totals"]["errors"]) == (3, 0)
    assert told["memory"][0]["host"]["capacity_bytes"] > 0

    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).owned_by == "roost"


def test_the_official_client_gets_errors_it_understands(start: Start, openai: Client) -> None:
    """Status, code and field of each mistake arrive as the client's own exceptions."""
    client = openai(start(*SCRIPTED, "--ctx", "200").url())
    with pytest.raises(NotFoundError) as unknown:
        client.chat.completions.create(model="nope", messages=[{"role": "user", "content": "x"}])
    assert unknown.value.code == "model_not_found"
    with pytest.raises(BadRequestError) as long:
        client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "word " * 100}]
        )
    assert long.value.code == "context_length_exceeded"
    assert "maximum context length is 200 tokens" in str(long.value)
    # The same past in turns: who asks for it has the oldest left out, and is told how many.
    turns = [{"role": "user", "content": "word " * 10}] * 9
    trimmed = client.chat.completions.with_raw_response.create(
        model=MODEL,
        messages=turns,  # type: ignore[arg-type]
        max_tokens=20,
        extra_headers={"x-roost-context": "trim"},
    )
    answer = trimmed.parse()
    assert answer.usage is not None
    assert answer.usage.prompt_tokens < 200
    gone = int(trimmed.headers["x-roost-trimmed-messages"])
    assert 0 < gone < 9
    assert answer.model_extra is not None
    assert answer.model_extra["roost"]["trimmed_messages"] == gone
    with pytest.raises(BadRequestError):
        client.chat.completions.create(
            model=MODEL,
            messages=turns,  # type: ignore[arg-type]
            extra_body={"roost": {"context": "reject"}},
        )
    with pytest.raises(APIError) as cut:
        list(
            client.chat.completions.create(
                model=MODEL,
                messages=[{"role": "user", "content": script(pieces=["a"] * 9, fail_after=2)}],
                stream=True,
            )
        )
    assert cut.value.code == "runtime_error"


def test_a_term_lets_a_running_answer_end_and_exits_with_0(start: Start, openai: Client) -> None:
    """Draining loses nothing; an idle server is gone at once."""
    roost = start(*SCRIPTED)
    client = openai(roost.url())
    stream = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": script(pieces=["tick "] * 20, delay_ms=40)}],
        stream=True,
    )
    chunks = iter(stream)
    next(chunks)
    roost.signal(signal.SIGTERM)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text.count("tick") == 20
    assert roost.ends(ENDS_S) == 0


def test_an_interrupt_ends_everything_at_once_with_130(start: Start, openai: Client) -> None:
    """Ctrl-C does not wait for an answer, and leaves no process."""
    roost = start(*SCRIPTED)
    client = openai(roost.url())
    stream = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": script(pieces=["x"] * 900, delay_ms=50)}],
        stream=True,
    )
    chunks = iter(stream)
    next(chunks)
    children = roost.descendants()
    roost.signal(signal.SIGINT)
    with pytest.raises(APIError):
        list(chunks)
    assert roost.ends(ENDS_S) == 130
    assert gone(children)


def test_a_second_term_is_abrupt_with_143(start: Start, openai: Client) -> None:
    """Who asks twice does not want to wait for the grace."""
    roost = start(*SCRIPTED)
    client = openai(roost.url())
    stream = client.chat.completions.create(
        model=MODEL,
        messages=[{"role": "user", "content": script(pieces=["x"] * 900, delay_ms=50)}],
        stream=True,
    )
    next(iter(stream))
    roost.signal(signal.SIGTERM)
    # Two that come before it has looked at one are one.
    roost.wait_for("stopping")
    with pytest.raises(AssertionError):
        _ends_within(roost, 0.5)
    roost.signal(signal.SIGTERM)
    assert roost.ends(ENDS_S) == 143
    stream.close()


def _ends_within(roost: Roost, seconds: float) -> None:
    try:
        roost.process.wait(seconds)
    except Exception as error:
        raise AssertionError from error


def test_an_address_in_use_is_said_in_one_line(start: Start) -> None:
    """No traceback for what a person can mend."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        roost = start("serve", "--port", port, "--backend", "scripted")
        assert roost.ends() == 1
    assert "roost serve: " in roost.output
    assert "in use" in roost.output
    assert "Traceback" not in roost.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--host", "0.0.0.0"), "roost keys add"),
        (("--default-model", "nope"), "no model 'nope'"),
        (("--backend", "scriptd"), "there is no backend 'scriptd'"),
        (("--tls-cert", "/no/such", "--tls-key", "/no/such"), "--tls-cert"),
        (("--queue-length", "-3"), "--queue-length"),
    ],
)
def test_a_start_that_cannot_be_right_is_refused(
    start: Start, arguments: tuple[str, ...], words: str
) -> None:
    """Exit code 2 and one line that says what to do."""
    roost = start(*SCRIPTED, *arguments)
    assert roost.ends() == 2
    assert words in roost.output
    assert "Traceback" not in roost.output


@pytest.mark.parametrize(("content", "words"), [(None, "no such file"), (b"GGUF nonsense", "GGUF")])
def test_a_model_file_that_cannot_be_served_ends_it_with_1(
    start: Start, tmp_path: Path, content: bytes | None, words: str
) -> None:
    """Absent, or no model: one line, and the exit code of system 1's workers."""
    file = tmp_path / "model.gguf"
    if content is not None:
        file.write_bytes(content)
    roost = start(*SCRIPTED, str(file))
    assert roost.ends() == 1
    assert words in roost.output
    assert "Traceback" not in roost.output


def test_beyond_loopback_tls_is_taken_or_waived_out_loud(start: Start, home: Path) -> None:
    """With a key, plain HTTP is served to other machines only if that was said."""
    made = start("keys", "add", "me")
    assert made.ends() == 0
    served = start(*SCRIPTED, "--host", BEYOND)
    assert served.url().startswith("https://")
    assert str(home / "certificate.pem") in served.output
    plain = start(*SCRIPTED, "--host", BEYOND, "--insecure-http")
    assert plain.url().startswith("http://")
    assert "WITHOUT TLS" in plain.output


def test_a_key_counts_at_once_and_a_revoked_one_no_more(start: Start, openai: Client) -> None:
    """A running server takes a new key into account at once, without a restart."""
    url = start(*SCRIPTED).url()
    client = openai(url)
    assert client.models.list().data
    added = start("keys", "add", "me", "--json")
    assert added.ends() == 0
    key = json.loads(added.output)["key"]
    with pytest.raises(APIError) as refused:
        client.models.list()
    assert refused.value.code == "unauthorized"
    assert client.with_options(api_key=key).models.list().data
    revoked = start("keys", "revoke", json.loads(added.output)["id"])
    assert revoked.ends() == 0
    with pytest.raises(APIError):
        client.with_options(api_key=key).models.list()


def test_hup_reads_the_settings_anew_and_ends_nothing(start: Start, home: Path) -> None:
    """A reload changes what can change, and a mistake in the file changes nothing."""
    roost = start(*SCRIPTED)
    roost.url()
    (home / "roost.toml").write_text("log_level = 'debug'\n")
    roost.signal(signal.SIGHUP)
    url = roost.url()
    fetch(url, "/health")
    (home / "roost.toml").write_text("log_level = 'shouting'\n")
    roost.signal(signal.SIGHUP)
    roost.wait_for("reload_refused")
    fetch(url, "/health")


def test_forgetting_every_key_does_not_open_a_server_to_other_machines(start: Start) -> None:
    """Beyond loopback a key is needed as long as the server runs."""
    made = start("keys", "add", "me", "--json")
    assert made.ends() == 0
    name = json.loads(made.output)["id"]
    roost = start(*SCRIPTED, "--host", "0.0.0.0", "--insecure-http")
    port = roost.url().rsplit(":", 1)[1]
    for action in (("revoke", name), ("forget",)):
        assert start("keys", *action).ends() == 0
    with pytest.raises(AssertionError, match="unauthorized"):
        fetch(f"http://127.0.0.1:{port}", "/v1/models")


def test_a_flag_of_both_modes_is_taken_by_both(start: Start) -> None:
    """What bounds the fleet's queue by one flag bounds that of a front as well."""
    start("gateway", "--port", "0", "--queue-length", "3", "--max-in-flight-decodes", "2").url()
    start("gateway", "--port", "0", "--upstream", "http://127.0.0.1:1", "--queue-length", "3").url()


ANOTHER = {
    "general.name": Typed("str", "another"),
    "llama.context_length": Typed("u32", 65_536),
}
LINK = ("--link-dead-s", "2.4", "--link-stale-s", "1.2", "--link-suspect-s", "0.6")


def pass_time(seconds: float) -> None:
    """Let real time pass: what is stopped cannot tell when it has noticed anything."""
    until = time.monotonic() + seconds
    wait(lambda: time.monotonic() >= until, "time passes")


def test_a_stopped_process_serves_again_when_it_continues(start: Start, openai: Client) -> None:
    """SIGSTOP for longer than a link's death, as a debugger or a suspended machine does it."""
    roost = start(*SCRIPTED, *LINK, "--link-ping-s", "0.2")
    client = openai(roost.url())

    def ask() -> str | None:
        reply = client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": "there?"}]
        )
        return reply.choices[0].message.content

    assert ask() == "there?"
    for _ in range(2):
        roost.signal(signal.SIGSTOP)
        pass_time(3)
        roost.signal(signal.SIGCONT)
        assert ask() == "there?"
    assert "link_down" not in roost.output


def test_models_come_and_go_while_it_serves(
    start: Start, openai: Client, home: Path, tmp_path: Path
) -> None:
    """`roost pull` and `roost models rm` in another terminal are seen within the time of a look."""
    client = openai(start(*SCRIPTED, "--models-poll-s", "0.1").url())

    def listed() -> set[str]:
        return {model.id for model in client.models.list()}

    wait(lambda: listed() == {MODEL}, "the first model is listed")
    source = tmp_path / "another.gguf"
    source.write_bytes(tiny(**ANOTHER))
    assert start("pull", f"file:{source}").ends() == 0
    wait(lambda: listed() == {MODEL, "another"}, "the new model is listed")
    reply = client.chat.completions.create(
        model="another", messages=[{"role": "user", "content": "hello"}]
    )
    assert reply.choices[0].message.content == "hello"
    stream = client.chat.completions.create(
        model="another",
        messages=[{"role": "user", "content": script(pieces=["tick "] * 30, delay_ms=40)}],
        stream=True,
    )
    chunks = iter(stream)
    next(chunks)
    assert start("models", "rm", "another").ends() == 0
    wait(lambda: listed() == {MODEL}, "the removed model is listed no more")
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text.count("tick") == 30
    with pytest.raises(NotFoundError):
        client.chat.completions.create(
            model="another", messages=[{"role": "user", "content": "hello"}]
        )
