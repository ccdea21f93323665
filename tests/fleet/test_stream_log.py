"""What a stream keeps for a reader that loses its connection, and for how long."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from roost.core.ids import RequestId, TenantId
from roost.fleet.streams.stream_log import Granted, ReattachSettings, StreamLog, StreamLogs

ANN, BOB = TenantId("key:ann"), TenantId("key:bob")


def taken(log: StreamLog) -> list[bytes]:
    """Everything the reader gets now."""
    got = []
    while (block := log.take()) is not None:
        got.append(block)
    return got


def test_a_reader_gets_every_event_once() -> None:
    """In order, and again only from where it asks."""
    log = StreamLog(10.0, 1000)
    for number in range(4):
        log.on_block(b"%d" % number)
    assert taken(log) == [b"0", b"1", b"2", b"3"]
    assert taken(log) == []
    assert log.on_attach(2)
    assert taken(log) == [b"2", b"3"]


def test_without_a_reader_the_oldest_make_room() -> None:
    """The newest stay; what has fallen out, or is not there yet, cannot be asked for."""
    log = StreamLog(10.0, 10)
    log.on_detach(0.0)
    for _ in range(5):
        log.on_block(b"1234")
    assert (log.first, log.next, log.held_bytes) == (3, 5, 8)
    assert not log.on_attach(2)
    assert not log.on_attach(6)
    assert not log.attached
    assert log.on_attach(3)


def test_what_a_reader_has_yet_to_take_is_not_dropped() -> None:
    """However long the log becomes: whoever writes waits for the reader."""
    log = StreamLog(10.0, 10)
    log.on_detach(0.0)
    for _ in range(2):
        log.on_block(b"1234")
    assert log.on_attach(0)
    log.on_block(b"a long one that is over the limit by itself")
    assert log.behind
    assert len(taken(log)) == 3
    assert log.held_bytes == 0


def test_the_window_begins_with_the_loss_and_is_over_once() -> None:
    """Coming back ends it; the next loss has a whole one again."""
    log = StreamLog(10.0, 100)
    assert log.until_s is None
    log.on_detach(5.0)
    assert log.until_s == 15.0
    assert log.on_attach(0)
    assert log.until_s is None
    log.on_detach(12.0)
    log.on_detach(13.0)
    assert log.until_s == 22.0


def test_after_the_end_the_tail_stays_for_the_rest_of_the_window() -> None:
    """A reader that had everything may have lost it on the way; coming back prolongs nothing."""
    log = StreamLog(10.0, 100)
    log.on_block(b"last")
    taken(log)
    log.on_end(3.0)
    log.on_detach(3.0)
    assert log.until_s == 13.0
    assert log.on_attach(0)
    assert taken(log) == [b"last"]
    log.on_detach(9.0)
    assert log.until_s == 13.0
    lost = StreamLog(10.0, 100)
    lost.on_detach(1.0)
    lost.on_end(4.0)
    assert lost.until_s == 11.0


def test_logs_belong_to_tenants() -> None:
    """Of somebody else's nobody learns whether it exists."""
    logs = StreamLogs(ReattachSettings())
    granted = logs.on_request(RequestId("r"), ANN, 10.0)
    assert granted is not None
    assert logs.find(RequestId("r"), ANN) is granted.log
    assert logs.find(RequestId("r"), BOB) is None
    assert logs.find(RequestId("never"), BOB) is None
    logs.forget(RequestId("r"))
    assert logs.find(RequestId("r"), ANN) is None


def test_streams_that_are_over_make_room_and_others_do_not() -> None:
    """The number of logs is bounded; the oldest of those that are over goes first."""
    logs = StreamLogs(ReattachSettings(entries=2))
    first = logs.on_request(RequestId("r1"), ANN, 10.0)
    second = logs.on_request(RequestId("r2"), ANN, 10.0)
    assert first is not None
    assert second is not None
    assert logs.on_request(RequestId("r3"), BOB, 10.0) is None
    second.log.on_end(0.0)
    assert logs.on_request(RequestId("r3"), BOB, 10.0) is None
    second.log.on_detach(0.0)
    third = logs.on_request(RequestId("r3"), BOB, 10.0)
    assert isinstance(third, Granted)
    assert third.forgotten == RequestId("r2")
    assert len(logs) == 2


def test_one_tenant_never_has_all_logs() -> None:
    """The last quarter of the room is for those with less than their share."""
    logs = StreamLogs(ReattachSettings(entries=16))
    for number in range(30):
        logs.on_request(RequestId(f"a{number}"), ANN, 10.0)
    assert len(logs) == 12
    granted = [logs.on_request(RequestId(f"b{n}"), BOB, 10.0) for n in range(9)]
    assert [one is not None for one in granted] == [True] * 4 + [False] * 5


def test_whoever_has_its_share_gives_up_its_own() -> None:
    """What others may still come back for stays."""
    logs = StreamLogs(ReattachSettings(entries=8))
    for number, tenant in enumerate((BOB, *[ANN] * 5)):
        granted = logs.on_request(RequestId(f"r{number}"), tenant, 10.0)
        assert granted is not None
        granted.log.on_end(0.0)
        granted.log.on_detach(0.0)
    more = logs.on_request(RequestId("more"), ANN, 10.0)
    assert more is not None
    assert more.forgotten == RequestId("r1")
    assert logs.find(RequestId("r0"), BOB) is not None


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 30)),
        st.tuples(st.just("take"), st.integers(1, 5)),
        st.tuples(st.just("lose"), st.just(0)),
        st.tuples(st.just("return"), st.integers(0, 3)),
    ),
    max_size=80,
)


@given(STEPS, st.integers(1, 100))
@settings(max_examples=200, deadline=None)
def test_any_order_of_losses_and_returns_leaves_no_gap(
    steps: list[tuple[str, int]], limit: int
) -> None:
    """What a reader has is a run of the stream without gap or repetition, or it is told."""
    log = StreamLog(10.0, limit)
    got: list[int] = []
    written = 0
    for what, size in steps:
        if what == "write":
            log.on_block(b"%d " % written + b"x" * size)
            written += 1
        elif what == "take":
            blocks = [log.take() for _ in range(size)]
            got += [int(block.split()[0]) for block in blocks if block is not None]
        elif what == "lose":
            # What was on its way is lost with the connection.
            del got[len(got) - min(size, len(got)) :]
            log.on_detach(0.0)
        else:
            del got[len(got) - min(size, len(got)) :]
            wanted = got[-1] + 1 if got else 0
            if not log.on_attach(wanted):
                assert wanted < log.first
                got = []
                assert log.on_attach(log.first)
        assert got == list(range(got[0], got[0] + len(got))) if got else True
        assert log.next == written
        assert log.attached or log.held_bytes <= limit
