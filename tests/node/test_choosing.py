"""The node's choices: made anew whenever asked, said once, and another one after a failed load."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from roost.backends import registry
from roost.backends.base import Backend
from roost.backends.choosing import Around, Subject, choose
from roost.core.choice import Choice, Found, Trait
from roost.core.ids import ModelId
from roost.core.model import Capabilities, Manifest
from roost.errors import Failure, RoostError
from roost.node.models.choosing import Chooser

TRAITS = (
    Trait("llama_server", ("gguf",), {"cpu": 2}, Capabilities(chat=True)),
    Trait("scripted", ("gguf",), {"cpu": 1}, Capabilities(chat=True)),
)
MODEL = Manifest(ModelId("m"), "/m.gguf", 1, "sha256:0")
FAILED = Failure("load_failed", "It does not fit.")


class Lines:
    """A log that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str, dict[str, object]]] = []

    def debug(self, event: str, **fields: object) -> None:
        """Keep a line."""
        self.lines.append(("debug", event, fields))

    def info(self, event: str, **fields: object) -> None:
        """Keep a line."""
        self.lines.append(("info", event, fields))

    def warning(self, event: str, **fields: object) -> None:
        """Keep a line."""
        self.lines.append(("warning", event, fields))

    def error(self, event: str, **fields: object) -> None:
        """Keep a line."""
        self.lines.append(("error", event, fields))


class Site:
    """What there is on a machine, and its chooser."""

    def __init__(self) -> None:
        self.found = {trait.name: Found(usable=True) for trait in TRAITS}
        self.log = Lines()
        self.chooser = Chooser(self._choose, self._make, self.log)

    def _choose(self, subject: Subject, spoilt: Mapping[str, str]) -> Choice:
        return choose("auto", subject, TRAITS, Around("linux", self.found, spoilt))

    def _make(self, name: str) -> Backend:
        return registry.make(name)

    def name(self, model: Manifest = MODEL) -> str:
        """Name the backend of a model."""
        return self.chooser.backend_of(model).name


def test_a_choice_is_said_once() -> None:
    """However often a model is looked at; a preferred backend is no news for people."""
    site = Site()
    assert [site.name() for _ in range(3)] == ["llama_server"] * 3
    assert [(level, event) for level, event, _ in site.log.lines] == [("debug", "backend_chosen")]


def test_what_is_installed_meanwhile_is_seen() -> None:
    """A makeshift is announced with what it stands for, and ends when the engine is there."""
    site = Site()
    site.found["llama_server"] = Found(usable=False, why="it is not installed")
    assert site.name() == "scripted"
    level, event, fields = site.log.lines[-1]
    assert (level, event, fields["backend"]) == ("warning", "backend_chosen", "scripted")
    assert fields["in_place_of"] == {"llama_server": "it is not installed"}
    site.found["llama_server"] = Found(usable=True)
    assert site.name() == "llama_server"


def test_a_failed_load_is_remembered_for_its_weights() -> None:
    """The other backend takes over for this model as it is; a new file begins anew."""
    site = Site()
    assert site.chooser.on_failed(MODEL, "llama_server", FAILED)
    assert site.name() == "scripted"
    assert site.name(msgspec.structs.replace(MODEL, digest="sha256:1")) == "llama_server"
    assert site.name(msgspec.structs.replace(MODEL, id=ModelId("n"))) == "llama_server"
    assert not site.chooser.on_failed(MODEL, "scripted", FAILED)
    assert site.name() == "scripted"


def test_nobody_left_says_why() -> None:
    """The load fails with the reason of the one that would have been best."""
    site = Site()
    site.found["scripted"] = site.found["llama_server"] = Found(usable=False, why="it is gone")
    with pytest.raises(RoostError, match="llama_server: it is gone") as caught:
        site.name()
    assert caught.value.failure.reason == "load_failed"
