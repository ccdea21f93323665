"""DECIDER: which backend runs a model, and why each of the others does not.

`auto` takes, of those that read the model's format, can do something the model is for, run on this
platform and are installed, the one with the highest priority; the next ones follow if its load
fails. A backend that is named binds: nothing else is tried, whatever becomes of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from roost.core.choice import AUTO, Candidate, Choice, Found, Trait
from roost.core.ids import ModelId

_TASKS = ("chat", "completion", "embeddings", "rerank")
"""Tasks of models that a backend's capabilities have a word for."""


class Subject(msgspec.Struct, frozen=True):
    """What matters about a model; no `tasks` where nobody knows what it is for."""

    model: ModelId
    format: str
    tasks: tuple[str, ...] = ()


class Around(msgspec.Struct, frozen=True):
    """What matters about this machine.

    `platform` is Python's `sys.platform`, `found` what there is of each backend, and `spoilt` says
    of backends why they failed with this very model.
    """

    platform: str
    found: Mapping[str, Found]
    spoilt: Mapping[str, str] = {}


def choose(wanted: str, subject: Subject, traits: Sequence[Trait], around: Around) -> Choice:
    """Choose for one model; `wanted` is `auto` or the name of one of `traits`."""
    if wanted != AUTO:
        return _bound(wanted, subject, traits, around)
    judged = [_judged(trait, subject, around) for trait in traits]
    # Rejected ones that read the format come before those that never could, for people to read.
    reads = {trait.name: subject.format in trait.formats for trait in traits}
    preferred = {trait.name: _priority(trait, subject, around) for trait in traits}
    judged.sort(key=lambda one: (not reads[one.backend], -preferred[one.backend], one.backend))
    chain = tuple(one.backend for one in judged if one.accepted)
    best = next((one for one in judged if one.accepted), None)
    if best is not None:
        reason = best.reason
    elif any(reads.values()):
        reason = f"{judged[0].backend}: {judged[0].reason}"
    else:
        reason = f"No backend serves models of the format {subject.format!r}."
    return Choice(
        *(subject.model, wanted, best.backend if best else "", reason, tuple(judged), chain)
    )


def _bound(wanted: str, subject: Subject, traits: Sequence[Trait], around: Around) -> Choice:
    """Take the one that is named; what speaks against it is said, and its load will say more."""
    candidates = []
    for trait in traits:
        judged = _judged(trait, subject, around)
        if trait.name != wanted:
            judged = Candidate(trait.name, accepted=False, reason=f"{wanted} was asked for by name")
        elif judged.accepted:
            judged = msgspec.structs.replace(judged, reason="it was asked for by name")
        else:
            reason = f"it was asked for by name, although: {judged.reason}"
            priority = _priority(trait, subject, around)
            judged = Candidate(wanted, accepted=True, reason=reason, priority=priority)
        candidates.append(judged)
    candidates.sort(key=lambda one: (not one.accepted, one.backend))
    reason = candidates[0].reason
    return Choice(subject.model, wanted, wanted, reason, tuple(candidates), (wanted,))


def _judged(trait: Trait, subject: Subject, around: Around) -> Candidate:
    found = around.found[trait.name].of(subject.format)
    against = (
        _wrong_format(trait, subject)
        or _wrong_task(trait, subject)
        or _wrong_platform(trait, around)
        or _not_here(found)
        or _spoilt(trait, around)
    )
    if against:
        return Candidate(trait.name, accepted=False, reason=against)
    priority = _priority(trait, subject, around)
    reason = f"reads {subject.format} and runs here on {found.accelerator}, priority {priority}"
    return Candidate(trait.name, accepted=True, reason=reason, priority=priority)


def _priority(trait: Trait, subject: Subject, around: Around) -> int:
    return trait.priorities.get(around.found[trait.name].of(subject.format).accelerator, 0)


def _wrong_format(trait: Trait, subject: Subject) -> str:
    if subject.format in trait.formats:
        return ""
    return f"does not read {subject.format}, but {', '.join(trait.formats)}"


def _wrong_task(trait: Trait, subject: Subject) -> str:
    known = [task for task in subject.tasks if task in _TASKS]
    if not known or any(getattr(trait.capabilities, task) for task in known):
        return ""
    return f"cannot do what the model is for: {', '.join(known)}"


def _wrong_platform(trait: Trait, around: Around) -> str:
    if not trait.platforms or around.platform in trait.platforms:
        return ""
    return f"does not run on {around.platform}, but on {', '.join(trait.platforms)}"


def _not_here(found: Found) -> str:
    if found.usable:
        return ""
    return f"{found.why}; type: {found.command}" if found.command else found.why


def _spoilt(trait: Trait, around: Around) -> str:
    why = around.spoilt.get(trait.name)
    return f"its load failed: {why}" if why else ""
