"""The fields that both generation APIs share are read alike, and every wrong value is a 400."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.request import Sampling
from roost.dialects.openai.chat import read_chat
from roost.dialects.openai.completions import read_completion
from roost.dialects.openai.options import IGNORED_NAMES_MAX, Translated
from roost.errors import Failure, RoostError
from tests.dialects.openai_calls import chat, chat_failure, completion, completion_failure

Call = Callable[..., Translated]
Refused = Callable[..., Failure]

both = pytest.mark.parametrize("call", [chat, completion])
both_failing = pytest.mark.parametrize("refused", [chat_failure, completion_failure])


@both
def test_nothing_sent_is_the_default(call: Call) -> None:
    """A bare request has no limit, no stops, the backend's sampling and a whole reply."""
    translated = call()
    request, options = translated.request, translated.options
    assert (request.model, request.max_tokens, request.stop) == ("m", None, ())
    assert (request.sampling, request.top_logprobs, request.ignore_eos) == (Sampling(), None, False)
    assert (options.stream, options.include_usage, options.logprobs) == (False, False, False)
    assert (translated.ignored, translated.roost) == ((), {})


@both
def test_sampling(call: Call) -> None:
    """Every parameter arrives under its name, whole numbers as floats where floats are meant."""
    sent = {
        "temperature": 1,
        "top_p": 0,
        "top_k": 40,
        "min_p": 0.05,
        "seed": 7,
        "presence_penalty": -2,
        "frequency_penalty": 1.5,
    }
    assert call(**sent).request.sampling == Sampling(1.0, 0.0, 40, 0.05, 7, -2.0, 1.5)


@both
@pytest.mark.parametrize(
    ("sent", "seed"), [(-1, 2**32 - 1), (2**32, 0), (2**63 - 1, 2**32 - 1), (-(2**63), 0)]
)
def test_seeds_of_64_bits(call: Call, sent: int, seed: int) -> None:
    """Any signed 64-bit seed is taken, modulo 2**32."""
    assert call(seed=sent).request.sampling.seed == seed


@both
@pytest.mark.parametrize("sent", [-1, 0])
def test_top_k_off(call: Call, sent: int) -> None:
    """Both ways of switching top-k off mean the same."""
    assert call(top_k=sent).request.sampling.top_k == 0


@both
@pytest.mark.parametrize(
    ("sent", "limit"),
    [
        (None, None),
        (-1, None),
        (1, 1),
        (32000, 32000),
        (10**9, 10**9),
        (1e9, 10**9),
        (2**63, 2**31 - 1),
    ],
)
def test_max_tokens(call: Call, sent: object, limit: int | None) -> None:
    """Null and -1 are no limit; a huge one is kept, for the node to clamp."""
    assert call(max_tokens=sent).request.max_tokens == limit


@both_failing
@pytest.mark.parametrize("sent", [0, -2, 1.5, "5", True, [], 1e308])
def test_wrong_max_tokens(refused: Refused, sent: object) -> None:
    """Zero, fractions and texts are no limits."""
    failure = refused(max_tokens=sent)
    assert (failure.reason, failure.param) == ("bad_request", "max_tokens")


def test_the_newer_limit_wins() -> None:
    """With both limits sent `max_completion_tokens` counts, also where it lifts the other."""
    assert chat(max_tokens=5, max_completion_tokens=9).request.max_tokens == 9
    assert chat(max_tokens=5, max_completion_tokens=-1).request.max_tokens is None
    assert chat(max_tokens=5, max_completion_tokens=None).request.max_tokens == 5
    assert chat_failure(max_tokens=5, max_completion_tokens=0).param == "max_completion_tokens"


@both
@pytest.mark.parametrize(
    ("sent", "stops"),
    [(None, ()), ([], ()), ("x", ("x",)), (["x"], ("x",)), (list("abcde"), tuple("abcde"))],
)
def test_stop(call: Call, sent: object, stops: tuple[str, ...]) -> None:
    """Absent, null and [] add no stops; a string is a list of one; more than four are fine."""
    assert call(stop=sent).request.stop == stops


@both_failing
@pytest.mark.parametrize("sent", ["", ["x", ""], 5, [5], ["x"] * 17, {"a": 1}, True, "x" * 1001])
def test_wrong_stop(refused: Refused, sent: object) -> None:
    """An empty stop string never stops at once: it is refused, like anything that is no string."""
    failure = refused(stop=sent)
    assert (failure.reason, failure.param) == ("bad_request", "stop")


@both
@pytest.mark.parametrize(
    ("sent", "model"), [("m", "m"), ("org/name:tag", "org/name:tag"), (" m ", "m"), (None, "")]
)
def test_model(call: Call, sent: str | None, model: str) -> None:
    """A name is taken without the spaces around it; none is left to the gateway's default."""
    translated = call(model=sent)
    assert translated.request.model == model
    assert translated.options.model_as_sent == sent


@both_failing
@pytest.mark.parametrize("sent", ["", "  ", 5, ["m"], "m" * 257])
def test_wrong_model(refused: Refused, sent: object) -> None:
    """A model that can be no name is a 400 and not a search for it."""
    assert refused(model=sent).param == "model"


@both
def test_streaming(call: Call) -> None:
    """The stream and its usage chunk come only when asked for."""
    assert call(stream=True).options.stream
    assert not call(stream=None).options.stream
    for usage, expected in ((True, True), (False, False), (None, False)):
        options = call(stream=True, stream_options={"include_usage": usage}).options
        assert options.include_usage is expected
    assert not call(stream_options=None).options.include_usage


@both_failing
@pytest.mark.parametrize(
    ("sent", "param"),
    [
        ({"stream": "yes"}, "stream"),
        ({"stream_options": []}, "stream_options"),
        ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"ignore_eos": "no"}, "ignore_eos"),
        ({"roost": "x"}, "roost"),
        ({"n": 0}, "n"),
        ({"n": 17}, "n"),
        ({"n": 1.5}, "n"),
        ({"n": "1"}, "n"),
        ({"n": True}, "n"),
        ({"logit_bias": []}, "logit_bias"),
    ],
)
def test_wrong_kinds(refused: Refused, sent: dict[str, object], param: str) -> None:
    """Each wrong field is named with its path."""
    failure = refused(**sent)
    assert (failure.reason, failure.param) == ("bad_request", param)


@both
@both_failing
def test_biases(call: Call, refused: Refused) -> None:
    """Each token has a number; what is no token id or no such number is refused."""
    translated = call(logit_bias={"50256": -100, "7": 0.5})
    assert translated.request.sampling.logit_bias == ((50256, -100.0), (7, 0.5))
    assert call(logit_bias=None).request.sampling.logit_bias == ()
    for wrong in ({"x": 1}, {"-1": 1}, {"1": 101}, {"1": None}, {"1": "a"}, {"٣": 1}):
        assert refused(logit_bias=wrong).reason == "bad_request"
    many = {str(token): 1 for token in range(301)}
    failure = refused(logit_bias=many)
    assert (failure.reason, failure.param) == ("bad_request", "logit_bias")
    assert "300" in failure.message
    del many["0"]
    assert len(call(logit_bias=many).request.sampling.logit_bias) == 300


@both
def test_harmless_values(call: Call) -> None:
    """One choice, no bias, and what only roost knows, pass."""
    translated = call(n=1, logit_bias={}, ignore_eos=True, roost={"session": "s"})
    assert translated.request.ignore_eos
    assert translated.roost == {"session": "s"}
    assert translated.ignored == ()


@both
def test_unknown_fields_are_named(call: Call) -> None:
    """They earn no error; the log can say what had no effect. Null is not a field."""
    found = call(verbosity="low", store=False, invented={"a": 1}, metadata=None)
    assert found.ignored == ("invented", "store", "verbosity")


@both
def test_the_names_are_bounded(call: Call) -> None:
    """Thousands of invented fields with endless names do not fill the log."""
    found = call(**{f"{n:05}" + "x" * 100: 1 for n in range(5000)})
    assert len(found.ignored) == IGNORED_NAMES_MAX
    assert max(map(len, found.ignored)) == 64


@both_failing
def test_strict_refuses_fields_without_effect(refused: Refused) -> None:
    """Who asks for it is told about the first such field."""
    assert refused(strict=True, verbosity="low").param == "verbosity"


NUMERIC = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "max_tokens",
    "max_completion_tokens",
    "n",
    "best_of",
    "top_logprobs",
    "logprobs",
)
_odd = st.sampled_from(
    [
        "-1",
        "0",
        str(2**31),
        str(2**63),
        str(2**64),
        "NaN",
        "Infinity",
        "-Infinity",
        "1e308",
        "1e999",
        "true",
        "false",
        '"5"',
        '""',
        "[1]",
        "{}",
        "1.5",
        "-0.0",
        "5e-324",
        "9" * 400,
        "null",
    ]
)


@given(st.dictionaries(st.sampled_from(NUMERIC), st.one_of(_odd, st.floats().map(json.dumps))))
def test_no_number_is_worse_than_a_400(sent: dict[str, str]) -> None:
    """Whatever stands in the numeric fields, a request is translated or refused as the caller's."""
    pairs = "".join(f',"{name}":{value}' for name, value in sent.items())
    prompt = ',"prompt":"hi","messages":[{"role":"user","content":"hi"}]'
    for read in (read_chat, read_completion):
        assert _status(read, f'{{"model":"m"{prompt}{pairs}}}'.encode()) in {200, 400}


def _status(read: Callable[[bytes], Translated], body: bytes) -> int:
    """Give 200 for a request with numbers in the core's ranges, else the status it earns."""
    try:
        request = read(body).request
    except RoostError as error:
        return error.failure.status
    drawn = request.sampling
    good = (
        0 <= (drawn.temperature or 0) <= 2
        and 0 <= (drawn.top_p or 0) <= 1
        and 0 <= (drawn.min_p or 0) <= 1
        and 0 <= (drawn.top_k or 0) <= 1_000_000
        and 0 <= (drawn.seed or 0) < 2**32
        and 1 <= (request.max_tokens or 1) < 2**31
        and 0 <= (request.top_logprobs or 0) <= 20
    )
    return 200 if good else 500


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("temperature", ["-1", "3", "1e308", "2147483648", '"hot"', "true", "9" + "0" * 300]),
        ("top_p", ["-1", "2", "1e308", "true", '"1"']),
        ("top_k", ["-2", "1000001", "9223372036854775808", "1.5", "true", '"1"']),
        ("min_p", ["-1", "1.01", "true"]),
        ("seed", ["9223372036854775808", "-9223372036854775809", "1.5", "1e308", "true", '"1"']),
        ("presence_penalty", ["-3", "2.1", "true"]),
        ("frequency_penalty", ["-3", "2.1", "true"]),
    ],
)
def test_numbers_out_of_range(name: str, values: list[str]) -> None:
    """Each of these is a 400 with the field's name, on both APIs."""
    prompt = '"prompt":"hi","messages":[{"role":"user","content":"hi"}]'
    for value in values:
        body = f'{{"model":"m",{prompt},"{name}":{value}}}'.encode()
        for read in (read_chat, read_completion):
            with pytest.raises(RoostError) as caught:
                read(body)
            assert caught.value.failure.param == name
