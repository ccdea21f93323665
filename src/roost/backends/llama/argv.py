"""VALUE: how a llama.cpp server is to be started, and as arguments for a binary.

The rules, whichever program it is: slots belong to the node, so each has its own KV and the
server's own caches are off; prompts are computed in small batches, since a batch cannot be
interrupted; the server listens where only this user can reach it, and asks for a key all the same.
"""

from __future__ import annotations

import msgspec

from roost.backends.llama.options import engine_arguments, flags_in
from roost.core.engine import Engine, Mode
from roost.errors import fail

# llama.cpp rounds the context of a sequence up to a multiple of this.
CTX_STEP = 256
SSE_PING_S = 30
HELP_SIGN = "UNIX socket"


class Launch(msgspec.Struct, frozen=True):
    """Everything a server is told: `ctx` tokens in each of `slots` slots, 0 for the model's own.

    It listens on `socket`, a path, or where there are no Unix sockets on `port` of 127.0.0.1.
    `key` is what it asks for; `key_path` a file that holds it, for those who cannot be told safely.
    `state_folder` is where it may write what slots hold, "" for nowhere. `engine` are its options.
    One whose `mode` is not to say texts takes each input in one step.
    `http_threads` talk with us, 0 for as many as the server likes. `copies` says that weights are
    read into memory of their own, where the options leave that open. Each of its `threads` stays on
    one of these `cores`, if they are told.
    """

    model_path: str
    key: str
    key_path: str
    ctx: int
    slots: int
    batch: int
    threads: int = 0
    socket: str = ""
    port: int = 0
    state_folder: str = ""
    engine: Engine = Engine()
    mode: Mode = "generate"
    http_threads: int = 0
    copies: bool = False
    cores: tuple[int, ...] = ()

    @property
    def ubatch(self) -> int:
        """Tokens that are computed at once: never more than a step has."""
        whole = self.mode != "generate" or not self.engine.ubatch
        return self.batch if whole else min(self.engine.ubatch, self.batch)

    @property
    def total_ctx(self) -> int:
        """Tokens of all slots together, as llama.cpp counts."""
        return -(-self.ctx // CTX_STEP) * CTX_STEP * self.slots


def arguments(launch: Launch, help_text: str) -> tuple[str, ...]:
    """Write the arguments for the binary that prints `help_text`: only flags it knows.

    Raises `load_failed` where it lacks one that the rules above cannot do without.
    """
    known = flags_in(help_text)
    wanted = (
        ("--model", launch.model_path),
        ("--ctx-size", str(launch.total_ctx)),
        ("--parallel", str(launch.slots)),
        ("--batch-size", str(launch.batch)),
        *_address(launch),
        _key(launch, known),
        *_embedding(launch, known),
    )
    missing = sorted({flag for flag, _ in wanted} - known)
    if missing:
        message = f"The llama-server binary is too old: it does not know {', '.join(missing)}."
        raise fail("load_failed", message)
    useful = (
        ("--ubatch-size", str(launch.ubatch)),
        ("--threads", str(launch.threads) if launch.threads else ""),
        ("--threads-http", str(launch.http_threads) if launch.http_threads else ""),
        *_cores(launch, known),
        ("--no-mmap", None if launch.copies else ""),
        ("--no-kv-unified", None),
        ("--cache-ram", "0"),
        ("--no-cache-idle-slots", None),
        ("--slots", None),
        ("--no-context-shift", None),
        ("--no-webui", None),
        ("--no-ui", None),
        ("--chat-template", "chatml"),
        ("--sse-ping-interval", str(SSE_PING_S)),
        ("--slot-save-path", launch.state_folder),
        ("--offline", None),
    )
    chosen = [(flag, value) for flag, value in useful if flag in known and value != ""]
    words = tuple(word for pair in (*wanted, *chosen) for word in pair if word is not None)
    # What somebody has written comes last: of two equal flags the last one counts.
    return (*words, *engine_arguments(launch.engine, help_text))


def _address(launch: Launch) -> tuple[tuple[str, str], ...]:
    if launch.socket:
        return (("--host", launch.socket),)
    return (("--host", "127.0.0.1"), ("--port", str(launch.port)))


def _embedding(launch: Launch, known: frozenset[str]) -> tuple[tuple[str, str | None], ...]:
    if launch.mode == "rank":
        return (("--reranking" if "--reranking" in known else "--rerank", None),)
    if launch.mode != "embed":
        return ()
    flag = "--embeddings" if "--embeddings" in known else "--embedding"
    pooling = launch.engine.pooling
    return ((flag, None), ("--pooling", pooling)) if pooling else ((flag, None),)


def _cores(launch: Launch, known: frozenset[str]) -> tuple[tuple[str, str], ...]:
    """Without the second flag the first would let all threads meet on one core."""
    if not launch.cores or not {"--cpu-mask", "--cpu-strict"} <= known:
        return ()
    mask = sum(1 << core for core in launch.cores)
    return (("--cpu-mask", f"{mask:x}"), ("--cpu-strict", "1"))


def _key(launch: Launch, known: frozenset[str]) -> tuple[str, str]:
    """Arguments can be read by every user of the machine, a file of ours by nobody else."""
    if launch.socket and "--api-key-file" not in known:
        # Only this user can open the socket, so a key in the list of processes opens nothing.
        return ("--api-key", launch.key)
    return ("--api-key-file", launch.key_path)
