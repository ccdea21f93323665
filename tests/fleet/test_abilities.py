"""What nobody can do is refused with who can; what is not known is let through."""

from __future__ import annotations

import msgspec
import pytest

from roost.core.about import BackendAbout, NodeAbout
from roost.core.ids import ModelId, NodeId
from roost.core.machine import Memory, Processor
from roost.core.request import (
    ChatPrompt,
    EmbedPrompt,
    GenerateRequest,
    Grammar,
    JsonAny,
    JsonSchema,
    Message,
    Sampling,
    TextPrompt,
)
from roost.core.snapshots import ModelOffer, NodeStatus
from roost.fleet.choice.abilities import Abilities, Verdict

ONE, TWO = NodeId("one"), NodeId("two")
CHAT = GenerateRequest(ModelId("m"), ChatPrompt((Message("user", "hello"),)))
TEXT = GenerateRequest(ModelId("m"), TextPrompt("hello"))
BIASED = Sampling(logit_bias=((1, 1.0),))
SURE = msgspec.structs.replace(CHAT, top_logprobs=0)


VECTORS = GenerateRequest(ModelId("m"), EmbedPrompt(("hello",)))
EIGHT = GenerateRequest(ModelId("m"), EmbedPrompt(("hello",), dimensions=8))


def embeds(*sizes: int, model: str = "m", says: bool = True) -> NodeStatus:
    """A node with one model for vectors of these sizes, on a backend that can chat as well."""
    status = report("chat", "completion", "embeddings", model=model, says=says)
    (offer,) = status.models
    offer = msgspec.structs.replace(offer, mode="embed", vector_sizes=sizes, has_chat=False)
    return msgspec.structs.replace(status, models=(offer,))


def report(*claims: str, model: str = "m", has_chat: bool = True, says: bool = True) -> NodeStatus:
    """A node with one model on a backend that claims this."""
    about = NodeAbout(
        Processor(None, 1, 1),
        Memory(),
        backends=(BackendAbout("b", usable=True, claims=claims),),
    )
    offer = ModelOffer(ModelId(model), 1, 64, has_chat=has_chat, backend="b")
    return NodeStatus((offer,), (), 0, 1, about=about if says else None)


def refused(abilities: Abilities, request: GenerateRequest) -> str:
    """Give the words of a refusal, "" for none."""
    failure = abilities.judge(request).failure
    assert failure is None or failure.reason == "unsupported"
    return failure.message if failure else ""


def test_a_lack_is_named_with_its_field_and_backend() -> None:
    """What is missing first, in the order in which it is asked for."""
    abilities = Abilities()
    abilities.on_report(ONE, report("chat", "completion"))
    assert refused(abilities, CHAT) == refused(abilities, TEXT) == ""
    failure = abilities.judge(SURE).failure
    assert failure is not None
    assert failure.param == "logprobs"
    assert failure.message == (
        "The model `m` runs on b, which does no log probabilities. No model here can."
    )
    abilities.on_report(ONE, report("logprobs"))
    failure = abilities.judge(SURE).failure
    assert failure is not None
    assert failure.param == "messages"


@pytest.mark.parametrize(
    ("request_", "claim", "param"),
    [
        (msgspec.structs.replace(TEXT, constraint=JsonAny()), "json_schema", "response_format"),
        (
            msgspec.structs.replace(TEXT, constraint=JsonSchema("{}")),
            "json_schema",
            "response_format",
        ),
        (msgspec.structs.replace(TEXT, constraint=Grammar("")), "grammar", "grammar"),
        (msgspec.structs.replace(TEXT, sampling=BIASED), "logit_bias", "logit_bias"),
        (msgspec.structs.replace(TEXT, counts=True), "exact_token_count", "messages"),
    ],
)
def test_formats_and_biases_need_their_claims(
    request_: GenerateRequest, claim: str, param: str
) -> None:
    """Who cannot hold an answer to a format is not asked for it."""
    abilities = Abilities()
    abilities.on_report(ONE, report("completion"))
    failure = abilities.judge(request_).failure
    assert failure is not None
    assert failure.param == param
    abilities.on_report(ONE, report("completion", claim))
    assert refused(abilities, request_) == ""


def test_a_model_without_a_template_says_so() -> None:
    """Its backend could chat; the model cannot, and completes text all the same."""
    abilities = Abilities()
    abilities.on_report(ONE, report("chat", "completion", has_chat=False))
    abilities.on_report(TWO, report("chat", model="talker"))
    assert refused(abilities, TEXT) == ""
    assert refused(abilities, CHAT) == (
        "The model `m` has no chat template: it can complete text, but it cannot chat. "
        "Models here that can: `talker`."
    )


def test_one_who_can_is_enough_and_so_is_one_who_does_not_say() -> None:
    """Only what nobody can do is refused."""
    abilities = Abilities()
    abilities.on_report(ONE, report("chat"))
    assert refused(abilities, SURE)
    abilities.on_report(TWO, report("chat", "logprobs"))
    assert refused(abilities, SURE) == ""
    abilities.on_left(TWO)
    assert refused(abilities, SURE)
    abilities.on_report(TWO, report(says=False))
    assert refused(abilities, SURE) == ""


@pytest.mark.parametrize("request_", [CHAT, TEXT, SURE])
def test_a_model_that_nobody_has_is_not_this_refusal(request_: GenerateRequest) -> None:
    """Others say better that it does not exist; a backend that is not described is unknown."""
    abilities = Abilities()
    assert refused(abilities, request_) == ""
    abilities.on_report(ONE, report("nothing", model="other"))
    assert refused(abilities, request_) == ""
    odd = report("nothing")
    unknown = msgspec.structs.replace(odd.models[0], backend="elsewhere")
    abilities.on_report(ONE, msgspec.structs.replace(odd, models=(unknown,)))
    assert refused(abilities, request_) == ""
    abilities.on_left(TWO)


def test_those_who_cannot_are_named_where_others_can() -> None:
    """A request goes to none of them; it changes with what nodes say, and with who is there."""
    abilities = Abilities()
    abilities.on_report(ONE, report("chat"))
    abilities.on_report(TWO, report("chat", "logprobs"))
    assert abilities.judge(SURE) == Verdict(None, frozenset({ONE}))
    assert abilities.judge(CHAT) == Verdict()
    abilities.on_report(ONE, report("chat", "logprobs"))
    assert abilities.judge(SURE) == Verdict()
    abilities.on_report(TWO, report("chat", says=False))
    abilities.on_report(ONE, report("chat"))
    assert abilities.judge(SURE) == Verdict(None, frozenset({ONE}))
    abilities.on_left(TWO)
    assert abilities.judge(SURE).failure is not None


def test_few_models_are_named() -> None:
    """Five, by name, however many there are."""
    abilities = Abilities()
    abilities.on_report(ONE, report())
    for number in range(9):
        node = NodeId(f"n{number}")
        abilities.on_report(node, report("chat", model=f"t{number}"))
    assert refused(abilities, CHAT).endswith("can: `t0`, `t1`, `t2`, `t3`, `t4`.")


def test_nobody_is_told_of_a_model_that_he_may_not_use() -> None:
    """Each is told of his own, whoever was refused before him; and of none where he has none."""
    abilities = Abilities()
    abilities.on_report(ONE, report())
    for number in range(9):
        abilities.on_report(NodeId(f"n{number}"), report("chat", model=f"t{number}"))
    for mine, told in (("t7", "Models here that can: `t7`."), ("m", "No model here can.")):
        failure = abilities.judge(CHAT, mine.__eq__).failure
        assert failure is not None
        assert failure.message.endswith(told)
    assert refused(abilities, CHAT).endswith("can: `t0`, `t1`, `t2`, `t3`, `t4`.")


def test_texts_and_vectors_are_asked_of_different_models() -> None:
    """What a backend could do does not matter where its runtime is for something else."""
    abilities = Abilities()
    abilities.on_report(ONE, report("chat", "completion", "embeddings"))
    abilities.on_report(TWO, embeds(16, model="v"))
    assert refused(abilities, VECTORS) == (
        "The model `m` says texts and makes no vectors (its `mode` is generate). "
        "Models here that can: `v`."
    )
    of_v = msgspec.structs.replace(VECTORS, model=ModelId("v"))
    assert abilities.judge(of_v) == Verdict(unfit=frozenset())
    for request in (CHAT, TEXT):
        failure = abilities.judge(msgspec.structs.replace(request, model=ModelId("v"))).failure
        assert failure is not None
        assert failure.param == "model"
        assert failure.message.startswith("The model `v` makes vectors and says no texts")
        assert failure.message.endswith("Models here that can: `m`.")


def test_a_node_that_knows_no_vectors_is_not_asked_for_any() -> None:
    """It says nothing of what its models are for, and would close the link over the request."""
    abilities = Abilities()
    abilities.on_report(ONE, report(says=False))
    assert refused(abilities, VECTORS)
    abilities.on_report(TWO, embeds(16, says=False))
    assert abilities.judge(VECTORS) == Verdict(unfit=frozenset({ONE}))
    assert abilities.judge(CHAT) == Verdict(unfit=frozenset({TWO}))


def test_sizes_are_asked_of_those_who_have_them() -> None:
    """A size that one of two can make goes there; one that nobody can is refused with the sizes."""
    abilities = Abilities()
    abilities.on_report(ONE, embeds(16))
    failure = abilities.judge(EIGHT).failure
    assert failure is not None
    assert failure.param == "dimensions"
    assert "have 16 numbers" in failure.message
    abilities.on_report(TWO, embeds(16, 8))
    assert abilities.judge(EIGHT) == Verdict(unfit=frozenset({ONE}))
    assert abilities.judge(VECTORS) == Verdict(unfit=frozenset())
