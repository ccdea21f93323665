"""Which backend a model gets: every rule with its reason, names that bind, and the chain."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.backends.choosing import Around, Subject, choose
from roost.core.choice import Accelerator, Choice, Found, Trait
from roost.core.ids import ModelId
from roost.core.model import Capabilities

TEXT = Capabilities(chat=True, completion=True)
CPU: dict[Accelerator, int] = {"cpu": 800, "cuda": 1000}
TRAITS = (
    Trait("llama", ("gguf",), CPU, TEXT),
    Trait("vllm", ("safetensors",), {"cuda": 950}, TEXT, ("linux",)),
    Trait("candle", ("gguf", "safetensors"), {"cpu": 100, "cuda": 700}, TEXT),
    Trait("embedder", ("gguf",), {"cpu": 900}, Capabilities(embeddings=True)),
)
ALL = {trait.name: Found(usable=True) for trait in TRAITS}
MODEL = Subject(ModelId("m"), "gguf", ("chat", "completion"))


def chosen(
    wanted: str = "auto",
    subject: Subject = MODEL,
    platform: str = "linux",
    spoilt: dict[str, str] | None = None,
    **found: Found,
) -> Choice:
    """Choose among the traits above where `found` differs from everything being there."""
    return choose(wanted, subject, TRAITS, Around(platform, {**ALL, **found}, spoilt or {}))


def reasons(choice: Choice) -> dict[str, str]:
    """Say why each rejected candidate was rejected."""
    return {one.backend: one.reason for one in choice.candidates if not one.accepted}


def test_the_highest_priority_that_can_serves() -> None:
    """Everybody is named, best first, with why the others do not: format, then task."""
    choice = chosen()
    assert (choice.backend, choice.chain) == ("llama", ("llama", "candle"))
    assert [one.backend for one in choice.candidates] == ["embedder", "llama", "candle", "vllm"]
    assert reasons(choice) == {
        "embedder": "cannot do what the model is for: chat, completion",
        "vllm": "does not read gguf, but safetensors",
    }
    assert choice.reason == "reads gguf and runs here on cpu, priority 800"


def test_a_format_may_need_what_others_do_not() -> None:
    """What is there for cards is not there for weights; both are told by one look."""
    weights = Subject(ModelId("m"), "safetensors", ("chat",))
    beside = Found(usable=False, why="vLLM is not installed", command="pip install it")
    choice = chosen(subject=weights, vllm=Found(usable=True, apart={"safetensors": beside}))
    assert choice.backend == "candle"
    assert reasons(choice)["vllm"] == "vLLM is not installed; type: pip install it"
    beside = Found(usable=True, accelerator="cuda")
    choice = chosen(subject=weights, vllm=Found(usable=True, apart={"safetensors": beside}))
    assert choice.chain == ("vllm", "candle")
    assert choice.reason == "reads safetensors and runs here on cuda, priority 950"


def test_an_accelerator_changes_the_order() -> None:
    """The same backend counts more where it was built for the device."""
    quick = Found(usable=True, accelerator="cuda")
    subject = Subject(ModelId("m"), "gguf")
    assert chosen(subject=subject).chain == ("embedder", "llama", "candle")
    assert chosen(subject=subject, llama=quick).chain == ("llama", "embedder", "candle")


def test_what_is_not_installed_says_what_to_type() -> None:
    """The next one serves in its place, and the choice says that it is a makeshift."""
    missing = Found(usable=False, why="it is not installed", command="pip install it")
    choice = chosen(llama=missing, embedder=missing)
    assert (choice.backend, choice.is_fallback) == ("candle", True)
    assert reasons(choice)["llama"] == "it is not installed; type: pip install it"
    assert not chosen(subject=Subject(ModelId("m"), "gguf")).is_fallback


def test_platforms_and_tasks_are_told_apart() -> None:
    """One that never runs on this system is no matter of installing it."""
    weights = Subject(ModelId("m"), "safetensors", ("chat",))
    elsewhere = reasons(chosen(subject=weights, platform="darwin"))
    assert elsewhere["vllm"] == "does not run on darwin, but on linux"
    vectors = Subject(ModelId("m"), "gguf", ("embeddings",))
    assert chosen(subject=vectors).chain == ("embedder",)
    # A task that no capability has a word for rules nobody out.
    assert "llama" in chosen(subject=Subject(ModelId("m"), "gguf", ("speech",))).chain


def test_a_failed_load_makes_room_for_the_next() -> None:
    """What failed with this model is passed over, with what it said."""
    choice = chosen(spoilt={"llama": "out of memory"})
    assert choice.chain == ("candle",)
    assert reasons(choice)["llama"] == "its load failed: out of memory"


def test_a_name_binds_whatever_speaks_against_it() -> None:
    """Nothing else is tried, and what is in the way is said."""
    plain = chosen("candle")
    assert (plain.backend, plain.chain) == ("candle", ("candle",))
    assert (plain.reason, plain.is_fallback) == ("it was asked for by name", False)
    assert reasons(plain)["llama"] == "candle was asked for by name"
    odd = chosen("vllm", spoilt={"vllm": "x"})
    assert odd.chain == ("vllm",)
    assert odd.reason == "it was asked for by name, although: does not read gguf, but safetensors"


@pytest.mark.parametrize(
    ("subject", "reason"),
    [
        (Subject(ModelId("m"), "onnx"), "No backend serves models of the format 'onnx'."),
        (Subject(ModelId("m"), "safetensors"), "vllm: it is not installed"),
    ],
)
def test_nobody_is_a_choice_with_a_reason(subject: Subject, reason: str) -> None:
    """A format that nobody reads, or the best of those that read it and are not there."""
    gone = Found(usable=False, accelerator="cuda", why="it is not installed")
    choice = chosen(subject=subject, vllm=gone, candle=gone)
    assert (choice.backend, choice.chain, choice.is_fallback) == ("", (), False)
    assert choice.reason == reason


@given(
    st.sampled_from(["gguf", "safetensors", "onnx"]),
    st.lists(st.sampled_from(["chat", "completion", "embeddings", "rerank"]), max_size=3),
    st.sets(st.sampled_from([trait.name for trait in TRAITS])),
    st.sets(st.sampled_from([trait.name for trait in TRAITS])),
)
def test_every_choice_is_whole(
    model_format: str, tasks: list[str], missing: set[str], failed: set[str]
) -> None:
    """Each backend is a candidate once, with a reason; the chain is what was accepted, in order."""
    subject = Subject(ModelId("m"), model_format, tuple(tasks))
    absent = {name: Found(usable=False, why="it is not there") for name in missing}
    around = Around("linux", {**ALL, **absent}, dict.fromkeys(failed, "it broke"))
    choice = choose("auto", subject, TRAITS, around)
    assert sorted(one.backend for one in choice.candidates) == sorted(ALL)
    assert all(one.reason for one in choice.candidates)
    accepted = [one for one in choice.candidates if one.accepted]
    assert choice.chain == tuple(one.backend for one in accepted)
    assert choice.backend == (choice.chain[0] if choice.chain else "")
    assert not (missing | failed) & set(choice.chain)
    priorities = [one.priority for one in accepted]
    assert priorities == sorted(priorities, reverse=True)
    assert msgspec.json.decode(msgspec.json.encode(choice), type=Choice) == choice
