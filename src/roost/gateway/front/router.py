"""DECIDER: from method and path to a handler: exact paths, and one open end for model names.

Model names hold `/`, `:` and percent-encoded bytes, so a route may end in `{rest}`, which takes
everything that follows. Trailing and doubled slashes are forgiven in place: a redirect would lose
the body of a POST in many clients. `/v1/…` is also found without its `/v1`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Generic, TypeVar

import msgspec

from roost.errors import Failure

Handler = TypeVar("Handler")

_REST = "{rest}"
_SLASHES = re.compile("/{2,}")
_ESCAPES = re.compile("(?:%[0-9A-Fa-f]{2})+")
_BASE = "/v1"


class Matched(msgspec.Struct, Generic[Handler], frozen=True):
    """A handler and what `{rest}` stood for, percent-decoded; "" for exact routes."""

    handler: Handler
    rest: str = ""


class NotMatched(msgspec.Struct, frozen=True):
    """Nothing here: the failure, and the methods that would have worked (empty for 404)."""

    failure: Failure
    allow: tuple[str, ...] = ()


def normalise(path: str) -> str:
    """Collapse doubled slashes and drop trailing ones; the root stays `/`."""
    if "//" in path:
        path = _SLASHES.sub("/", path)
    return path.rstrip("/") or "/" if path.endswith("/") else path


def percent_decoded(path: str) -> str:
    """Undo percent-encoding; bytes that are no UTF-8 become U+FFFD, a lone `%` stays."""
    if "%" not in path:
        return path
    return _ESCAPES.sub(
        lambda m: bytes.fromhex(m.group().replace("%", "")).decode("utf-8", "replace"), path
    )


class Router(Generic[Handler]):
    """A table of routes. Fill it once; after that it only answers."""

    def __init__(self) -> None:
        self._exact: dict[str, dict[str, Handler]] = {}
        self._open: dict[str, dict[str, Handler]] = {}

    def add(self, methods: str, pattern: str, handler: Handler) -> None:
        """Serve `methods` ("GET POST"; GET means HEAD too) at `pattern`, maybe with `/{rest}`."""
        table, path = self._exact, pattern
        if pattern.endswith("/" + _REST):
            table, path = self._open, pattern.removesuffix(_REST)
        if "{" in path or not path.startswith("/"):
            raise ValueError(f"a pattern is an absolute path, {_REST} only at its end: {pattern}")
        row = table.setdefault(path, {})
        for method in methods.split():
            row[method] = handler
            if method == "GET":
                row.setdefault("HEAD", handler)

    def rows(self) -> Iterator[tuple[str, str, Handler]]:
        """List methods, patterns and handlers, HEAD only where it is not GET's."""
        rows = [*self._exact.items()]
        rows += [(prefix + _REST, row) for prefix, row in self._open.items()]
        for pattern, row in rows:
            shown = row.keys() - {"HEAD"} if "GET" in row else row.keys()
            yield from ((method, pattern, row[method]) for method in shown)

    def match(self, method: str, raw_path: str) -> Matched[Handler] | NotMatched:
        """Find the handler of a percent-encoded path without its query."""
        raw = normalise(raw_path)
        for candidate in (raw, _BASE + raw):
            path = percent_decoded(candidate)
            row = self._exact.get(path)
            if row is not None:
                return _chosen(row, method, "")
            for prefix, open_row in self._open.items():
                if path.startswith(prefix):
                    return _chosen(open_row, method, path.removeprefix(prefix))
        return NotMatched(Failure("not_found", "There is nothing at this address."))


def _chosen(row: dict[str, Handler], method: str, rest: str) -> Matched[Handler] | NotMatched:
    handler = row.get(method)
    if handler is not None:
        return Matched(handler, rest)
    failure = Failure("method_not_allowed", f"Use {' or '.join(sorted(row))} at this address.")
    return NotMatched(failure, tuple(sorted(row)))
