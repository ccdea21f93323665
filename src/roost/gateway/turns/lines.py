"""SHELL: what the log says of a turn on its way; each line says of which request it is.

`session` names the conversation where somebody has said which one it is: the same word in each of
its lines, and of no use to whoever reads it there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from roost.core.events import Started
    from roost.fleet.effects import Dispatch
    from roost.gateway.turns.turn import Turn
    from roost.observe.logs import Log


def who(turn: Turn) -> dict[str, str]:
    """Give the request, and the session and node as far as they are known."""
    named = {"request": str(turn.terms.request_id)}
    if turn.label:
        named["session"] = turn.label
    if turn.dispatch is not None:
        named["node"] = turn.dispatch.node
    return named


def dispatched(log: Log, turn: Turn, effect: Dispatch) -> None:
    """A node was chosen, for which reasons, and who would have been next."""
    log.debug(
        "request_dispatched",
        **who(turn),
        model=turn.request.model,
        attempt=effect.attempt,
        placement=effect.placement,
        why=effect.why,
        policy=effect.policy,
        score=round(effect.score, 4),
        candidates=effect.candidates,
        runner_up=effect.runner_up,
        queued_s=round(effect.queued_s, 4),
        prompt_bytes=turn.terms.prompt_bytes,
    )


def begun(log: Log, turn: Turn, event: Started) -> None:
    """A node has begun to work on it."""
    log.debug(
        "stream_begun",
        **who(turn),
        model=turn.request.model,
        slot=event.slot,
        prompt_tokens=event.prompt_tokens,
        cached_tokens=event.cached_tokens,
    )


def slow(log: Log, turn: Turn) -> None:
    """Its client does not take what it is sent."""
    log.info("stream_slow_client", **who(turn), dialect=turn.dialect)


def filling(log: Log, turn: Turn) -> None:
    """Its buffer is nearly full."""
    log.info("stream_buffer_high", **who(turn), held=turn.relay.held_messages)


def overflowing(log: Log, turn: Turn, pieces: int) -> None:
    """The oldest of its text gives way, because its client wants it so and does not read."""
    log.info("stream_buffer_overflow", **who(turn), pieces=pieces)


def given_up(log: Log, turn: Turn) -> None:
    """Its client has not read for so long that it is cut off."""
    log.info("stream_write_timeout", **who(turn), held=turn.held_most)
