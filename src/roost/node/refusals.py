"""VALUE: what a node says of streams that it does not take, or cannot bring to their end."""

from __future__ import annotations

from roost.core.engine import Mode, lack
from roost.errors import Failure

DRAINING = Failure("draining", "the node is shutting down")
FENCED = Failure("fenced", "a newer attempt at the same work has taken over")
OTHER_WEIGHTS = Failure("model_not_found", "the node has other weights under this name")
TOO_LATE = Failure("deadline", "the request's deadline passed before the answer was complete")
BUSY = Failure("node_busy", "the node is at its own limit", retry_after_s=1)
DIED = Failure("runtime_died", "the runtime that served the request ended unexpectedly")
REPLACED = Failure("runtime_died", "the runtime is being replaced before the request could start")
UNLOADED = Failure("runtime_died", "an operator has unloaded the model")
# Who has got nothing yet may be served elsewhere; not here, where the model would be loaded anew.
TAKEN_OUT = Failure("load_failed", UNLOADED.message)
CUT_SHORT = Failure("runtime_error", "the runtime ended the stream without a result")
NOT_LOADED = Failure("load_failed", "the runtime ended while it was loading")


def hung(patience_s: float) -> Failure:
    """The runtime that served the request produced nothing for longer than this."""
    text = f"the runtime made no progress for {patience_s:.3g} s and is replaced"
    return Failure("runtime_died", text)


def load_hung(patience_s: float) -> Failure:
    """A load got no further for longer than this."""
    text = f"it got no further for {patience_s:.3g} s and was called off (`runtime.load_stall_s`)"
    return Failure("load_failed", text)


def too_long(count: int, most: int) -> Failure:
    """The prompt has `count` tokens, and whoever asked allows fewer."""
    text = f"the prompt has {count} tokens, and whoever asked allows {most}"
    return Failure("context_length_exceeded", text)


def inputs_too_long(count: int, most: int, param: str) -> Failure:
    """The inputs that vectors are to be made of are more than the node takes at once."""
    text = (
        f"The inputs have {count} tokens together, of which {most} are taken in one request "
        "(`embed.tokens_max`). Send them in several."
    )
    return Failure("context_length_exceeded", text, param=param)


def other_mode(own: Mode, asked: Mode) -> Failure:
    """The model's runtime is for something else than what is asked of it."""
    return Failure("unsupported", f"The model {lack(own, asked)}.", param="model")


def is_death(failure: Failure) -> bool:
    """Whether the runtime itself is over; its own report of that may come later."""
    return failure.reason == "runtime_died"
