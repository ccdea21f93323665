"""`roost chat` as a person uses it, at a terminal, and as a script does."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from roost.cli.main import run
from tests.patience import PATIENCE_S
from tests.system.conftest import MODEL, Start
from tests.system.processes import fetch, wait

SCRIPTED = ("serve", "--backend", "scripted", "--ctx", "32768", "--slots", "1")
# A terminal that a session's leader opens becomes its own, and Ctrl-C a signal to it.
OWN = "import os, sys; os.open(os.ttyname(0), os.O_RDWR); os.execv(sys.executable, sys.argv[1:])"


def script(**what: object) -> str:
    """Write a line that tells the scripted backend what to do."""
    return "@script " + json.dumps(what)


class Terminal:
    """A pseudo-terminal with `roost chat` in it."""

    def __init__(self, home: Path, *arguments: str, term: str = "dumb") -> None:
        self._keys, theirs = os.openpty()
        command = [sys.executable, "-m", "roost", "chat", *arguments, "--home", str(home)]
        environ = {k: v for k, v in os.environ.items() if not k.startswith("ROOST_")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", OWN, *command],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            env={**environ, "TERM": term},
        )
        os.close(theirs)
        os.set_blocking(self._keys, False)
        self._seen = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._keys)

    def types(self, text: str) -> None:
        """Press keys."""
        os.write(self._keys, text.encode())

    def shows(self, pattern: str) -> str:
        """Wait until something is on the screen, and take everything up to its end off it."""
        found: list[re.Match[str]] = []

        def looks() -> bool:
            self._read()
            found[:] = re.finditer(pattern, self._seen)
            return bool(found)

        try:
            wait(looks, "it is on the screen", PATIENCE_S)
        except AssertionError:
            pytest.fail(f"no {pattern!r} in {self._seen!r}")
        shown, self._seen = self._seen[: found[0].end()], self._seen[found[0].end() :]
        return shown

    def ends(self) -> int:
        """Wait for its end, reading on, and return the exit code."""

        def ended() -> bool:
            self._read()
            return self.process.poll() is not None

        wait(ended, "it ends")
        return self.process.wait()

    @property
    def rest(self) -> str:
        """What is on the screen and was not waited for."""
        self._read()
        return self._seen

    def _read(self) -> None:
        try:
            self._seen += os.read(self._keys, 65_536).decode("utf-8", "replace")
        except OSError:
            # Nothing new, or nobody holds the other end any more.
            return


def piped(home: Path, typed: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `roost chat` without a terminal."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith("ROOST_")}
    return subprocess.run(
        [sys.executable, "-m", "roost", "chat", *arguments, "--home", str(home)],
        input=typed,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
        env=environ,
    )


def in_flight(url: str) -> int:
    """How many places of the only node are taken."""
    (node,) = json.loads(fetch(url, "/roost/v1/fleet"))["nodes"]
    return int(node["in_flight"])


@pytest.mark.slow
def test_a_person_talks_stops_an_answer_and_comes_back(start: Start, home: Path) -> None:
    """Ctrl-C frees the machine and keeps the talk, which a new client at a new gateway goes on."""
    first = start(*SCRIPTED, "--port", "0")
    url = first.url()
    wait(lambda: b"ready" in fetch(url, "/ready"), "it is ready")
    with Terminal(home, "my talk") as terminal:
        terminal.shows(rf"my talk: new, with {MODEL}\..*\n> ")
        terminal.types("hello\n")
        terminal.shows(r"hello\r\nhello\r\n\[\S+ · cold · 0 tokens cached · \d+ prefilled · .*\]")
        # Longer than this test: what ends it is the key, and the only place is free after it.
        terminal.types(script(pieces=["\x1b[2J", *["t "] * 60], delay_ms=300) + "\n")
        terminal.shows("\ufffd\\[2Jt t ")
        assert in_flight(url) == 1
        terminal.types("\x03")
        assert "\x1b[2J" not in terminal.shows(r"\[\S+ · warm · \d+ tokens cached · stopped\]")
        wait(lambda: in_flight(url) == 0, "the place is free")
        terminal.types("still there?\n")
        terminal.shows(r"still there\?\r\nstill there\?\r\n\[.*\]")
        first.signal(signal.SIGTERM)
        assert first.ends() == 0
        terminal.types("anybody?\n")
        terminal.shows("No gateway runs here")
        start(*SCRIPTED, "--port", "0").url()
        terminal.types("and now?\n")
        # At the prompt, and not between it and the answer.
        terminal.shows(r"and now\?\r\nand now\?\r\n\[.*\]\r\n> ")
        terminal.types("\x03")
        assert terminal.ends() == 130
        assert "`roost chat 'my talk'` goes on with it" in terminal.rest
    with Terminal(home, "--last", term="xterm") as again:
        shown = again.shows(r"/help lists the commands\.[^>]*> ")
        assert "my talk: 4 turns so far" in shown
        assert "user: and now?" in shown
        again.types("\x1b[200~two lines\npasted\x1b[201~\n")
        again.shows(r"two lines\r\npasted\r\n\[")
        again.types("/quit\n")
        assert again.ends() == 0
    kept = start("conversations", "show", "my talk")
    assert kept.ends() == 0
    assert "assistant: \ufffd[2Jt t " in kept.output
    assert "anybody" not in kept.output


@pytest.mark.slow
def test_a_script_gets_answers_alone_and_ends_with_what_goes_wrong(
    start: Start, home: Path
) -> None:
    """Answers are on standard output, everything about them on the other, mistakes in the code."""
    start(*SCRIPTED, "--port", "0").url()
    lines = ["one", "/model", '"""', "two", "", "/quit", '"""', "/new second", "three", "/list"]
    done = piped(home, "\n".join(lines), "first")
    assert (done.returncode, done.stdout) == (0, "one\ntwo\n\n/quit\nthree\n")
    assert len(re.findall(r"^\[.*\]$", done.stderr, re.MULTILINE)) == 3
    assert re.search(r"^second  1 turn  .*\nfirst  2 turns  ", done.stderr, re.MULTILINE)
    cut = piped(home, script(pieces=["a", "b", "c"], fail_after=2) + "\nnever said\n", "first")
    assert (cut.returncode, cut.stdout) == (1, "ab\n")
    assert "runtime_error" in cut.stderr
    wrong = piped(home, "/open third\nnever said\n", "first")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "Nothing is kept of a conversation third" in wrong.stderr


@pytest.mark.slow
def test_nobody_finds_out_by_being_forgotten(start: Start, home: Path) -> None:
    """A gateway that keeps nothing is told of after the first answer, once."""
    start(*SCRIPTED, "--port", "0", "--transcripts-keep", "off").url()
    done = piped(home, "one\ntwo\n")
    assert (done.returncode, done.stdout) == (0, "one\ntwo\n")
    assert done.stderr.count("every turn stands alone") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ((), 2, "No gateway runs here; name one with --url or ROOST_URL."),
        (("--url", "http://127.0.0.1:1"), 1, "No gateway answers at http://127.0.0.1:1"),
        (("--url", "http://[::1"), 2, "--url needs"),
        (("--url", "localhost"), 2, "--url needs"),
    ],
)
def test_nobody_there_is_said_in_one_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    code: int,
    words: str,
) -> None:
    """What to do is in the line, and the exit code says whose mistake it is."""
    assert run(["chat", *arguments, "--home", str(tmp_path)]) == code
    assert words in capsys.readouterr().err


def test_a_gateway_that_keeps_no_conversations_is_told_before_a_word_is_typed(
    start: Start, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A gateway before other servers keeps no conversations, and says so before a word is typed."""
    url = start("gateway", "--port", "0", "--upstream", "http://127.0.0.1:1").url()
    assert run(["chat", "--url", url, "--home", str(tmp_path)]) != 0
    assert "keeps no conversations" in capsys.readouterr().err
