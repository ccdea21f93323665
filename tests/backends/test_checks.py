"""The last look before native code: every number has a range and every refusal a name."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.backends import checks
from roost.core.ids import ModelId
from roost.core.request import (
    ChatPrompt,
    GenerateRequest,
    JsonAny,
    JsonSchema,
    Message,
    Sampling,
    TextPrompt,
)
from roost.errors import Failure, RoostError

TEXT = GenerateRequest(ModelId("m"), TextPrompt("x"))
CHAT = GenerateRequest(ModelId("m"), ChatPrompt((Message("user", "x"),)))
replace = msgspec.structs.replace
ODD = st.one_of(
    st.integers(), st.floats(), st.booleans(), st.text(), st.sampled_from([2**31, 2**63, -(2**63)])
)


def failure_of(request: GenerateRequest) -> Failure:
    """Give the failure with which a request is refused."""
    with pytest.raises(RoostError) as caught:
        checks.check_request(request)
    return caught.value.failure


@given(st.sampled_from(sorted(set(Sampling.__struct_fields__) - {"logit_bias"})), ODD)
def test_sampling_is_in_range_or_refused_by_name(name: str, value: object) -> None:
    """What passes is a number in the range that the vocabulary states; the rest names its field."""
    request = replace(TEXT, sampling=replace(Sampling(), **{name: value}))
    real, whole = checks.REAL, checks.WHOLE
    low, high = {**real, **whole}[name]
    fits = isinstance(value, int | float if name in real else int) and not isinstance(value, bool)
    if fits and low <= value <= high:  # type: ignore[operator]
        checks.check_request(request)
    else:
        failure = failure_of(request)
        assert (failure.reason, failure.param) == ("bad_request", name)


@pytest.mark.parametrize(
    ("request_", "param"),
    [
        (replace(TEXT, max_tokens=0), "max_tokens"),
        (replace(TEXT, max_tokens=1.5), "max_tokens"),
        (replace(TEXT, max_tokens=True), "max_tokens"),
        (replace(TEXT, constraint=5), "response_format"),
        (replace(TEXT, constraint=JsonSchema(b"{}")), "response_format"),  # type: ignore[arg-type]
        (replace(TEXT, constraint=JsonAny(), ignore_eos=True), "ignore_eos"),
        (replace(TEXT, sampling=Sampling(logit_bias=((1, 200.0),))), "logit_bias"),
        (replace(TEXT, sampling=Sampling(logit_bias=((True, 2.0),))), "logit_bias"),
        (replace(TEXT, sampling=Sampling(logit_bias=((1, 1.0),) * 301)), "logit_bias"),
        (replace(TEXT, stop=("",)), "stop"),
        (replace(TEXT, stop=("x",) * 17), "stop"),
        (replace(TEXT, stop=("x" * 4097,)), "stop"),
        (replace(TEXT, stop=(1,)), "stop"),
        (replace(TEXT, top_logprobs=21), "top_logprobs"),
        (replace(TEXT, top_logprobs=-1), "top_logprobs"),
        (replace(TEXT, top_logprobs="5"), "top_logprobs"),
    ],
)
def test_other_fields_are_refused_by_name(request_: GenerateRequest, param: str) -> None:
    """Counts, stop strings and alternatives have limits and types as well."""
    failure = failure_of(request_)
    assert (failure.reason, failure.param) == ("bad_request", param)


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        (TextPrompt("a\ud800"), "prompt"),
        (ChatPrompt((Message("user", "x"), Message("user", "\udc00"))), "messages"),
        (ChatPrompt((Message("user", "x", "\udc00"),)), "messages"),
    ],
)
def test_half_characters_are_refused(prompt: TextPrompt | ChatPrompt, param: str) -> None:
    """Lone surrogates cannot be written to any process, so they are refused here."""
    failure = failure_of(replace(TEXT, prompt=prompt))
    assert (failure.reason, failure.param) == ("bad_request", param)


def test_the_edges_are_inside() -> None:
    """The ends of every range are accepted, and so is everything left out."""
    least = Sampling(0.0, 0.0, 0, 0.0, 0, -2.0, -2.0)
    most = Sampling(2.0, 1.0, 1_000_000, 1.0, 2**32 - 1, 2.0, 2.0)
    for sampling in (Sampling(), least, most):
        checks.check_request(replace(TEXT, sampling=sampling))
    edges = {"stop": ("x" * 4096,) * 16, "top_logprobs": 20, "max_tokens": 1}
    for name, value in edges.items():
        checks.check_request(replace(TEXT, **{name: value}))
    checks.check_request(replace(TEXT, max_tokens=2**63, top_logprobs=0))


@pytest.mark.parametrize("tokens", [(), (-1,), (100,), (1, 2**63), (True,), (1.0,)])
def test_foreign_tokens_are_refused(tokens: tuple[int, ...]) -> None:
    """An empty prompt and ids outside the vocabulary are refused."""
    with pytest.raises(RoostError) as caught:
        checks.check_tokens(tokens, 100)
    assert caught.value.failure.param == "prompt"


def test_own_tokens_are_accepted() -> None:
    """The first and the last id of the vocabulary are fine."""
    checks.check_tokens((0, 99), 100)


def test_limit_is_the_room_or_less() -> None:
    """Without a wish the answer may fill the context; a larger wish is clamped to it."""
    assert checks.limit_of(TEXT, 10, 16) == 6
    assert checks.limit_of(replace(TEXT, max_tokens=2), 10, 16) == 2
    assert checks.limit_of(replace(TEXT, max_tokens=10**9), 15, 16) == 1


@pytest.mark.parametrize(
    ("request_", "tokens", "message", "param"),
    [
        (CHAT, 9000, "prompt is too long: 9000 tokens > 4096 maximum.", "messages"),
        (TEXT, 4097, "prompt is too long: 4097 tokens > 4096 maximum.", "prompt"),
        (TEXT, 4096, "prompt is too long: 4096 tokens > 4095 maximum.", "prompt"),
    ],
)
def test_too_long_is_told_in_known_words(
    request_: GenerateRequest, tokens: int, message: str, param: str
) -> None:
    """The numbers are true, also where the prompt fits and only the answer does not."""
    with pytest.raises(RoostError) as caught:
        checks.limit_of(request_, tokens, 4096)
    failure = caught.value.failure
    assert failure.reason == "context_length_exceeded"
    assert failure.message == f"{message} This model's maximum context length is 4096 tokens."
    assert failure.param == param


def test_text_that_cannot_fit_is_refused_before_it_is_tokenised() -> None:
    """The bound is the longest token: 9 bytes of at most 2 each are at least 5 tokens."""
    checks.check_size(TEXT, ["漢" * 3], 2, 5)
    checks.check_size(TEXT, ["x" * 10**6], 0, 5)
    with pytest.raises(RoostError, match="5 tokens > 4"):
        checks.check_size(TEXT, ["漢", "漢漢"], 2, 4)
