"""SHELL: what a node's log says of each request: its slot, its first text, its end.

It listens to what goes to the gateways and changes nothing: the agent knows nothing of it. Requests
have the names that the gateway's log has them under, so that the lines of both can be joined.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from roost.core.about import RuntimeVitals
from roost.core.events import Delta, Failed, Finished, Started, StreamEvent, Vectors
from roost.core.ids import ModelId, RequestId, RuntimeId, StreamId
from roost.core.snapshots import NodeStatus, RuntimeView
from roost.observe.logs import Log
from roost.wire.messages import Events, FromNode, Open, Refused, Released, Status

REPORT_S = 20.0
"""Between two reports of how runtimes do."""

WANTED_NO_MORE = frozenset({"cancelled", "draining", "deadline"})
"""Reasons for which a request that runs is ended by somebody else than its runtime."""


@dataclass(slots=True)
class _Run:
    request: RequestId
    model: ModelId
    opened_s: float
    started: Started | None = None
    started_s: float = 0.0
    spoke_s: float | None = None
    tokens: int = 0
    end: str = ""
    failed: bool = False


class RunLog:
    """Knows each request from its Open to its Released."""

    def __init__(self, log: Log, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._reported_s = clock()
        self._done: dict[RuntimeId, tuple[int, int]] = {}
        self._runs: dict[tuple[int, StreamId], _Run] = {}

    def __len__(self) -> int:
        """How many requests are not over."""
        return len(self._runs)

    def on_open(self, link: int, message: Open) -> None:
        """A gateway asks for something."""
        run = _Run(message.request_id, message.request.model, self._clock())
        self._runs[link, message.stream] = run

    def on_link_down(self, link: int) -> None:
        """Nobody is there to hear of what runs; the agent ends it."""
        for key in [key for key in self._runs if key[0] == link]:
            run = self._runs.pop(key)
            run.end = "link_down"
            self._ended(run)

    def on_sent(self, link: int, message: FromNode) -> None:
        """A gateway is told this."""
        match message:
            case Events(stream, _, events):
                run = self._runs.get((link, stream))
                if run is not None:
                    for event in events:
                        self._note(run, event)
            case Refused(stream, failure):
                run = self._runs.get((link, stream))
                if run is not None:
                    run.end = failure.reason
                    asked = {"request": run.request, "model": run.model}
                    self._log.debug("run_refused", **asked, reason=failure.reason)
            case Status(_, status):
                self._on_status(status)
            case Released(stream):
                run = self._runs.pop((link, stream), None)
                if run is not None and (run.started is not None or not run.end):
                    run.end = run.end or "cancelled"
                    self._ended(run)

    def _on_status(self, status: NodeStatus) -> None:
        now = self._clock()
        if now - self._reported_s < REPORT_S:
            return
        self._reported_s = now
        done, self._done = self._done, {}
        kv = {offer.model: offer.kv_token_bytes for offer in status.models}
        for view in status.runtimes:
            vitals, name = view.vitals, view.runtime
            if vitals is None or name is None:
                continue
            self._done[name] = vitals.generated_tokens, vitals.failures
            # Whoever has nothing to do has nothing to say.
            if self._done[name] != done.get(name, (0, 0)):
                facts = _vitals(vitals) | _kv(view, kv.get(view.model))
                self._log.info("runtime_report", runtime=name, model=view.model, **facts)

    def _note(self, run: _Run, event: StreamEvent) -> None:
        match event:
            case Delta(_, tokens):
                if run.spoke_s is None:
                    self._spoke(run)
                run.tokens += tokens
            case Started():
                run.started, run.started_s = event, self._clock()
                self._log.debug(
                    "run_started",
                    request=run.request,
                    model=run.model,
                    slot=event.slot,
                    prompt_tokens=event.prompt_tokens,
                    cached_tokens=event.cached_tokens,
                    waited_ms=_ms(run.started_s - run.opened_s),
                )
            case Vectors():
                pass
            case Finished(_, usage):
                run.end, run.tokens = "complete", usage.completion_tokens
            case Failed(failure):
                run.end = failure.reason
                run.failed = failure.reason not in WANTED_NO_MORE

    def _spoke(self, run: _Run) -> None:
        run.spoke_s = now = self._clock()
        took = {} if run.started is None else {"prefill_ms": _ms(now - run.started_s)}
        self._log.debug("run_first_text", request=run.request, model=run.model, **took)

    def _ended(self, run: _Run) -> None:
        now = self._clock()
        facts: dict[str, object] = {
            "request": run.request,
            "model": run.model,
            "end": run.end,
            "tokens": run.tokens,
            "seconds": round(now - run.opened_s, 3),
            "phase": _phase(run),
        }
        if run.started is not None:
            facts["slot"] = run.started.slot
        if run.spoke_s is not None and now > run.spoke_s and run.tokens > 1:
            # The first of them came with the prompt.
            facts["tokens_per_s"] = round((run.tokens - 1) / (now - run.spoke_s), 1)
        if run.failed:
            self._log.warning("run_ended", **facts)
        else:
            self._log.debug("run_ended", **facts)


def _vitals(vitals: RuntimeVitals) -> dict[str, object]:
    """How a runtime does, without what is not known."""
    seconds = {"prefill_last_ms": vitals.prefill_last_s, "prefill_avg_ms": vitals.prefill_avg_s}
    rate = vitals.decode_tokens_per_s
    return {
        **{name: _ms(value) for name, value in seconds.items() if value is not None},
        **({} if rate is None else {"tokens_per_s": round(rate, 1)}),
        "generated": vitals.generated_tokens,
        "failures": vitals.failures,
    }


def _kv(view: RuntimeView, token_bytes: int | None) -> dict[str, object]:
    """What its slots hold; in bytes too where it is known what a token takes."""
    tokens = sum(slot.tokens for slot in view.slots)
    size = {"kv_bytes": tokens * token_bytes} if token_bytes else {}
    busy = sum(slot.busy for slot in view.slots)
    return {"busy": busy, "waiting": view.waiting, "kv_tokens": tokens, **size}


def _phase(run: _Run) -> str:
    if run.spoke_s is not None:
        return "decode"
    return "waiting" if run.started is None else "prefill"


def _ms(seconds: float) -> int:
    return round(1000 * seconds)
