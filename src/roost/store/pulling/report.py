"""DECIDER: reads pip's report: where a wheel is, its digest and licence, or why there is none."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from roost.errors import RoostError, fail
from roost.store.pulling.sources import plain_name

MAX_LICENCE_CHARACTERS = 120
MAX_QUOTE_CHARACTERS = 200

_SHA256 = re.compile(r"[0-9a-f]{64}")
_CLASSIFIER = re.compile(r"License :: (?:OSI Approved :: )?(.+)")
_NO_NETWORK = re.compile(
    r"connection broken|NewConnectionError|NameResolutionError|name resolution"
    r"|Max retries exceeded|Network is unreachable|Connection refused",
    re.IGNORECASE,
)


class Wheel(msgspec.Struct, frozen=True):
    """A wheel that can be had: its address, sha256 in hex (None: not stated), version, licence.

    `requires` is what its package requires, as it says so.
    """

    url: str
    sha256: str | None
    version: str
    licence: str
    requires: tuple[str, ...] = ()


class _Archive(msgspec.Struct, frozen=True):
    # Before 23.1 pip states one `hash`, as "sha256=…"; later ones state both.
    hash: str = ""
    hashes: dict[str, str] = {}


class _Download(msgspec.Struct, frozen=True):
    url: str
    archive_info: _Archive = _Archive()


class _Metadata(msgspec.Struct, frozen=True):
    version: str
    name: str = ""
    license: str = ""
    license_expression: str = ""
    classifier: tuple[str, ...] = ()
    requires_dist: tuple[str, ...] | None = None


class _Item(msgspec.Struct, frozen=True):
    download_info: _Download
    metadata: _Metadata


class _Report(msgspec.Struct, frozen=True):
    install: tuple[_Item, ...]


def read_report(raw: bytes, names: Sequence[str]) -> tuple[Wheel, ...]:
    """Read the JSON of `pip install --report` for packages of these names, in their order.

    Raises `upstream_error` for what is no such report.
    """
    try:
        items = msgspec.json.decode(raw, type=_Report).install
    except msgspec.MsgspecError as error:
        raise fail("upstream_error", "pip's report cannot be read. Update pip.") from error
    found = {plain_name(item.metadata.name): item for item in items}
    wanted = [plain_name(name) for name in names]
    if len(items) != len(wanted) or found.keys() != set(wanted):
        text = "pip's report does not name what it was asked for. Update pip."
        raise fail("upstream_error", text)
    return tuple(_wheel(found[name]) for name in wanted)


def _wheel(item: _Item) -> Wheel:
    download, metadata = item.download_info, item.metadata
    archive = download.archive_info
    sha256 = (archive.hashes.get("sha256") or archive.hash.removeprefix("sha256=")).lower()
    known = _SHA256.fullmatch(sha256) is not None
    if not known and not download.url.startswith("file:"):
        raise fail("upstream_error", "The package index states no sha256 of the wheel: refused.")
    requires = metadata.requires_dist or ()
    digest = sha256 if known else None
    return Wheel(download.url, digest, metadata.version, _licence(metadata), requires)


def explain(complaint: str) -> RoostError:
    """Turn what pip wrote to stderr when it failed into an error with its last line."""
    if "No module named pip" in complaint:
        return fail("unsupported", "This Python has no pip. Run: python -m ensurepip")
    lines = [line.strip() for line in complaint.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:")] or lines
    last = errors[-1].removeprefix("ERROR:").strip() if errors else "it says nothing"
    if _NO_NETWORK.search(complaint):
        return fail("upstream_error", "The package index cannot be reached. Check the network.")
    if "No matching distribution" in complaint:
        return fail(
            "not_found", f"The package index has no such wheel: {last[:MAX_QUOTE_CHARACTERS]}"
        )
    return fail("upstream_error", f"pip failed: {last[:MAX_QUOTE_CHARACTERS]}")


def _licence(metadata: _Metadata) -> str:
    """Return the licence in a few words: expression, field or classifier, whichever is there."""
    stated = metadata.license_expression or metadata.license
    first = stated.strip().partition("\n")[0].strip()
    if first:
        return first[:MAX_LICENCE_CHARACTERS]
    found = map(_CLASSIFIER.fullmatch, metadata.classifier)
    return next((match[1][:MAX_LICENCE_CHARACTERS] for match in found if match), "")
