"""Recorded traffic: what is read, what is refused, and which requests belong together."""

from __future__ import annotations

import pytest

from roost.sim.play import Parts, Stage
from roost.sim.run import scenarios
from roost.sim.tape import BadTapeError, Request, Tape, Turn, read, talks

KNOWN = scenarios()
RECORDED = [name for name, scenario in KNOWN.items() if scenario.tape is not None]
LINE = '{"timestamp": 5, "input_length": 600, "output_length": 3, "hash_ids": [1, 2]}'


def test_a_line_is_a_request() -> None:
    """Hashes are optional, empty lines are nothing."""
    plain = '{"timestamp": 7.5, "input_length": 1, "output_length": 1}'
    assert read("t", f"{LINE}\n\n{plain}\n") == (
        Request(5, 600, 3, (1, 2)),
        Request(7.5, 1, 1),
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "t holds no request"),
        ("TIMESTAMP,ContextTokens", "line 1 of t: JSON is malformed"),
        (f"{LINE}\n[]", "line 2 of t: Expected `object`, got `array`"),
        ('{"timestamp": 1, "input_length": 1}', "line 1 of t: Object missing required field"),
        (LINE.replace("5", "-1"), "line 1 of t: its timestamp"),
        (f"{LINE}\n{LINE.replace('5', '4')}", "line 2 of t: its timestamp is before that of"),
        (LINE.replace("600", '"x"'), "line 1 of t: Expected `int`, got `str`"),
        (LINE.replace("600", "0"), "line 1 of t: input_length and output_length are at least 1"),
        (LINE.replace("600", "512"), "line 1 of t: 512 tokens are 1 blocks, and it has 2"),
        (LINE.replace("hash_ids", "hashes"), "line 1 of t: Object contains unknown field `hashes`"),
    ],
)
def test_bad_lines_are_named(text: str, complaint: str) -> None:
    """Whoever brings a trace of their own learns which line is wrong, and why."""
    with pytest.raises(BadTapeError) as error:
        read("t", text)
    assert str(error.value).startswith(complaint)


def test_requests_that_go_on_are_one_conversation() -> None:
    """All whole blocks of an earlier prompt begin the later one; times and lengths shrink."""
    tape = Tape(
        "t",
        faster=10.0,
        smaller=8,
        requests=(
            Request(0, 1100, 80, (1, 2, 3)),
            Request(1000, 1100, 8, (1, 8, 9)),
            Request(2000, 2000, 160, (1, 2, 4, 5)),
            Request(3000, 100, 4, (7,)),
        ),
    )
    first, second, third = talks(tape)
    # 137 tokens, 128 of them in blocks that come more than once; then 2000 - 1100 - 80 are new.
    assert first.turns == [Turn(0.0, 9, 10), Turn(0.2, 102, 20)]
    assert (len(first.beginning), first.beginning[64]) == (128, "b2w0")
    assert (second.beginning, second.turns) == (first.beginning[:64], [Turn(0.1, 73, 1)])
    assert (third.beginning, third.turns) == ((), [Turn(0.3, 12, 1)])


def test_there_is_one_scenario_for_each_kind_of_trace() -> None:
    """Every sample that is shipped is played."""
    names = {tape.name for name in RECORDED if (tape := KNOWN[name].tape) is not None}
    assert names == {
        "azure-code",
        "azure-conv",
        "mooncake-conversation",
        "mooncake-synthetic",
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", RECORDED)
def test_what_is_recorded_is_what_is_asked(name: str) -> None:
    """As many requests as the tape holds, at their times unless the turn before still ran."""
    scenario = KNOWN[name]
    assert scenario.tape is not None
    stage = Stage(scenario, name, 1, Parts(), keep_lines=False)
    stage.play()
    traces = list(stage.history.traces.values())
    asked = [trace for trace in traces if trace.arrived_s < (stage.history.probed_s or 0.0)]
    failed = sum(all(kind != "complete" for kind, _ in trace.endings) for trace in asked)
    assert len(scenario.tape.requests) - 5 * failed <= len(asked) <= len(scenario.tape.requests)
    due = sorted(turn.at_s for talk in talks(scenario.tape) for turn in talk.turns)
    late = [trace.arrived_s - max(1.0, at_s) for trace, at_s in zip(asked, due, strict=False)]
    assert sorted(late)[len(late) // 2] < 0.01


@pytest.mark.slow
def test_later_turns_find_their_cache() -> None:
    """A recorded conversation that goes on is served where its beginning is."""
    name = "recorded_mooncake_conversation"
    stage = Stage(KNOWN[name], name, 1, Parts(), keep_lines=False)
    stage.play()
    later = [trace for trace in stage.history.traces.values() if trace.turn > 1]
    warm = [trace for trace in later if trace.opened[-1].placement == "warm"]
    assert len(later) >= 30
    assert len(warm) > 0.8 * len(later)
