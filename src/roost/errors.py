"""VALUE: what can go wrong, whose fault it is, and what to do next.

The tree is a table, not a class hierarchy: a failure crosses the link between gateway and node,
lands in receipts and metrics, and is rendered by several dialects, so it has to be plain data.

    fault      who has to act             examples
    caller     whoever sent the request   bad_request, model_not_found, context_length_exceeded
    capacity   nobody: come back later    queue_full, no_nodes, draining
    peer       a node, runtime, upstream  node_lost, runtime_died, upstream_error
    ours       the people who wrote roost internal

A dialect may translate the status (Anthropic says 529 where OpenAI says 503); nobody invents one.
"""

from __future__ import annotations

from enum import Enum

import msgspec


class Fault(Enum):
    """Whose fault a failure is."""

    CALLER = "caller"
    CAPACITY = "capacity"
    PEER = "peer"
    OURS = "ours"


class Kind(msgspec.Struct, frozen=True):
    """One row of the catalogue: what every failure with this reason has in common.

    `status` is the HTTP status before a dialect translates it.
    `retryable` says whether the same request may succeed elsewhere or later, unchanged.
    `meaning` and `remedy`, which says what to do about it, are sentences for the documentation.
    """

    fault: Fault
    status: int
    retryable: bool
    meaning: str
    remedy: str


def _caller(status: int, meaning: str, remedy: str) -> Kind:
    return Kind(Fault.CALLER, status, retryable=False, meaning=meaning, remedy=remedy)


def _capacity(status: int, meaning: str, remedy: str) -> Kind:
    return Kind(Fault.CAPACITY, status, retryable=True, meaning=meaning, remedy=remedy)


def _peer(status: int, meaning: str, remedy: str, *, retryable: bool = True) -> Kind:
    return Kind(Fault.PEER, status, retryable=retryable, meaning=meaning, remedy=remedy)


REASONS: dict[str, Kind] = {
    "bad_request": _caller(
        400,
        "The request is malformed or a field has a wrong value.",
        "Correct the field that `param` or the message names.",
    ),
    "context_length_exceeded": _caller(
        400,
        "The prompt does not fit the model's context.",
        "Shorten the prompt or `max_tokens`, or serve the model with a larger `--ctx`.",
    ),
    "unsupported": _caller(
        400,
        "The model or its backend cannot do what the request asks.",
        "Leave out what the message names, or ask a model that can do it.",
    ),
    "unauthorized": _caller(
        401,
        "A key is needed and none, or an unknown one, was sent.",
        "Send a valid key as a bearer token; `roost keys add NAME` makes one.",
    ),
    "forbidden": _caller(
        403,
        "The key, host or origin may not do this.",
        "Use an admin key, or name the host with `--allowed-hosts`.",
    ),
    "model_not_allowed": _caller(
        403,
        "The key may not use this model.",
        "Ask for one that `GET /v1/models` lists for this key, or allow it with `roost keys set`.",
    ),
    "not_found": _caller(
        404,
        "There is nothing at this address.",
        "Check the path, the id and the gateway's `--base-path`.",
    ),
    "model_not_found": _caller(
        404,
        "No node has a model of this name.",
        "Choose a name that `GET /v1/models` lists, or pull the model on a node.",
    ),
    "method_not_allowed": _caller(
        405,
        "The address exists but not for this method.",
        "Use the method that the message names.",
    ),
    "incompatible_protocol": _caller(
        406,
        "The control protocol that was asked for is of another major version.",
        "Leave out `x-roost-protocol-version`, or use the roost of the gateway's release.",
    ),
    "key_in_use": Kind(
        Fault.CALLER,
        409,
        retryable=True,
        meaning="A request with this `Idempotency-Key` is still running.",
        remedy="Wait as long as `retry-after` says and ask again, or attach to its stream.",
    ),
    "answer_not_kept": _caller(
        409,
        "The request with this `Idempotency-Key` has run; its answer was too large to keep.",
        "Use a new key to have it run again, or raise the `idempotency.*` settings.",
    ),
    "reader_replaced": _caller(
        409,
        "Another connection has attached to the stream that this one was reading.",
        "Nothing, if that connection is yours; a stream has one reader at a time.",
    ),
    "events_gone": _caller(
        410,
        "The stream has events that are older than those that are kept.",
        "Go on from the event that the message names, or raise `reattach.log_bytes`.",
    ),
    "expired_handoff": _caller(
        410,
        "The handoff was spent, has expired, or is somebody else's.",
        "Ask `/roost/v1/prefill` for another one.",
    ),
    "key_reused": _caller(
        422,
        "This `Idempotency-Key` was sent before with another request.",
        "Use a new key for every request that is not the same.",
    ),
    "session_gone": _caller(
        409,
        "The state of the conversation is required, and it is not there any more.",
        "Send the request without `x-roost-affinity: require`, or begin a new conversation.",
    ),
    "worker_id_taken": _caller(
        409,
        "A heartbeat has the name of a worker that is somewhere else, or of a node.",
        "Give every worker a name of its own with `--worker-id`.",
    ),
    "transcript_elsewhere": _caller(
        409,
        "What was said in this conversation is kept by another gateway.",
        "Ask the gateway where the conversation began, or begin a new one here.",
    ),
    "model_in_use": _caller(
        409,
        "The model is pinned, is being loaded, or has requests running, so it is not unloaded.",
        "Wait and ask again, allow more time with `--wait`, or unload it with `--force`.",
    ),
    "state_busy": Kind(
        Fault.CALLER,
        409,
        retryable=True,
        meaning="The state is in a slot that is in use, or is being moved.",
        remedy="Ask again when its conversation rests, or allow more time with `wait_s`.",
    ),
    "request_timeout": _caller(
        408,
        "Headers or body did not arrive within the receipt deadline.",
        "Send the request faster, or raise the `receipt.*` settings.",
    ),
    "body_too_large": _caller(
        413, "The body is over the limit.", "Send less, or raise `--body-max-bytes`."
    ),
    "headers_too_large": _caller(
        431,
        "The request head is over the limit.",
        "Send fewer or shorter headers, or raise `--head-max-bytes`.",
    ),
    "unsupported_encoding": _caller(
        415, "The body is compressed in a way that is not accepted.", "Send the body uncompressed."
    ),
    "cancelled": _caller(
        499, "The client left or asked to cancel.", "Ask again if the answer is still wanted."
    ),
    "write_timeout": _caller(
        499,
        "The client did not read its stream within the write deadline.",
        "Read the stream as it comes, or raise `stream.write_deadline_s`.",
    ),
    "fenced": _caller(
        409,
        "A newer attempt at the same work has taken over, so this one stops.",
        "Follow the newer attempt, or ask again as a new request.",
    ),
    "rate_limit_exceeded": Kind(
        Fault.CALLER,
        429,
        retryable=True,
        meaning="The key has used what it may in a minute, or at once.",
        remedy="Wait as long as `retry-after` says, or raise the limit with `roost keys set`.",
    ),
    "insufficient_quota": Kind(
        Fault.CALLER,
        429,
        retryable=True,
        meaning="The key has used its tokens of the day or month.",
        remedy="Wait until the quota begins anew, or raise it with `roost keys set`.",
    ),
    "queue_full": _capacity(
        429,
        "All capacity is taken and the queue is full.",
        "Wait as long as `retry-after` says, or add nodes.",
    ),
    "queue_timeout": _capacity(
        429,
        "No capacity became free while the request waited.",
        "Wait as long as `retry-after` says, raise `queue.wait_s`, or add nodes.",
    ),
    "node_busy": _capacity(
        429,
        "The node has no free slot or is at its own limit.",
        "Wait as long as `retry-after` says, or give the node more `--slots`.",
    ),
    "conversation_busy": _capacity(
        429,
        "Turns of one conversation follow each other, and too many wait, or one took too long.",
        "Send the next turn when the one before has ended.",
    ),
    "conversations_full": _capacity(
        429,
        "As many conversations are in progress as this gateway may have.",
        "Wait as long as `retry-after` says, or raise `conversations.max`.",
    ),
    "deadline": _capacity(
        504,
        "The request's own deadline passed before the answer was complete.",
        "Allow more time, or ask for fewer tokens.",
    ),
    "no_nodes": _capacity(
        503,
        "No healthy node that can serve this model is connected.",
        "Look at `roost fleet`, start or undrain a node that has the model, and ask again.",
    ),
    "draining": _capacity(
        503,
        "This instance is shutting down.",
        "Ask another instance, or this one once it runs again.",
    ),
    "overloaded": _capacity(
        503,
        "This instance is at a limit of its own, such as connections.",
        "Wait as long as `retry-after` says, or raise the limit that the message names.",
    ),
    "starting": _capacity(
        503, "The instance is not ready yet.", "Wait until `GET /ready` answers 200."
    ),
    "load_failed": _peer(
        503,
        "The model could not be loaded on the node.",
        "Read the runtime's log under `logs/` on the node, and check the model's file and memory.",
    ),
    "out_of_memory": _peer(
        503,
        "The machine has not enough memory left to load the model.",
        "Unload another model, or serve this one with less `--ctx` or fewer `--slots`.",
    ),
    "node_lost": _peer(
        502,
        "The node that served the request was lost.",
        "Ask again, and look at that machine and its network.",
    ),
    "runtime_died": _peer(
        502,
        "The runtime that served the request ended unexpectedly.",
        "Ask again, and read the runtime's log under `logs/` on the node.",
    ),
    "runtime_error": _peer(
        502,
        "The runtime reported an error.",
        "Read the runtime's log under `logs/` on the node, and ask again.",
    ),
    "bad_tool_call": _peer(
        502,
        "The model called a tool in a way that cannot be used, or called none where it had to.",
        "Ask again, with fewer or more simply described tools, or ask a larger model.",
    ),
    "upstream_error": _peer(
        502,
        "The upstream server failed or broke the protocol.",
        "Ask again, and read the upstream server's own log.",
    ),
    "storage_error": _peer(
        503,
        "A disk or a file that roost keeps cannot be used.",
        "Check free space and permissions of ROOST_HOME and of what the message names.",
        retryable=False,
    ),
    "internal": Kind(
        Fault.OURS,
        500,
        retryable=False,
        meaning="A defect in roost.",
        remedy="Report it with the log line `internal_error` of this request.",
    ),
}


class Failure(msgspec.Struct, frozen=True):
    """One thing that went wrong, as data.

    `reason` is a key of `REASONS`.
    `message` is for people: what happened and what to do; never a path, a prompt or a key.
    `param` names the request field at fault, in the words of the dialect that sent it.
    `retry_after_s` is a whole number of seconds, 1 to 120, or None when waiting would not help.
    """

    reason: str
    message: str
    param: str | None = None
    retry_after_s: int | None = None

    def __post_init__(self) -> None:
        if self.reason not in REASONS:
            raise ValueError(f"unknown reason {self.reason!r}")
        if self.retry_after_s is not None and not 1 <= self.retry_after_s <= 120:
            raise ValueError(f"retry_after_s must be 1..120, got {self.retry_after_s}")

    @property
    def kind(self) -> Kind:
        """The row of the catalogue this failure belongs to."""
        return REASONS[self.reason]

    @property
    def status(self) -> int:
        """HTTP status before a dialect translates it."""
        return self.kind.status

    @property
    def retryable(self) -> bool:
        """Whether the same request may succeed elsewhere or later."""
        return self.kind.retryable


class RoostError(Exception):
    """A failure on its way up the stack of one process.

    Shells raise it and translate foreign exceptions into it once, at their edge; machines return
    `Failure` values instead.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure

    def __reduce__(self) -> tuple[type[RoostError], tuple[Failure]]:
        # Large bodies are parsed in another process, and their refusals have to come back from it.
        return RoostError, (self.failure,)


def fail(
    reason: str, message: str, *, param: str | None = None, retry_after_s: int | None = None
) -> RoostError:
    """Build the exception for a reason; the line that calls this begins with `raise`."""
    return RoostError(Failure(reason, message, param, retry_after_s))


def prompt_too_long(tokens: int, ctx: int, param: str) -> Failure:
    """Say that a prompt of so many tokens, or more, does not fit a context of `ctx` tokens.

    Clients look for these very words, and for the numbers: LangChain, LiteLLM, Claude Code and
    others decide by them.
    """
    # A prompt that fills the context exactly leaves no room for an answer of one token.
    most = ctx if tokens > ctx else ctx - 1
    return Failure(
        "context_length_exceeded",
        f"prompt is too long: {tokens} tokens > {most} maximum. "
        f"This model's maximum context length is {ctx} tokens.",
        param,
    )
