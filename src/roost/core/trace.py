"""VALUE: what is traced of a request: its phases as spans, and whose trace they belong to."""

from __future__ import annotations

import msgspec

PATH = "/v1/traces"

Fact = str | int | float | bool


class Parent(msgspec.Struct, frozen=True):
    """The caller's span, by the ids of W3C Trace Context, and whether he records it."""

    trace_id: int
    span_id: int
    sampled: bool


class Span(msgspec.Struct, frozen=True):
    """One phase: seconds after its request's arrival, and facts without a word of anybody.

    `failure` says why it ended badly, "" where it did not.
    """

    name: str
    start_s: float
    end_s: float
    facts: dict[str, Fact] = {}
    failure: str = ""


class Trace(msgspec.Struct, frozen=True):
    """A request as a whole, and its phases, which are its children; its caller, if he said so."""

    request: Span
    phases: tuple[Span, ...]
    parent: Parent | None = None


class TracingSettings(msgspec.Struct, frozen=True):
    """Where traces go, "" for nowhere, and the share of requests that have one.

    A caller who sends his own trace decides that for his requests.
    """

    endpoint: str = ""
    share: float = 1.0

    @property
    def url(self) -> str:
        """The address for traces: an endpoint without a path gets the usual one."""
        base = self.endpoint.rstrip("/")
        return base if base.endswith(PATH) else base + PATH
