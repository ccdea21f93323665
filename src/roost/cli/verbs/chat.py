"""SHELL: `roost chat`: talk with a model in a terminal, or from a script."""

from __future__ import annotations

import secrets
from collections import deque
from typing import TYPE_CHECKING

import msgspec

from roost.cli import options
from roost.cli.chatting.answer import Answer
from roost.cli.chatting.gateway import Gateway, Turn
from roost.cli.chatting.lines import (
    INTERRUPTED,
    Act,
    Choose,
    Go,
    Leave,
    Lines,
    ListKept,
    ListModels,
    Say,
    Stop,
    Tell,
    Wrong,
    chosen_model,
    entered,
    forgetful,
    going,
    left,
    reminder,
)
from roost.cli.chatting.terminal import Terminal
from roost.cli.verbs.conversations import listed
from roost.errors import RoostError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roost.core.conversation import KeptConversation

DESCRIPTION = """\
Talk with a model of a running gateway. The gateway keeps the conversation: NAME goes on with one or
begins it, --last goes on with the newest, and without either a new one gets a name. Ctrl-C stops an
answer, and at the prompt it leaves; /help lists the commands. Without a terminal every line of
standard input is a turn, and only answers go to standard output.
"""
MAX_TOKENS = 1024
LOOKS_MAX = 20
"""Conversations that are tried for --last: an operator's list begins with those of others."""


def main(arguments: list[str]) -> int:
    """Talk until the end of the input, or until somebody leaves."""
    parser = options.parser("chat", DESCRIPTION, options.ASKS)
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="of the conversation")
    parser.add_argument("--last", action="store_true", help="go on with the newest conversation")
    parser.add_argument("--model", default="", help="who answers, where several could")
    most = f"of an answer (default: {MAX_TOKENS})"
    parser.add_argument("--max-tokens", type=int, default=MAX_TOKENS, metavar="N", help=most)
    parser.add_argument(
        "--temperature", type=float, metavar="T", help="0 is the likeliest word every time"
    )
    parsed = parser.parse_args(arguments)
    if parsed.name and parsed.last:
        parser.error("NAME and --last name two conversations")
    if parsed.max_tokens < 1:
        parser.error("--max-tokens needs a whole number above 0")
    asked = Asked(parsed.name, parsed.last, parsed.model, parsed.max_tokens, parsed.temperature)
    return Chat(Gateway(options.load(parsed).settings), Terminal(), asked).run()


class Asked(msgspec.Struct, frozen=True):
    """What the command line asks for."""

    name: str
    last: bool
    model: str
    max_tokens: int
    temperature: float | None


class Chat:
    """One run of `roost chat`: carries out what the machines decide."""

    def __init__(self, gateway: Gateway, terminal: Terminal, asked: Asked) -> None:
        self._gateway = gateway
        self._terminal = terminal
        self._asked = asked
        self._lines = Lines(watched=terminal.watched)
        self._name = self._model = ""
        self._kept = self._looked = False

    def run(self) -> int:
        """Begin, and do what the lines say; returns the exit code."""
        code = self._perform(self._begin())
        while code is None:
            try:
                code = self._perform(self._next())
            except KeyboardInterrupt:
                # Between an answer and the prompt, where nobody can aim.
                self._terminal.end_line()
                self._lines.on_answered(failed=False)
                code = None if self._terminal.watched else INTERRUPTED
        if self._kept and self._terminal.watched:
            self._terminal.tell(left(self._name))
        return code

    def _begin(self) -> tuple[Act, ...]:
        # Asked first, and of every gateway: one that keeps nothing is told before a word is typed.
        views = self._gateway.kept()
        name, past = self._asked.name, None
        if name:
            past = self._gateway.conversation(name)
        elif self._asked.last:
            name, past = self._newest([view.name for view in views if view.name])
        before = past.pin.model if past is not None else ""
        chosen = chosen_model(self._gateway.models(), (self._asked.model, before))
        if isinstance(chosen, Wrong):
            return chosen, Leave(2)
        self._model = chosen
        return self._enter(name, past)

    def _newest(self, names: Sequence[str]) -> tuple[str, KeptConversation | None]:
        """Find the newest of one's own, which can be read."""
        found = ((name, self._gateway.conversation(name)) for name in names[:LOOKS_MAX])
        return next(((name, past) for name, past in found if past is not None), ("", None))

    def _enter(self, name: str, past: KeptConversation | None) -> tuple[Act, ...]:
        self._name = name or f"chat-{secrets.token_hex(4)}"
        self._kept = self._looked = past is not None
        told = Tell(entered(self._name, self._model, past))
        if past is None or not self._terminal.watched:
            return (told,)
        return told, Tell(reminder(past))

    def _next(self) -> tuple[Act, ...]:
        try:
            line = self._terminal.read(". " if self._lines.in_block else "> ")
        except KeyboardInterrupt:
            self._terminal.end_line()
            return self._lines.on_interrupt()
        except EOFError:
            self._terminal.end_line()
            return self._lines.on_end()
        return self._lines.on_line(line)

    def _perform(self, acts: tuple[Act, ...]) -> int | None:
        todo = deque(acts)
        while todo:
            act = todo.popleft()
            if isinstance(act, Leave):
                return act.code
            todo.extend(self._do(act))
        return None

    def _do(self, act: Act) -> tuple[Act, ...]:
        try:
            return self._done(act)
        except RoostError as error:
            if not self._terminal.watched:
                raise
            return (Wrong(error.failure.message),)

    def _done(self, act: Act) -> tuple[Act, ...]:
        terminal, gateway = self._terminal, self._gateway
        match act:
            case Say(text):
                return self._say(text)
            case Go() as go:
                return self._go(go)
            case Choose(model):
                return self._choose(model)
            case Tell(text) | Wrong(text):
                terminal.tell(text)
            case ListKept():
                terminal.tell(listed(gateway.kept()))
            case ListModels():
                terminal.tell(f"{self._model} answers; there is {', '.join(gateway.models())}")
            case Stop() | Leave():
                # The connection is closed by what brought this about, and leaving is for the loop.
                pass
        return ()

    def _say(self, text: str) -> tuple[Act, ...]:
        answer, asked = Answer(), self._asked
        turn = Turn(self._name, text, self._model, asked.max_tokens, asked.temperature)
        acts: tuple[Act, ...] = ()
        try:
            self._gateway.turn(turn, answer, self._terminal.show)
        except KeyboardInterrupt:
            answer.on_stopped()
            acts = self._lines.on_interrupt()
        self._terminal.show(answer.close())
        if line := answer.line():
            self._terminal.tell(f"[{line}]")
        failed = answer.ending == "failed"
        if failed:
            self._terminal.tell(answer.failure)
        acts += self._lines.on_answered(failed=failed)
        if not self._looked and not failed and not acts:
            self._look()
        return acts

    def _look(self) -> None:
        """See whether what was said is kept: nobody should find out by being forgotten."""
        self._looked = True
        self._kept = self._gateway.conversation(self._name) is not None
        if not self._kept:
            self._terminal.tell(forgetful(self._name))

    def _go(self, go: Go) -> tuple[Act, ...]:
        past = self._gateway.conversation(go.name) if go.name else None
        wrong = going(go, past)
        if wrong is not None:
            return self._lines.on_mistake(wrong)
        if past is not None and past.pin.model in self._gateway.models():
            self._model = past.pin.model
        return self._enter(go.name, past)

    def _choose(self, model: str) -> tuple[Act, ...]:
        chosen = chosen_model(self._gateway.models(), (model,))
        if isinstance(chosen, Wrong):
            return self._lines.on_mistake(chosen)
        self._model = chosen
        return (Tell(f"{chosen} answers from now on"),)
