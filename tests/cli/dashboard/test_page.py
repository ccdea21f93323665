"""The page made of one look: what is said of whom, and what is not known."""

from __future__ import annotations

from datetime import UTC

import msgspec

from roost.cli.dashboard.feed import Feed, Fleet, Happening, Hint, Node, Observed, Runtime
from roost.cli.dashboard.page import Page, Standing, page_of
from roost.cli.dashboard.plain import plain
from roost.cli.dashboard.tables import NodeTarget, RequestTarget, RuntimeTarget, Table
from tests.cli.dashboard.kit import ATTIC, FEED, GARAGE, OBSERVED

HERE = Standing("http://gateway:7878")


def page(feed: Feed | None = FEED, standing: Standing = HERE) -> Page:
    """Make the page."""
    return page_of(feed, standing, UTC)


def texts(table: Table) -> list[dict[str, str]]:
    """Give each row by its columns."""
    titles = [column.title for column in table.columns]
    return [
        dict(zip(titles, (cell.text for cell in line.cells), strict=True)) for line in table.lines
    ]


def test_title_and_summary() -> None:
    """Who is looked at, as whom, and how it does as a whole."""
    assert page().title == "roost top  http://gateway:7878  admin  up 1h01m"
    standing = msgspec.structs.replace(HERE, rates=(1.0, 8.0), paused=True)
    assert page(FEED, standing).title.endswith("PAUSED")
    assert page(FEED, standing).summary == (
        "12 tok/s ▂█  1 run  1 wait  TTFT 4.0s  5 done  1 failed  2 cancelled"
    )


def test_before_the_first_answer_there_is_nothing_to_say() -> None:
    """And no figure that nobody knows."""
    empty = page(None)
    assert (empty.title, empty.summary) == ("roost top  http://gateway:7878", "")
    assert [table.lines for table in empty.tables] == [()] * 5


def test_what_a_gateway_does_not_tell_is_no_zero() -> None:
    """One in front of other servers has nodes, and knows nothing of requests."""
    bare = page(Feed(fleet=Fleet((Node("upstream-1", state="alive", max_in_flight=2),))))
    assert bare.summary == (
        "This gateway stands in front of other servers, and tells of no requests."
    )
    assert bare.requests.nothing == bare.queue.nothing == "not told by this gateway"
    assert texts(bare.nodes)[0]["BUSY"] == "0/2"
    silent = page(Feed(Observed(observed_at_ms=1)))
    assert silent.summary.startswith("- tok/s  0 run")
    assert silent.requests.nothing == "no request"


def test_nodes() -> None:
    """The fullest memory; one that is gone is dead, also if it was drained."""
    garage, attic = texts(page().nodes)
    assert garage == {
        "NODE": "garage",
        "STATE": "alive",
        "BUSY": "1/4",
        "TOK/S": "12",
        "MEMORY": "████████ 95% cuda",
        "MODELS": "big, tiny",
        "LOAD": "0.5",
        "ID": "n-garage",
    }
    assert (attic["STATE"], attic["TOK/S"], attic["MEMORY"]) == ("dead", "-", "-")
    assert (attic["BUSY"], attic["MODELS"], attic["LOAD"]) == ("0/-", "none of 1 loaded", "-")
    assert [line.target for line in page().nodes.lines] == [
        NodeTarget("n-garage", draining=False),
        NodeTarget("n-attic", draining=True),
    ]
    drained = Feed(OBSERVED, Fleet((msgspec.structs.replace(GARAGE, draining=True),)))
    assert texts(page(drained).nodes)[0]["STATE"] == "draining"


def test_runtimes() -> None:
    """KV as a bar of what slots can hold, rates, and what is odd; a load by how far it is."""
    tiny, big = texts(page().runtimes)
    assert tiny["KV"] == "██░░░░░░ 20% 400/2.0k"
    assert (tiny["SLOTS"], tiny["TOK/S"], tiny["PREFILL"]) == ("1/2", "12", "0.2s")
    assert (tiny["FAILED"], tiny["ODD"], tiny["NODE"]) == ("1", "slow_decode", "garage")
    assert (big["STATE"], big["KV"], big["TOK/S"], big["SLOTS"]) == ("loading 40%", "-", "-", "-")
    assert page().runtimes.lines[0].target == RuntimeTarget("n-garage", "tiny")


def test_what_a_node_had_before_it_left_is_not_shown() -> None:
    """Nor models that are not loaded; a load that failed is, with its reason."""
    failed = Runtime("bad", "llama", "failed", failure="it does not fit")
    absent = Runtime("idle", "llama", "absent")
    nodes = (
        msgspec.structs.replace(ATTIC, runtimes=GARAGE.runtimes),
        Node("n", runtimes=(failed, absent)),
    )
    (row,) = texts(page(Feed(OBSERVED, Fleet(nodes))).runtimes)
    assert (row["MODEL"], row["STATE"], row["ODD"]) == ("bad", "failed", "it does not fit")


def test_requests() -> None:
    """Phase, age, how long in it, and a pace while it answers; what is over cannot be stopped."""
    streaming, waiting, done = texts(page().requests)
    assert (streaming["PHASE"], streaming["AGE"], streaming["SINCE"]) == (
        "streaming",
        "12s",
        "8.0s",
    )
    assert (streaming["TOK/S"], streaming["PROMPT"], streaming["FIRST"]) == (
        "12",
        "300(212)",
        "4.0s",
    )
    assert (waiting["PHASE"], waiting["NODE"], waiting["TOKENS"]) == (
        "queued 1/1, about 3 s",
        "-",
        "-",
    )
    assert (streaming["NODE"], streaming["CACHE"]) == ("garage", "")
    assert (done["PHASE"], done["TOK/S"], done["SINCE"]) == ("done", "10", "1m00s")
    targets = [line.target for line in page().requests.lines]
    assert targets[0] == RequestTarget("4f2a6a10aaaa", "key:ann", "tiny")
    assert targets[2] is None
    assert page().requests.title == "requests 2 live, 1 ended"
    live = page(FEED, msgspec.structs.replace(HERE, live_only=True))
    assert (len(live.requests.lines), live.requests.title) == (2, "requests 2 live")


def test_the_queue_by_tenant_and_what_has_happened() -> None:
    """Who waits since when; events in the words of the log, with their time."""
    bob, ann, rest = texts(page().queue)
    assert (bob["WAIT"], bob["RUN"], bob["OLDEST"], bob["TOKENS"]) == ("1", "0", "3.0s", "900")
    assert (ann["WAIT"], ann["OLDEST"]) == ("0", "-")
    assert rest["TENANT"] == "and 3 more"
    left, joined = texts(page().events)
    assert left == {
        "TIME": "00:01:01",
        "EVENT": "node_left",
        "FACTS": "4 times, last node=n-attic state=dead",
    }
    assert joined["FACTS"] == "node=n-attic"
    shed = Happening(9, event="request_shed", facts={"request": "4f2a", "reason": "queue_full"})
    observed = msgspec.structs.replace(OBSERVED, events=(shed,))
    (row,) = texts(page(Feed(observed, FEED.fleet)).events)
    assert row["FACTS"] == "reason=queue_full request=4f2a"


def test_what_is_odd_or_wrong_is_above_all() -> None:
    """That nobody answers comes first, and since when; many hints are counted."""
    hints = tuple(Hint("slow_prefill", "slow", f"n{number}") for number in range(4))
    odd = Feed(msgspec.structs.replace(OBSERVED, anomalies=hints), FEED.fleet)
    gone = msgspec.structs.replace(HERE, gone="No gateway answers.", gone_s=65.0)
    assert [(note.text, note.look) for note in page(odd, gone).notes] == [
        ("no answer for 1m05s, trying again: No gateway answers.", "bad"),
        ("odd: slow_prefill n0: slow", "warn"),
        ("odd: slow_prefill n1: slow", "warn"),
        ("odd: 2 more", "warn"),
    ]
    assert [note.text for note in page().notes] == [
        "odd: slow_decode n-garage tiny: answers come slowly"
    ]


def test_names_of_others_cannot_command_the_terminal() -> None:
    """Whatever a model, a tenant or an event is called."""
    evil = "\x1b[2Jx\ny"
    node = Node(evil, evil, evil, runtimes=(Runtime(evil, evil, "ready", evil),))
    event = Happening(1, event=evil, facts={evil: evil})
    observed = Observed(role="admin", events=(event,), anomalies=(Hint(evil, evil, evil, evil),))
    said = "\n".join(plain(page(Feed(observed, Fleet((node,)))), 120))
    assert "\x1b" not in said
    assert "[2Jx y" in said


def test_plain_text_is_no_wider_than_asked_for() -> None:
    """Tables under their titles, all rows, and a word where there are none."""
    for width in (80, 200):
        assert max(len(line) for line in list(plain(page(), width))[3:]) <= width
    lines = list(plain(page(), 200))
    assert "QUEUE 1" in lines
    assert "  4f2a6a10…" in "\n".join(lines)
    empty = list(plain(page(Feed(Observed(observed_at_ms=1))), 80))
    for words in ("  no node has joined", "  no model is loaded", "  no request", "  nobody waits"):
        assert words in empty
