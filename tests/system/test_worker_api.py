"""A node's `/worker/*` routes as a coordinator of system 1 meets them: a process, real sockets."""

from __future__ import annotations

import json
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.smollm2 import smollm2_path
from tests.system.coordinator import Fields, Reply, Worker
from tests.system.processes import Roost, wait

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
LISTENS = r"worker API listens on (http\S+)"
SCRIPT = '@script {"pieces": ["Hel", "lo"]}'
SLOW = '@script {"pieces": ["a", "b", "c", "d", "e", "f"], "delay_ms": 400}'
Start = Callable[..., Roost]


def worker(start: Start, *arguments: str) -> tuple[Worker, Roost]:
    """Start a roost whose node serves coordinators."""
    always = ("serve", "--backend", "scripted", "--port", "0", "--worker-api", "127.0.0.1:0")
    roost = start(*always, *arguments)
    found = roost.wait_for(LISTENS)
    roost.url()
    return Worker(found[1]), roost


def tokens(listed: Fields) -> list[int]:
    """How many tokens each session of a list has."""
    sessions = listed["sessions"]
    assert isinstance(sessions, list)
    return [session["tokens"] for session in sessions]


def ending(last: Fields) -> tuple[object, object, object]:
    """Why an answer ended, after how many pieces, and how many tokens those were."""
    assert last.keys() == {"finished", "reason", "seq", "roost"}
    counted = last["roost"]
    assert isinstance(counted, dict)
    return last["reason"], last["seq"], counted["completion_tokens"]


def line_of(client: Worker, name: str) -> dict[str, int]:
    """What the list says of one session, its numbers."""
    sessions = client.sessions()["sessions"]
    assert isinstance(sessions, list)
    (line,) = [line for line in sessions if line["session_id"] == name]
    return {key: value for key, value in line.items() if isinstance(value, int)}


def refuses(client: Worker) -> bool:
    """Whether nobody listens there any more."""
    with closing(client.connect()) as connection:
        try:
            connection.connect()
        except ConnectionRefusedError:
            return True
    return False


def at_work(client: Worker) -> int:
    """How many sessions are being created, or are listed as in use."""
    listed = client.sessions()
    sessions, active = listed["sessions"], listed["active_sessions"]
    assert isinstance(sessions, list)
    assert isinstance(active, int)
    in_use = [line for line in sessions if line["idle_ms"] == 0]
    return active - len(sessions) + len(in_use)


def idle_ms(client: Worker) -> int:
    """How long ago the only session was used."""
    sessions = client.sessions()["sessions"]
    assert isinstance(sessions, list)
    (line,) = sessions
    return int(line["idle_ms"])


def test_a_session_lives_from_create_to_delete(start: Start) -> None:
    """Prefill, decode, continue, list, delete: every count exact, and no word in list or log."""
    client, roost = worker(start)
    first = client.prefill("s-1", f"secret canary\n{SCRIPT}")
    assert first.status == 200
    total = first.fields["total_tokens_est"]
    assert isinstance(total, int)
    assert first.fields == {
        "status": "ok",
        "tokens_added": total,
        "total_tokens_est": total,
        "cached_tokens": 0,
    }
    answer = client.decode("s-1")
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    *tokens, last = answer.events
    assert tokens == [{"token": "Hel", "seq": 0}, {"token": "lo", "seq": 1}]
    assert ending(last) == ("stop", 2, len("Hello"))
    again = client.prefill("s-1", f"go on\n{SCRIPT}", "continue")
    known, added = total + len("Hello"), again.fields["tokens_added"]
    assert again.fields["cached_tokens"] in (known, known + 1), (
        "all that was there, not a token less"
    )
    assert again.fields["total_tokens_est"] == known + added  # type: ignore[operator]
    assert client.decode("s-1").text == "Hello"
    listed = client.sessions()
    sessions = listed["sessions"]
    assert isinstance(sessions, list)
    (line,) = sessions
    assert (line["session_id"], line["model"], line["max_tokens"]) == ("s-1", "tiny", 100)
    assert listed["active_sessions"] == 1
    assert listed["max_sessions"] == 100
    health = client.ask("GET", "/worker/health").fields
    assert (health["alive"], health["active_sessions"]) == (True, 1)
    gone = client.ask("DELETE", "/worker/sessions/s-1")
    assert (gone.status, gone.body) == (204, b"")
    assert client.ask("DELETE", "/worker/sessions/s-1").verdict == (404, "session_gone")
    assert client.decode("s-1").verdict == (404, "session_gone")
    assert client.sessions()["sessions"] == []
    assert b"canary" not in json.dumps(listed).encode()
    assert "canary" not in roost.output


def test_what_is_wrong_is_told_in_system_1s_words(start: Start) -> None:
    """Modes, models, ids, bodies, methods: 4xx with a reason each, and the worker goes on."""
    client, _ = worker(start, "--worker-context-tokens", "400")
    assert client.prefill("s", "x", "append").verdict == (400, "invalid_mode")
    assert client.prefill("s", "x", "continue").verdict == (404, "session_gone")
    assert client.prefill("s", "x" * 500).verdict == (413, "prompt_too_long")
    other = Worker(client.url, "other")
    assert client.sessions()["sessions"] == [], "what was refused is not there"
    assert other.prefill("s", "x").verdict == (404, "model_not_found")
    assert client.prefill("s", f"x\n{SCRIPT}").status == 200
    full = client.prefill("s", "x" * 500, "continue")
    assert full.verdict == (409, "session_full")
    before = client.sessions()
    assert other.prefill("s", "x", "continue").verdict == (400, "model_mismatch")
    assert tokens(client.sessions()) == tokens(before), "refused turns have changed nothing"
    assert client.decode("s").text == "Hello"
    before = client.sessions()
    died = client.prefill("s", '@script {"pieces": ["a"], "die_after": 0}', "continue")
    assert died.verdict == (500, "runtime_died")
    assert tokens(client.sessions()) == tokens(before), "what failed has been taken back"
    assert client.prefill("s", SCRIPT, "continue").status == 200
    assert client.decode("s").text == "Hello"
    good = {"session_id": "t", "prompt": "x", "model": "tiny", "max_tokens": 5}
    for name in good:
        for value in (None, "", 0):
            reply = client.ask("POST", "/worker/prefill", good | {name: value})
            assert (reply.status, reply.fields["param"]) == (400, name)
    for wrong in ({"session_id": "../x"}, {"max_tokens": -1}, {"max_tokens": True}, {"prompt": 5}):
        assert client.ask("POST", "/worker/prefill", good | wrong).status == 400
    for body in (b"", b"[]", b"{", b'{"session_id": "\xff"}', b"[" * 100_000):
        assert client.ask("POST", "/worker/decode", body).verdict == (400, "bad_request")
    assert client.ask("POST", "/worker/prefill", b" " * 1_100_000).verdict == (
        *(413, "body_too_large"),
    )
    assert client.ask("GET", "/worker/prefill").verdict == (405, "method_not_allowed")
    assert client.ask("POST", "/worker/sessions/s").verdict == (405, "method_not_allowed")
    assert client.ask("GET", "/worker/nothing").verdict == (404, "not_found")
    assert client.ask("DELETE", "/worker/sessions/../../etc/passwd").status == 404


def test_a_client_that_leaves_leaves_its_session(start: Start) -> None:
    """The stream ends with its client; the session goes on at the next token."""
    client, _ = worker(start)
    assert client.prefill("s", SLOW).status == 200
    with closing(client.connect()) as connection:
        body = json.dumps({"session_id": "s", "max_tokens": 100})
        connection.request("POST", "/worker/decode", body)
        reply = connection.getresponse()
        heard = reply.readline().decode()
        assert json.loads(heard.removeprefix("data: "))["token"] == "a"
        reply.close()
    rest = client.decode("s")
    assert rest.events[-1]["reason"] == "stop"
    assert "abcdef".endswith(rest.text), "what had been said is not said again"
    assert [ending(last) for last in client.decode("s").events] == [("stop", 0, 0)]


def test_deleting_ends_what_runs(start: Start) -> None:
    """A stream whose session is removed ends in an error event, and nothing is left of it."""
    client, _ = worker(start)
    assert client.prefill("s", SLOW).status == 200
    with closing(client.connect()) as connection:
        body = json.dumps({"session_id": "s", "max_tokens": 100})
        connection.request("POST", "/worker/decode", body)
        reply = connection.getresponse()
        reply.readline()
        assert client.ask("DELETE", "/worker/sessions/s").status == 204
        rest = reply.read().decode()
    last = json.loads(rest.strip().split("data: ")[-1])
    assert (last["code"], last["reason"], last["finished"]) == ("session_gone", "error", True)
    assert client.prefill("s", SCRIPT).status == 200, "the name is free again"


def test_sessions_are_limited(start: Start) -> None:
    """One more than there may be is refused while the others are young, and evicts the oldest."""
    young, _ = worker(start, "--worker-sessions-max", "2", "--worker-young-s", "3600")
    for name in ("a", "b"):
        assert young.prefill(name, SCRIPT).status == 200
    assert young.prefill("c", SCRIPT).verdict == (503, "max_sessions_exceeded")
    old, _ = worker(start, "--worker-sessions-max", "2", "--worker-young-s", "0")
    for name in ("a", "b", "c"):
        assert old.prefill(name, SCRIPT).status == 200
    assert old.decode("a").verdict == (404, "session_gone")
    assert old.decode("b").text == "Hello"


def test_one_thing_at_a_time_in_a_session(start: Start) -> None:
    """A second decode waits for the first, and is told when that takes too long."""
    client, _ = worker(start, "--worker-busy-wait-s", "0.1")
    assert client.prefill("s", SLOW).status == 200
    heard: list[Reply] = []
    first = threading.Thread(target=lambda: heard.append(client.decode("s")))
    first.start()
    wait(lambda: idle_ms(client) == 0, "the first decode runs")
    assert client.decode("s").verdict == (409, "session_busy")
    first.join()
    assert heard[0].text == "abcdef"


def test_silence_is_filled_with_comments(start: Start) -> None:
    """While a model thinks, its stream says that it is alive."""
    client, _ = worker(start, "--stream-keepalive-s", "0.2")
    assert client.prefill("s", '@script {"pieces": ["a"], "delay_ms": 900}').status == 200
    reply = client.decode("s")
    assert reply.body.startswith(b": alive\n\n")
    assert reply.text == "a"


def test_a_slow_reader_stops_its_own_decode_alone(start: Start) -> None:
    """Nobody reads: the decode waits, a neighbour is served, and in the end nothing is missing."""
    buffers = ("--stream-send-buffer-bytes", "4096", "--slots", "2")
    client, _ = worker(start, "--ctx", "60000", "--worker-context-tokens", "40000", *buffers)
    pieces = [f"{number % 10}" for number in range(5000)]
    script = f'@script {{"pieces": {json.dumps(pieces, separators=(",", ":"))}}}'
    assert client.prefill("s", script, most=20_000).status == 200
    (before,) = tokens(client.sessions())
    with socket.socket() as narrow:
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        at = urlsplit(client.url)
        narrow.connect((at.hostname or "", at.port or 0))
        connection = client.connect()
        connection.sock = narrow
        connection.request("POST", "/worker/decode", '{"session_id": "s", "max_tokens": 20000}')
        reply = connection.getresponse()
        assert client.prefill("other", SCRIPT).status == 200
        assert client.decode("other").text == "Hello"
        held = tokens(client.sessions())[1] - before
        assert held < 5000, "it does not run ahead of its reader"
        whole = Reply(200, reply.read(), {})
    assert whole.text == "".join(pieces)
    assert whole.events[-1]["finished"] is True
    assert [event["seq"] for event in whole.events] == list(range(len(whole.events)))


def test_a_node_that_is_told_to_end_lets_decodes_end(start: Start) -> None:
    """`roost node` serves both at once; after TERM what runs runs out, and nothing new begins."""
    gateway = start("gateway", "--port", "0")
    token = start("token", "--json")
    assert token.ends() == 0
    joined = ("--join", gateway.url(), "--token", json.loads(token.output)["token"])
    node = start("node", *joined, "--backend", "scripted", "--worker-api", "127.0.0.1:0")
    client = Worker(node.wait_for(LISTENS)[1])
    assert client.prefill("s", SLOW).status == 200
    heard: list[Reply] = []
    first = threading.Thread(target=lambda: heard.append(client.decode("s")))
    first.start()
    wait(lambda: idle_ms(client) == 0, "the decode runs")
    node.signal(signal.SIGTERM)
    wait(lambda: client.ask("GET", "/worker/health").fields["draining"] is True, "it drains")
    assert client.prefill("t", SCRIPT).verdict == (503, "draining")
    first.join()
    assert heard[0].text == "abcdef"
    assert heard[0].events[-1]["finished"] is True
    assert node.ends() == 0


def test_a_server_that_is_told_to_end_lets_decodes_end_and_be_read(start: Start) -> None:
    """So does `roost serve`: one decode runs, of another everything is said and little read."""
    buffers = ("--stream-send-buffer-bytes", "4096", "--slots", "2")
    client, roost = worker(start, "--ctx", "60000", "--worker-context-tokens", "60000", *buffers)
    pieces = [f"{number % 10}" * 1000 for number in range(28)]
    script = f'@script {{"pieces": {json.dumps(pieces)}}}'
    assert client.prefill("said", script, most=30_000).status == 200
    assert client.prefill("runs", SLOW).status == 200
    heard: list[Reply] = []
    running = threading.Thread(target=lambda: heard.append(client.decode("runs")))
    with socket.socket() as narrow:
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        at = urlsplit(client.url)
        narrow.connect((at.hostname or "", at.port or 0))
        connection = client.connect()
        connection.sock = narrow
        connection.request("POST", "/worker/decode", '{"session_id": "said", "max_tokens": 30000}')
        reply = connection.getresponse()
        wait(lambda: line_of(client, "said")["idle_ms"] > 0, "the node is through with it")
        running.start()
        wait(lambda: line_of(client, "runs")["idle_ms"] == 0, "another one runs")
        roost.signal(signal.SIGTERM)
        running.join()
        assert heard[0].text == "abcdef"
        assert heard[0].events[-1]["finished"] is True
        wait(lambda: refuses(client), "only its readers keep it")
        whole = Reply(200, reply.read(), {})
    assert whole.text == "".join(pieces)
    assert whole.events[-1]["finished"] is True
    assert roost.ends() == 0


def test_other_machines_need_a_key(start: Start, home: Path) -> None:
    """Beyond loopback nothing listens without a key; once there is one it is asked for here too."""
    refused = start("serve", "--port", "0", "--worker-api", "0.0.0.0:0")
    assert refused.ends() == 2
    assert "roost keys add" in refused.output
    made = start("keys", "add", "coordinator")
    assert made.ends() == 0
    (secret,) = [line for line in made.output.splitlines() if " " not in line]
    client, _ = worker(start)
    for method, path in (
        ("POST", "/worker/prefill"),
        ("POST", "/worker/decode"),
        ("GET", "/worker/sessions"),
        ("GET", "/worker/health"),
        ("DELETE", "/worker/sessions/s"),
    ):
        assert client.ask(method, path).verdict == (401, "unauthorized")
    keyed = Worker(client.url, Authorization=f"Bearer {secret}")
    assert keyed.prefill("s", SCRIPT).status == 200
    assert Worker(client.url, Host="evil.example").ask("GET", "/worker/health").status == 403


@pytest.mark.engine
def test_a_real_model_remembers_and_computes_only_what_is_new(tmp_path: Path) -> None:
    """SmolLM2: the second turn's cached tokens are its history, by the runtime's own count."""
    arguments = ("--port", "0", "--slots", "2", "--ctx", "2048", "--threads", "1")
    always = ("serve", str(smollm2_path()), "--worker-api", "127.0.0.1:0")
    with Roost(tmp_path / "log", *always, *arguments, home=tmp_path / "home") as roost:
        model = "smollm2-135m-instruct"
        client = Worker(roost.wait_for(LISTENS)[1], model)
        roost.url()
        first = client.prefill("s", "My name is Ada. Say hello. " * 20, most=12).fields
        assert first["cached_tokens"] == 0
        answer = client.decode("s", most=1000)
        assert answer.events[-1]["finished"] is True
        assert 0 < int(str(answer.events[-1]["seq"])) <= 12, "no more than the prefill allowed"
        for other in ("t", "u", "v"):
            assert client.prefill(other, f"Count to {other}. " * 20).status == 200
        held = line_of(client, "s")
        second = client.prefill("s", "And what is my name?", "continue", most=8).fields
        cached, added = second["cached_tokens"], second["tokens_added"]
        assert isinstance(cached, int)
        assert isinstance(added, int)
        assert cached >= 0.95 * held["tokens"], "it was put aside for others and came back"
        assert added < 40
        assert held["kv_cache_bytes"] == held["tokens"] * 2 * 30 * 3 * 64 * 2
        assert client.decode("s").text.strip()


def test_a_prefill_whose_client_leaves_is_taken_back(start: Start) -> None:
    """The slot is free at once, a new session is gone, an old one is as it was."""
    client, _ = worker(start, "--slots", "1")
    slow = '@script {"pieces": ["a"], "prefill_ms_per_token": 200}'
    assert client.prefill("old", SCRIPT).status == 200
    assert client.decode("old").text == "Hello"
    before = tokens(client.sessions())
    for session, mode in (("new", "create"), ("old", "continue")):
        body = {"session_id": session, "prompt": slow, "model": "tiny", "max_tokens": 5}
        with closing(client.connect()) as connection:
            connection.request("POST", "/worker/prefill", json.dumps(body | {"mode": mode}))
            wait(lambda: at_work(client) == 1, "the prefill has begun")
            busy = client.prefill("third", SCRIPT)
            assert busy.verdict == (429, "node_busy"), "one slot, and it is taken"
            assert int(busy.headers["retry-after"]) >= 1
        wait(lambda: client.prefill("third", SCRIPT).status == 200, "the slot is free again")
        assert client.ask("DELETE", "/worker/sessions/third").status == 204
        assert tokens(client.sessions()) == before
    assert client.prefill("new", SCRIPT, "continue").verdict == (404, "session_gone")
    assert client.prefill("old", SCRIPT, "continue").status == 200
