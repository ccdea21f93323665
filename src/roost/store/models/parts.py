"""DECIDER: which of many files make up one model: shards, variants, and the one to take.

A model that is split lies in `NAME-00001-of-00003.gguf` and so on, which llama.cpp finds by these
very names. It is whole or it is refused: a runtime that starts without a part fails late, and says
little. A folder or a repository often holds one model in several quantisations, its variants.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from roost.errors import RoostError, fail
from roost.store.models.naming import quantisation

if TYPE_CHECKING:
    from roost.text.gguf import Header

SHARDS_MAX = 1024
QUANTISATIONS = ("q4_k_m", "q5_k_m", "q4_k_s", "q5_k_s", "q6_k", "q8_0")
"""What is taken where nobody chooses, best first; others follow, by their names."""
NAMES_SHOWN = 8

_SHARD = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf", re.IGNORECASE | re.DOTALL)
_PART = re.compile(r"(.+)-\d{5}-of-(\d{5})(\.\w+)", re.DOTALL)


class Variant(msgspec.Struct, frozen=True):
    """One model among the files of a folder or repository: its files, shards in their order.

    `missing` names the shards that are not there.
    """

    files: tuple[str, ...]
    missing: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its first file, by which it is told from others."""
        return self.files[0]


def variants(names: Iterable[str]) -> tuple[Variant, ...]:
    """Sort the model files among `names`, paths with `/`, into variants, the one to take first.

    Projectors of pictures lie beside models and are none.
    """
    shards: dict[tuple[str, int], dict[int, str]] = {}
    found: list[Variant] = []
    for name in sorted(names):
        if not name.lower().endswith(".gguf") or "mmproj" in _last(name).lower():
            continue
        split = _SHARD.fullmatch(name)
        count = int(split[3]) if split else 0
        if split is None or not 0 < int(split[2]) <= count <= SHARDS_MAX:
            found.append(Variant((name,)))
        else:
            shards.setdefault((split[1], count), {})[int(split[2])] = name
    for (stem, count), numbered in shards.items():
        files = tuple(numbered[number] for number in sorted(numbered))
        lost = (number for number in range(1, count + 1) if number not in numbered)
        missing = (f"{stem}-{number:05}-of-{count:05}.gguf" for number in lost)
        found.append(Variant(files, tuple(missing)))
    return tuple(sorted(found, key=_rank))


def choose(found: Sequence[Variant], wanted: str = "") -> Variant:
    """Take the best variant, or the one that `wanted` names: by a file, its last part, or Q4_K_M.

    Raises `bad_request` where there is none, or none of that name, or where a part of it is
    missing.
    """
    fitting = [one for one in found if not wanted or _is_named(one, wanted)]
    if not found:
        raise fail("bad_request", "There is no model here: no file ends in .gguf.")
    if not fitting:
        raise fail("bad_request", f"No model here has this name. There are: {_names(found)}.")
    if wanted and len(fitting) > 1:
        exact = [one for one in fitting if wanted in one.files]
        if not exact:
            raise fail("bad_request", f"Several models fit: {_names(fitting)}. Name one file.")
        fitting = exact
    chosen = fitting[0]
    if chosen.missing:
        raise _incomplete(chosen.missing, len(chosen.missing) + len(chosen.files))
    return chosen


def shards_beside(name: str, siblings: Iterable[str]) -> Variant:
    """Find the whole model that the file `name` is, or is a part of, among its `siblings`.

    Raises `bad_request` where a part of it is missing.
    """
    if _SHARD.fullmatch(name) is None:
        return Variant((name,))
    return choose([one for one in variants({name, *siblings}) if name in one.files])


def listed(names: Sequence[str]) -> str:
    """Write names in a message: the first few of them, and how many more there are."""
    more = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {more} more" if more > 0 else "")


def check_parts(names: Iterable[str]) -> None:
    """Compare the names of split weights with how many parts they say; raises `bad_request`.

    For formats whose runtimes find the parts by a list of their own.
    """
    there = set(names)
    for stem, stated, kind in {found.groups() for found in map(_PART.fullmatch, there) if found}:
        count = min(int(stated), SHARDS_MAX)
        every = [f"{stem}-{number:05}-of-{stated}{kind}" for number in range(1, count + 1)]
        if missing := [name for name in every if name not in there]:
            raise _incomplete(missing, count)


def check_shards(headers: Sequence[Header]) -> None:
    """Compare what the headers of a model's files say of the split; raises `bad_request`."""
    first = headers[0]
    stated = max(1, _number(first, "split.count"))
    if stated != len(headers):
        raise _unlike(
            f"it says that it has {stated} parts and {len(headers)} are here, side by side"
        )
    if stated == 1:
        return
    for index, header in enumerate(headers):
        if (_number(header, "split.count"), _number(header, "split.no")) != (stated, index):
            raise _unlike(f"part {index + 1} is not the one that its name says")
    tensors = _number(first, "split.tensors.count")
    if tensors and tensors != sum(header.tensor_count for header in headers):
        raise _unlike(f"its parts do not have its {tensors} tensors together")


def _incomplete(missing: Sequence[str], every: int) -> RoostError:
    message = f"The model is split, and {len(missing)} of its {every} parts cannot be found"
    return fail("bad_request", f"{message}: {listed(missing)}. Get them, side by side.")


def _unlike(what: str) -> RoostError:
    return fail("bad_request", f"The split model is not whole: {what}. Download it again.")


def _number(header: Header, key: str) -> int:
    value = header.metadata.get(key)
    return value if type(value) is int and 0 <= value < 2**31 else 0


def _is_named(variant: Variant, wanted: str) -> bool:
    plain = wanted.lower().replace("-", "_")
    if quantisation(_last(variant.name)) == plain:
        return True
    return any(wanted in (name, _last(name)) for name in variant.files)


def _names(found: Sequence[Variant]) -> str:
    return listed([one.name for one in found])


def _rank(variant: Variant) -> tuple[bool, int, str]:
    """Whole ones first, then by the list, then by name."""
    kind = quantisation(_last(variant.name))
    place = QUANTISATIONS.index(kind) if kind in QUANTISATIONS else len(QUANTISATIONS)
    return (bool(variant.missing), place, variant.name)


def _last(name: str) -> str:
    return name.rpartition("/")[2]
