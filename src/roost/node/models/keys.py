"""MACHINE: which exact key each runtime has, from the start of its load until it is gone."""

from __future__ import annotations

import msgspec

from roost.core.ids import RuntimeId
from roost.core.snapshots import ModelOffer


class Keys:
    """What runtimes are, by name of their keys; see `core.model.RuntimeKey`."""

    def __init__(self) -> None:
        self._keys: dict[RuntimeId, str] = {}

    def begin(self, runtime: RuntimeId, offer: ModelOffer) -> None:
        """A load begins, of what is offered now."""
        self._keys[runtime] = _key_of(offer)

    def came_up(self, runtime: RuntimeId, exact: str, offer: ModelOffer | None) -> None:
        """A runtime is ready; `exact` is its own key, "" if it does not tell.

        It may be another one than was offered when the load began: another backend took over.
        """
        if exact and offer is not None and offer.key:
            self._keys[runtime] = exact

    def is_of(self, runtime: RuntimeId, offer: ModelOffer | None) -> bool:
        """Whether a runtime is what is offered now."""
        return offer is not None and self._keys[runtime] == _key_of(offer)

    def over(self, runtime: RuntimeId) -> None:
        """A runtime is gone, or its load has failed."""
        self._keys.pop(runtime, None)


def _key_of(offer: ModelOffer) -> str:
    """Name what runs for an offer; an offer that does not tell is as good as itself alone.

    What a runtime was seen to take is nothing that makes it another one.
    """
    return offer.key or repr(msgspec.structs.replace(offer, measured_bytes=None))


def carried(old: ModelOffer | None, new: ModelOffer) -> ModelOffer:
    """Let a new offer know what was measured of the same runtimes under the old one."""
    if old is None or new.measured_bytes is not None or _key_of(old) != _key_of(new):
        return new
    return msgspec.structs.replace(new, measured_bytes=old.measured_bytes)
