"""`roost config`: what is in force, and everything that is wrong with a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roost.cli import main
from roost.cli.parts.engines import own_options
from roost.config.load import Machine, load
from roost.core.model import RuntimeOptions

WRONG = 'port = "x"\n[models.smol.options]\nctx = -1\n[queue]\nlengthx = 1\n'


def run(home: Path, *words: str) -> int:
    """Run `roost config` with a ROOST_HOME of its own."""
    return main.run(["config", *words, "--home", str(home)])


def test_a_file_is_right_or_all_of_it_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """0 and a word, or 2 and a line for every fault with its path."""
    file = tmp_path / "roost.toml"
    file.write_text("[models.smol.options]\nctx = 8192\n")
    assert run(tmp_path, "check", str(file)) == 0
    assert capsys.readouterr().out == "every setting is right\n"
    file.write_text(WRONG)
    assert run(tmp_path, "check", str(file)) == 2
    out, told = capsys.readouterr()
    assert out == ""
    assert [line.split()[2] for line in told.splitlines()] == [
        *("models.smol.options.ctx", "queue.lengthx", "port"),
    ]
    assert "did you mean queue.length?" in told


def test_a_script_gets_the_faults_as_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Path and reason of each, and whether there are any."""
    file = tmp_path / "other.toml"
    file.write_text(WRONG)
    assert run(tmp_path, "check", "--json", str(file)) == 2
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is False
    assert {one["setting"]: one["message"].split(":")[0] for one in told["faults"]} == {
        "port": "port in the settings file is 'x'",
        "models.smol.options.ctx": "models.smol.options.ctx in the settings file is -1",
        "queue.lengthx": "queue.lengthx in the settings file is no setting",
    }
    assert run(tmp_path, "check", "--json", "--port", "1") == 0
    assert json.loads(capsys.readouterr().out) == {"ok": True, "faults": []}


def test_show_goes_on_where_something_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is in force without the wrong values, and the faults beside it."""
    (tmp_path / "roost.toml").write_text('port = "x"\nslots = 3\n')
    assert run(tmp_path, "show") == 2
    out, told = capsys.readouterr()
    lines = {line.split()[0]: line.split()[1] for line in out.splitlines()}
    assert (lines["port"], lines["slots"]) == ("7878", "3")
    assert told.startswith("roost config: port in the settings file is 'x'")


@pytest.mark.parametrize(
    "words", [("check", "none.toml"), ("check", "."), ("check", "a.toml", "--config", "b.toml")]
)
def test_a_file_that_cannot_be_read_is_a_wrong_command_line(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """2, and what is the matter."""
    try:
        code = run(tmp_path, *words)
    except SystemExit as ended:
        assert ended.code == 2  # noqa: PT017 - both ways to end are fine
        return
    assert code == 2
    assert capsys.readouterr().err.startswith("roost config: ")


def test_a_home_of_nobody_is_a_wrong_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    """There is no folder to look into, and no traceback."""
    assert main.run(["config", "check", "--home", "~nobody-of-that-name/x"]) == 2
    assert "there is no such user" in capsys.readouterr().err


def test_other_verbs_tell_everything_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody mends one fault only to hear of the next."""
    (tmp_path / "roost.toml").write_text(WRONG)
    assert main.run(["models", "--home", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith("roost models: 3 settings are wrong:\n  ")


def test_options_of_single_models_stand_on_the_common_ones() -> None:
    """What is not said of a model is as for all; 0 slots is the common number."""
    flags = {
        "step_budget_ms": "0",
        "ctx": "100",
        "slots": "3",
        "model_options": "a.ctx=5,a.threads=2,b.slots=0,a.ctx=7",
    }
    settings = load({}, flags, "", Machine(8, "/x")).settings
    assert own_options(settings) == {
        "a": RuntimeOptions(7, 3, 256, 2, mode="auto"),
        "b": RuntimeOptions(100, 3, 256, 0, mode="auto"),
    }


def test_a_check_finds_what_serve_would_refuse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever was told that a file is right does not meet its faults at the next start."""
    file = tmp_path / "roost.toml"
    file.write_text(
        "backend = 'nope'\nworker_api = 'x'\nruntime.keep_alive = ['m=zz']\n"
        "coordinator.worker_nets = ['10.0.0.0/99']\n"
    )
    assert main.run(["config", "check", str(file), "--home", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    for words in (
        "no backend 'nope'",
        "--worker-api x",
        "--runtime-keep-alive m=zz",
        "10.0.0.0/99",
    ):
        assert words in told


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("placement.keep", "placement.keep = ['x']"),
        ("cors.origins", "cors.origins = ['app.example.org']"),
        ("session.keys", "session.keys = ['noid']"),
        ("session.keys", f"session.keys = ['k:{'a' * 32}', 'k:{'b' * 32}']"),
        ("vector_sizes", "vector_sizes = ['many']"),
        ("models.smol.options.vector_sizes", "models.smol.options.vector_sizes = ['0']"),
        ("models.smol.options.projector", "models.smol.options.projector = '/no/such/file'"),
        ("projector", "projector = '~nobody-of-that-name/x'"),
        ("projector", 'projector = "a\\u0000"'),
        ("adapters", "adapters = ['/no/such/file=x']"),
        ("adapters", "adapters = ['~nobody-of-that-name/x=0.5']"),
        ("upstream.urls", "upstream.urls = ['nonsense']"),
        ("upstream.keys", "upstream.urls = ['http://a']\nupstream.keys = ['k', 'k']"),
        ("worker.heartbeat", "worker_api = '127.0.0.1:1'\nworker.heartbeat = 'ftp://h'"),
        ("worker.url", "worker_api = '[::]:1'\nworker.heartbeat = 'https://h'"),
        ("otel.endpoint", "otel.endpoint = 'http://[::1'"),
        ("otel.endpoint", "otel.endpoint = 'http://a..b'"),
        ("hub.endpoint", "hub.endpoint = 'hub.example.org'"),
        ("hub.endpoint", "hub.endpoint = 'ftp://hub.example.org:80'"),
        ("allowed_hosts", "allowed_hosts = ['https://app.example.org']"),
        ("trusted_proxies", "trusted_proxies = ['10.0.0.0/8']"),
        ("sessions.persistence", "sessions.persistence = 'disk'\nsessions.disk_bytes = 0"),
        ("join", "join = 'somewhere'"),
        ("token", "token = 'rt-abc'\ntoken_file = 'f'"),
        ("token", f"token = 'rt-abc.{'ab' * 8}'"),
        ("tls_cert", "tls_cert = '/no/such/file'\ntls_key = '/no/such/file'"),
        ("tls_cert", 'tls_cert = "a\\u0000"\ntls_key = "a"'),
    ],
)
def test_every_reader_is_asked_once(
    name: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a start would refuse is one fault, under its own name, and not in force."""
    (tmp_path / "roost.toml").write_text(text)
    assert run(tmp_path, "check", "--json") == 2
    told = json.loads(capsys.readouterr().out)
    assert [one["setting"] for one in told["faults"]] == [name]
    assert run(tmp_path, "show", "--json") == 2
    row = "model_options" if name.startswith("models.") else name
    (shown,) = [one for one in json.loads(capsys.readouterr().out) if one["name"] == row]
    assert shown["origin"] == "default"


def test_a_check_reads_no_file_of_a_model(tmp_path: Path) -> None:
    """However large a projector is, to see that it is there takes no time."""
    unreadable = "/proc/self/mem"
    with Path(unreadable).open("rb", buffering=0) as file, pytest.raises(OSError, match="Input"):
        file.read(1)
    (tmp_path / "roost.toml").write_text(
        f"projector = '{unreadable}'\nadapters = ['{unreadable}=0.5']\n"
        f"[models.a.options]\nctx = 1\n[models.b.options]\nprojector = '{unreadable}'\n"
    )
    assert run(tmp_path, "show") == run(tmp_path, "check") == 0


def test_a_check_reads_what_texts_mean(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Keys, join tokens and other names of models that nobody could use are found, unseen."""
    file = tmp_path / "roost.toml"
    secret = "sk-secret-that-is-long"
    file.write_text(
        f"aliases = ['a=b', 'a=c']\nnode_tokens = ['x']\n"
        f"[[keys]]\nname = 'me'\nkey = '{secret}'\nrole = 'king'\n"
    )
    assert main.run(["config", "check", str(file), "--home", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    for words in ("--aliases a=c", "node_tokens: number 1", "a role is user or admin"):
        assert words in told
    assert secret not in told
