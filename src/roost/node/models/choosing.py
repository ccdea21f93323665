"""SHELL: which backend runs each model of this node, said once for every choice that is a new one.

A backend whose load failed is passed over for that model, where `auto` may choose another: until
the model is another one, or this process ends. The last one that is left is tried again whenever
the model is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias

from roost.backends.choosing import Subject
from roost.core.choice import Choice
from roost.errors import fail

if TYPE_CHECKING:
    from roost.backends.base import Backend
    from roost.core.ids import ModelId
    from roost.core.model import Manifest
    from roost.errors import Failure
    from roost.observe.logs import Log

Choose: TypeAlias = Callable[[Subject, Mapping[str, str]], Choice]
"""Chooses for a model, given why some backends have failed with it."""


class Choosing(Protocol):
    """Who knows which backend runs a model."""

    def backend_of(self, model: Manifest) -> Backend:
        """Make the chosen one; raises `load_failed` where there is none."""
        ...

    def on_failed(self, model: Manifest, backend: str, failure: Failure) -> bool:
        """A load failed; True where `backend_of` gives another one now."""
        ...


class Chooser:
    """Remembers what failed here, and what has been said."""

    def __init__(self, choose: Choose, make: Callable[[str], Backend], log: Log) -> None:
        self._choose = choose
        self._make = make
        self._log = log
        self._spoilt: dict[tuple[ModelId, str], dict[str, str]] = {}
        self._said: dict[ModelId, Choice] = {}
        # Kept, because some know what they have started.
        self._made: dict[str, Backend] = {}

    def choice(self, model: Manifest) -> Choice:
        """Choose for this model, as things are now."""
        spoilt = self._spoilt.get((model.id, model.digest), {})
        return self._choose(Subject(model.id, model.format, model.tasks), spoilt)

    def backend_of(self, model: Manifest) -> Backend:
        """Make the chosen one; raises `load_failed` where there is none."""
        choice = self.choice(model)
        self._say(choice)
        if not choice.backend:
            raise fail("load_failed", choice.reason)
        made = self._made.get(choice.backend)
        if made is None:
            made = self._made[choice.backend] = self._make(choice.backend)
        return made

    def on_failed(self, model: Manifest, backend: str, failure: Failure) -> bool:
        """Remember why a load failed, where another backend can take its place."""
        if not [name for name in self.choice(model).chain if name != backend]:
            return False
        self._spoilt.setdefault((model.id, model.digest), {})[backend] = failure.message
        return True

    def _say(self, choice: Choice) -> None:
        if self._said.get(choice.model) == choice:
            return
        self._said[choice.model] = choice
        line = {"model": choice.model, "backend": choice.backend or None, "why": choice.reason}
        if not choice.is_fallback:
            self._log.debug("backend_chosen", **line)
            return
        missed = {one.backend: one.reason for one in choice.candidates if not one.accepted}
        self._log.warning("backend_chosen", **line, in_place_of=missed)
