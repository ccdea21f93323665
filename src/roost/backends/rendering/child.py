"""SHELL: the process in which foreign chat templates run: limited in memory and time, easy to kill.

It reads a `Setup` and then `Ask`s from stdin until that ends, which it does when the parent does.
"""

from __future__ import annotations

import contextlib
import math
import resource
import sys
from typing import TypeVar

import msgspec

from roost.backends.rendering.frames import LENGTH, Ask, Reply, Setup, pack
from roost.errors import RoostError, fail
from roost.text import templates
from roost.text.chats import Chat
from roost.text.control import ControlTokens

T = TypeVar("T", Setup, Ask)


def chat_of(setup: Setup) -> Chat:
    """Compile a model's template; raises `unsupported` where that cannot be done."""
    template = templates.compile(setup.template, output_chars_max=setup.output_max_chars)
    return Chat(template, ControlTokens(setup.control_tokens), setup.bos, setup.eos)


def _read(kind: type[T]) -> T | None:
    head = sys.stdin.buffer.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (size,) = LENGTH.unpack(head)
    return msgspec.msgpack.decode(sys.stdin.buffer.read(size), type=kind)


def _write(reply: Reply) -> None:
    sys.stdout.buffer.write(pack(reply))
    sys.stdout.buffer.flush()


def _failed(error: RoostError) -> Reply:
    failure = error.failure
    return Reply(None, failure.reason, failure.message, failure.param)


def _limit_memory(size_bytes: int) -> None:
    # macOS has the constant and refuses the value: there the time limit has to do.
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (size_bytes, resource.RLIM_INFINITY))


def _limit_cpu(cpu_s: int) -> None:
    """Give the next rendering so much processor time: should the parent be gone, it still ends."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = math.ceil(used.ru_utime + used.ru_stime) + cpu_s
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))


def _answer(chat: Chat, ask: Ask) -> Reply:
    try:
        return Reply(chat.render(ask.prompt, ask.today, exact=ask.exact))
    except RoostError as error:
        return _failed(error)
    except MemoryError:
        message = "The model's chat template needs too much memory for these messages."
        return _failed(fail("bad_request", message, param="messages"))


def main() -> int:
    """Say that it is up, then serve one parent; returns when stdin ends."""
    _write(Reply())
    setup = _read(Setup)
    if setup is None:
        return 0
    _limit_memory(setup.memory_max_bytes)
    _limit_cpu(setup.cpu_s)
    chat: Chat | None = None
    broken = Reply()
    try:
        chat = chat_of(setup)
    except RoostError as error:
        broken = _failed(error)
    _write(broken)
    while ask := _read(Ask):
        _limit_cpu(setup.cpu_s)
        _write(_answer(chat, ask) if chat else broken)
    return 0


if __name__ == "__main__":
    sys.exit(main())
