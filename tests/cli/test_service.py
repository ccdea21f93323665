"""`roost service`: the text of a unit, and what systemd is asked to do with it."""

from __future__ import annotations

import plistlib
import shlex
import shutil
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.cli.main import run
from roost.cli.service_unit import Service, plist, quoted, told_secrets, unit
from roost.cli.verbs import service
from roost.errors import RoostError

Capture = pytest.CaptureFixture[str]
SERVICE = Service("serve", ("/opt/py thon", "-m", "roost", "serve", "--ctx", "9"), "/srv/%h x", 30)
WORDS = st.text(st.characters(exclude_categories=["C", "Z"], include_characters=" "), min_size=1)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this user's units are, and nothing of this machine's own settings."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("ROOST_TOKEN", raising=False)
    return tmp_path / "config" / "systemd" / "user"


@pytest.fixture
def tools(tmp_path: Path) -> service.Tools:
    """A systemd that notes what it is asked, and does as the file `refuses` says."""
    asked, refuses = tmp_path / "asked", tmp_path / "refuses"
    program = tmp_path / "systemctl"
    program.write_text(
        f'#!/bin/sh\necho "$*" >> {asked}\n'
        f'case "$*" in *is-active*) echo active;; *is-enabled*) echo enabled;; esac\n'
        f'test ! -e {refuses} || {{ echo "no bus" >&2; exit 1; }}\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return service.Tools(str(program), "no-such-analyzer")


def settings_of(text: str) -> dict[str, str]:
    """Read a unit as lines of name and value; every section has its own names."""
    lines = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name: value for name, _, value in lines}


def test_a_unit_says_how_roost_ends_and_begins_again() -> None:
    """HUP reloads, TERM drains within its grace, a wrong command line is not tried again."""
    told = settings_of(unit(SERVICE))
    assert told["ExecStart"] == '"/opt/py thon" -m roost serve --ctx 9'
    assert told["ExecReload"] == "/bin/kill -HUP $MAINPID"
    assert (told["Restart"], told["RestartPreventExitStatus"]) == ("on-failure", "2")
    assert (told["KillMode"], told["TimeoutStopSec"]) == ("mixed", "60")
    assert told["WorkingDirectory"] == "-/srv/%%h x"
    assert told["WantedBy"] == "default.target"


@given(WORDS)
def test_any_word_stays_one_word(word: str) -> None:
    """No variable, no specifier, no second word, whatever it is; a shell's rules are close."""
    line = quoted(word)
    assert line.count("%") == 2 * word.count("%")
    assert line.count("$") == 2 * word.count("$")
    read = shlex.split(line.replace("$$", "_").replace("%%", "%"), posix=True)
    assert read == [word.replace("$", "_")]


@pytest.mark.parametrize("word", ["a\nExecStartPre=x", "\x00", "\ud800", "\x7f"])
def test_what_would_end_the_line_is_refused(word: str) -> None:
    """A unit is lines: no word may begin another one."""
    for made in (SERVICE._replace(command=(word,)), SERVICE._replace(folder=word)):
        with pytest.raises(RoostError):
            unit(made)


def test_a_property_list_says_the_same() -> None:
    """For launchd, which is told words as words."""
    told = plistlib.loads(plist(SERVICE).encode())
    assert told["ProgramArguments"] == list(SERVICE.command)
    assert (told["Label"], told["KeepAlive"]) == ("roost.serve", {"SuccessfulExit": False})


def test_systemd_reads_the_unit() -> None:
    """Of ours it has nothing to say, and of a wrong one it has; without systemd nobody looks."""
    good = unit(SERVICE._replace(command=("/bin/true", "a b"), folder="/"))
    service.verify("roost-serve.service", good, service.Tools())
    wrong = good.replace("on-failure", "sometimes")
    service.verify("roost-serve.service", wrong, service.Tools(analyze="no-such-analyzer"))
    if shutil.which("systemd-analyze") is not None:
        with pytest.raises(RoostError, match="restart"):
            service.verify("roost-serve.service", wrong, service.Tools())


def test_a_service_is_installed_looked_at_and_removed(
    tmp_path: Path, folder: Path, tools: service.Tools, capsys: Capture
) -> None:
    """The unit is written whole, systemd is asked in order, and nothing is left behind."""
    home = ("--home", str(tmp_path / "home"))
    line = ["install", "serve", *home, "--", "--port", "9000", "--drain-grace-s", "5"]
    assert service.main(line, tools) == 0
    told = settings_of((folder / "roost-serve.service").read_text())
    assert told["ExecStart"].endswith(f"--drain-grace-s 5 --home {tmp_path / 'home'}")
    assert told["TimeoutStopSec"] == "35"
    asked = (tmp_path / "asked").read_text().splitlines()
    assert asked == ["--user daemon-reload", "--user enable --now roost-serve.service"]
    assert service.main(["status", "--json"], tools) == 0
    assert '"installed":true,"state":"active","enabled":true' in capsys.readouterr().out
    assert service.main(["uninstall"], tools) == 0
    assert list(folder.iterdir()) == []
    assert service.main(["uninstall"], tools) == 1


def test_without_a_session_the_unit_stays_and_says_what_to_type(
    tmp_path: Path, folder: Path, tools: service.Tools, capsys: Capture
) -> None:
    """As in a container, or over ssh without a session: the file is there, and the way on."""
    (tmp_path / "refuses").touch()
    assert service.main(["install"], tools) == 1
    captured = capsys.readouterr()
    assert "no bus" in captured.err
    assert "systemctl --user enable --now roost-serve.service" in captured.out
    assert (folder / "roost-serve.service").exists()
    none = service.Tools("no-such-systemctl", "no-such-analyzer")
    assert service.main(["status"], none) == 3
    assert "unknown" in capsys.readouterr().out


def test_where_it_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """A folder of settings that can be none: the reason, and which one."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    home = ("--home", str(tmp_path / "home"))
    assert run(["service", "install", "serve", *home]) == 1
    assert str(tmp_path / "file") in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (("install", "node", "--", "--join", "https://h", "--token", "rt-x"), "--token: everybody"),
        (("install", "gateway", "--", "--upstream-key=sk-x"), "--upstream-key: everybody"),
        (("install", "--", "--prot", "1"), "did you mean --port?"),
        (("install", "--", "--port", "many"), "--port is 'many'"),
        (("status", "--", "--port", "1"), "no command line"),
        (("install", "models"), "invalid choice"),
        (("begin",), "invalid choice"),
    ],
)
def test_what_no_service_could_be_is_refused(
    line: tuple[str, ...], words: str, folder: Path, capsys: Capture
) -> None:
    """Exit code 2 before anything is written; what is secret is not repeated."""
    try:
        code = run(["service", *line])
    except SystemExit as end:
        code = int(str(end.code))
    told = capsys.readouterr().err
    assert code == 2
    assert words in told
    assert "sk-x" not in told
    assert not folder.exists()


def test_secrets_are_found_in_either_form() -> None:
    """As two words or as one."""
    flags = frozenset({"--token", "--keys"})
    assert told_secrets(["--keys=a", "--token", "x", "--port"], flags) == ["--keys", "--token"]
    assert told_secrets(["--token-file", "x"], flags) == []
