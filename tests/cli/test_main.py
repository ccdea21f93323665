"""The front door of the command: help, verbs, exit codes."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

import roost
from roost.cli import main


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    """The usage lists what the table has, and a bare `roost` says the same."""
    assert main.run(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {verb} " in shown for verb in main.VERBS)
    assert main.run([]) == 0
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize("verb", main.VERBS)
def test_every_verb_has_a_module_and_explains_itself(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`roost VERB --help` prints a description and exits with 0."""
    module = import_module(f"roost.cli.verbs.{verb}")
    with pytest.raises(SystemExit) as ended:
        module.main(["--help"])
    assert ended.value.code == 0
    assert f"usage: roost {verb}" in capsys.readouterr().out


def test_help_imports_nothing_heavy() -> None:
    """What `--help` loads stays small: no verb, no settings, no library."""
    code = (
        "import sys; from roost.cli import main; main.run(['--help']);"
        "print(*[m for m in sys.modules if m.split('.')[0] in"
        " ('msgspec', 'uvicorn', 'structlog', 'prometheus_client', 'argparse', 'asyncio')],"
        " file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20
    )
    assert done.stderr.strip() == ""


@pytest.mark.parametrize("time", ["nan", "inf", "-1", "1e300", "soon"])
@pytest.mark.parametrize(
    "words",
    [
        ("drain", "n", "--wait"),
        ("models", "unload", "m", "--wait"),
        ("states", "save", "x", "--wait"),
        ("states", "prune", "--older-than"),
    ],
)
def test_a_time_is_a_number_of_seconds(
    words: tuple[str, ...], time: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is no time is a mistake of the caller, before anybody is asked or waits for ever."""
    with pytest.raises(SystemExit) as ended:
        main.run([*words, time])
    assert ended.value.code == 2
    assert f"'{time}' is no number of seconds" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    """The version is the package's."""
    assert main.run(["--version"]) == 0
    assert capsys.readouterr().out == f"roost {roost.__version__}\n"


def test_an_unknown_verb_is_a_mistake_of_the_caller(capsys: pytest.CaptureFixture[str]) -> None:
    """It says where to look and exits with 2."""
    assert main.run(["serv"]) == 2
    assert "roost --help" in capsys.readouterr().err


def test_what_is_missing_is_said_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    """The name of what is missing ends one sentence, and the next says where to look."""
    with pytest.raises(SystemExit) as ended:
        main.run(["why"])
    assert ended.value.code == 2
    assert "are required: ID. See: roost why --help" in capsys.readouterr().err


INTERRUPTED = """
import sys
from roost.cli import main


class Impatient:
    def find_spec(self, name, path=None, target=None):
        if name == "roost.cli.verbs.models":
            raise KeyboardInterrupt


sys.meta_path.insert(0, Impatient())
sys.argv = ["roost", "models"]
main.main()
"""


def test_an_interrupt_during_imports_is_no_traceback() -> None:
    """Ctrl-C in the first moments of a start ends it as it does later: 130, and no word."""
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED], capture_output=True, timeout=30, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, b"", b"")
