"""The text of an answer is read the same however it is cut, and calls are told whole or not."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.events import Finished, FinishReason, Usage
from roost.core.pieces import CallArguments, CallBegin, CallEnd, Piece, Text, Thought
from roost.core.reading import PLAIN, Reading
from roost.core.request import Message, ToolCall
from roost.text.answers import SLICE_CHARS, AnswerReader, calls_in, read_answer

THINK = ("<think>", "</think>")
CALL = ("<tool_call>", "</tool_call>")
TOOLS = ("look", "say")
BOTH = Reading(THINK, CALL, tools=TOOLS)
STOP = Finished("stop", Usage())


def call(name: str, **arguments: object) -> str:
    """Write a call as models do."""
    said = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{said}\n</tool_call>"


def read(
    pieces: Sequence[str],
    reading: Reading = BOTH,
    *,
    reason: FinishReason = "stop",
    stop_text: str | None = None,
) -> tuple[AnswerReader, list[Piece]]:
    """Read an answer that comes in these pieces."""
    reader = AnswerReader(reading)
    out = [piece for text in pieces for piece in reader.push(text)]
    return reader, out + reader.finish(Finished(reason, Usage(), stop_text))


def found(pieces: Sequence[str], reading: Reading = BOTH) -> tuple[str, str, list[tuple[str, str]]]:
    """Give thoughts, text and calls of an answer."""
    message = joined(read(pieces, reading)[1])
    return message.reasoning, message.content, [(c.name, c.arguments) for c in message.calls]


def joined(pieces: list[Piece]) -> Message:
    """Put pieces together to what a client keeps."""
    said = "".join(piece.text for piece in pieces if isinstance(piece, Text))
    thought = "".join(piece.text for piece in pieces if isinstance(piece, Thought))
    return Message("assistant", said, reasoning=thought, calls=calls_in(pieces))


@pytest.mark.parametrize(
    ("pieces", "thought", "said"),
    [
        (["<thin", "k>plan</th", "ink>Answer", " a < b"], "plan", "Answer a < b"),
        (["<think>\nplan\n\n", "</think>\n", "\nAnswer"], "plan", "Answer"),
        (["<think>\n\n</think>\n\nAnswer"], "", "Answer"),
        (["<think>never ends", " here </th"], "never ends here </th", ""),
        (["  <think>a</think>b"], "a", "b"),
        ([" Hello <think>"], "", " Hello <think>"),
        (["<thin ice", " is <thin"], "", "<thin ice is <thin"),
        (
            ["<think>ends with `</think>` they say</think>yes"],
            "ends with `</think>` they say",
            "yes",
        ),
        (["<think>say '</think>", "'.</think>'"], "say '</think>'.", "'"),
        (["<think>`</think>"], "`", ""),
        ([" \n"], "", " \n"),
        ([], "", ""),
        (["a\n ", "\n"], "", "a\n \n"),
    ],
)
def test_thoughts(pieces: list[str], thought: str, said: str) -> None:
    """Thoughts are apart from what is said, without crumbs of their marks."""
    assert found(pieces) == (thought, said, [])


def test_thoughts_that_the_prompt_has_begun() -> None:
    """Where a template opens the thoughts, the answer begins within them."""
    reading = Reading(THINK, begun="<think>\n")
    assert found(["plan\n</th", "ink>\n\nyes"], reading) == ("plan", "yes", [])
    assert AnswerReader(reading).thinks


def test_calls() -> None:
    """Calls are told whole and in order, with what was said before them."""
    reader, pieces = read(
        [
            *("Let me see.\n\n<tool", "_call>\n", '{"name": "look", "argu'),
            *('ments": {"at": 1}}', "\n</tool_call>\n<tool_call>"),
            '{"name":"say","parameters":{}}</tool_call>\n',
        ]
    )
    assert pieces == [
        Text("Let me see."),
        CallBegin(0, "call_0", "look"),
        CallArguments(0, '{"at": 1}'),
        CallEnd(0),
        CallBegin(1, "call_1", "say"),
        CallArguments(1, "{}"),
        CallEnd(1),
    ]
    assert (reader.calls, reader.failure, reader.cut) == (2, None, False)


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ('{"name": "look"}', "{}"),
        ('{"name": "look", "arguments": null}', "{}"),
        ('{"name": "look", "arguments": "{\\"a\\": 1}"}', '{"a": 1}'),
        ('{"name": "look", "arguments": {"a": "</tool_call>"}}', '{"a": "</tool_call>"}'),
        ('[{"name": "look", "arguments": {"é": "\\u00e9"}}]', '{"é": "\\u00e9"}'),
        ('{"arguments": {"name": "x"}, "name": "look"}', '{"name": "x"}'),
    ],
)
def test_ways_to_write_a_call(written: str, arguments: str) -> None:
    """What models make of the format is read, and the arguments stay as they wrote them."""
    assert found([f"<tool_call>{written}</tool_call>"]) == ("", "", [("look", arguments)])


def test_long_arguments_come_in_slices() -> None:
    """No single piece is longer than what clients read in one line."""
    text = "x" * (2 * SLICE_CHARS)
    _, pieces = read([call("say", text=text)])
    slices = [piece.text for piece in pieces if isinstance(piece, CallArguments)]
    assert max(map(len, slices)) == SLICE_CHARS
    assert json.loads("".join(slices)) == {"text": text}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<tool_call>no json</tool_call>", "not valid"),
        ('<tool_call>{"name": "look", "arguments": [1]}</tool_call>', "not valid"),
        ('<tool_call>{"name": "look", "arguments": {"a": NaN}}</tool_call>', "not valid"),
        ('<tool_call>{"name": 5}</tool_call> and more', "not valid"),
        ('<tool_call>{"name": "look", "arguments": {"a": 1}', "not valid"),
        ("<tool_call>" + "[" * 100_000, "not valid"),
        ("<tool_call>[]</tool_call>", "not valid"),
        (call("fly"), "no such tool"),
        ("x" + call("look") * 129, "too many"),
        ("<tool_call>" + "</tool_call>" * 100, "not valid"),
    ],
)
def test_calls_that_cannot_be_used(text: str, why: str) -> None:
    """They end the answer with a failure; nothing after them is told."""
    reader, _ = read([text])
    assert reader.failure is not None
    assert (reader.failure.reason, reader.failure.status) == ("bad_tool_call", 502)
    assert why in reader.failure.message


@pytest.mark.parametrize(("reason", "stop_text"), [("length", None), ("stop", "end")])
def test_a_call_that_is_cut_is_not_told(reason: FinishReason, stop_text: str | None) -> None:
    """Half a call is nobody's: the reason of the end says why there is nothing."""
    text = '{"name": "look", "arguments": {"a": '
    reader, pieces = read(["Hm. <tool_call>", text], reason=reason, stop_text=stop_text)
    assert pieces == [Text("Hm.")]
    assert (reader.cut, reader.failure) == (True, None)


def test_the_closing_mark_may_be_missing() -> None:
    """A model that ends its turn right after the JSON has made the call."""
    assert found(['<tool_call>{"name": "look"}']) == ("", "", [("look", "{}")])
    assert found(['<tool_call>{"name": "look"}\n</tool']) == ("", "", [("look", "{}")])


def test_a_call_that_the_prompt_has_begun() -> None:
    """The model writes the rest: all of it, or only the arguments where it can write no more."""
    begun = '<tool_call>\n{"name": "look", "arguments":'
    reading = Reading(None, CALL, begun, "}\n</tool_call>", TOOLS, mode="required", only="look")
    for rest in (' {"at": 2}}\n</tool_call>', ' {"at": 2}}', ' {"at": 2}', ' {"at": 2}}\n</tool_c'):
        assert found([rest], reading) == ("", "", [("look", '{"at": 2}')])


def test_what_was_demanded() -> None:
    """Without a call where one was demanded, or with another one, there is a failure."""
    demands = Reading(None, CALL, tools=TOOLS, mode="required", only="say")
    for text, why in (("I would rather talk.", "made no call"), (call("look"), "another tool")):
        failure = read([text], demands)[0].failure
        assert failure is not None
        assert why in failure.message
    reader, _ = read(["I was"], demands, reason="length")
    assert reader.failure is None


def test_no_calls_where_none_are_wanted() -> None:
    """With `none` neither a call nor its marks reach anybody; without `parallel` one call does."""
    none = Reading(None, CALL, tools=TOOLS, mode="none")
    assert found(["Well. " + call("look") + " So."], none) == ("", "Well.So.", [])
    one = Reading(None, CALL, tools=TOOLS, parallel=False)
    assert found([call("look") + call("say")], one) == ("", "", [("look", "{}")])


def test_plain_text_is_passed_on() -> None:
    """Where there is nothing to find, every piece goes through as it is."""
    reader = AnswerReader(PLAIN)
    assert reader.push("<think>") == [Text("<think>")]
    assert reader.push("") == []
    assert reader.finish(STOP) == []


def test_a_whole_answer() -> None:
    """What a client gets of an answer is one message."""
    said = read_answer("<think>hm</think>Yes." + call("look", a=1), BOTH, STOP)
    calls = (ToolCall("call_0", "look", '{"a": 1}'),)
    assert said == Message("assistant", "Yes.", reasoning="hm", calls=calls)
    assert read_answer("<think>", None, STOP) == Message("assistant", "<think>")


_words = st.sampled_from(
    [
        *("<think>", "</think>", "<tool_call>", "</tool_call>", call("look", a="é"), call("say")),
        *('{"name": "look"', "}", "<", "<t", ">", " ", "\n", "`", "'", "word", "<thin", "</tool_"),
        call("fly"),
    ]
)
_readings = st.builds(
    Reading,
    think=st.sampled_from([None, THINK]),
    call=st.sampled_from([None, CALL]),
    begun=st.sampled_from(["", "<think>\n"]),
    tools=st.just(TOOLS),
    mode=st.sampled_from(["auto", "none"]),
    parallel=st.booleans(),
)
_ends = st.sampled_from([STOP, Finished("length", Usage()), Finished("stop", Usage(), "x")])


@given(st.lists(_words, max_size=12).map("".join), st.data(), _readings, _ends)
def test_any_split_is_read_the_same(
    text: str, data: st.DataObject, reading: Reading, end: Finished
) -> None:
    """Where an answer is cut changes nothing of what is found, nor of how it ends."""
    if reading.think is None and reading.begun:
        reading = PLAIN
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8).map(sorted))
    bounds = [0, *cuts, len(text)]
    ways = [[text], list(text), [text[a:b] for a, b in pairwise(bounds)]]
    results = []
    for pieces in ways:
        reader = AnswerReader(reading)
        out = [piece for part in pieces for piece in reader.push(part)] + reader.finish(end)
        results.append((joined(out), reader.failure, reader.cut, reader.calls))
    assert results[0] == results[1] == results[2]


@given(st.text(max_size=40).filter(lambda text: "<" not in text), _ends)
def test_text_without_marks_is_kept(text: str, end: Finished) -> None:
    """Nothing of a text is lost or changed by looking for what it does not hold."""
    assert joined(read(list(text), reason=end.reason, stop_text=end.stop_text)[1]).content == text


def test_a_long_call_in_small_pieces() -> None:
    """What arrives letter by letter costs each letter once, not the call so far."""
    text = call("say", text="x" * 300_000)
    started = time.process_time()
    reader, _ = read(list(text))
    # Measured: 0.15 s. The bound only tells a linear reading from a quadratic one.
    assert time.process_time() - started < 5.0
    assert reader.calls == 1
