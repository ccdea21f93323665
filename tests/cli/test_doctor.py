"""`roost doctor`: what is a problem and what is not, and the verb over real folders."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import msgspec
import pytest

from roost.cli import main
from roost.cli.doctoring.facts import (
    ClockFacts,
    Facts,
    HomeFacts,
    ModelFacts,
    PortFacts,
    ProbeFacts,
    clock_facts,
    home_facts,
    port_facts,
    program_version,
)
from roost.cli.doctoring.findings import Finding, findings, is_well
from roost.core.choice import Choice, Found, Trait
from roost.core.ids import ModelId
from roost.core.machine import Bandwidth, Device, HugePages, Limits, Memory, Processor
from roost.core.model import Capabilities
from roost.store.home import Home
from tests.store.gguf_writer import Typed, tiny

GIB = 2**30
LLAMA = Trait("llama_server", ("gguf",), {"cpu": 800, "cuda": 1000}, Capabilities(chat=True))
OTHER = Trait("other", ("gguf",), {"cpu": 100}, Capabilities(chat=True))
CHOICE = Choice(ModelId("m"), "auto", "llama_server", "it is best", ())
GOOD = Facts(
    *("0.1.0", "3.11.7", "Linux"),
    processor=Processor("Some CPU", 8, 8, 4, None, ("avx2",)),
    memory=Memory(32 * GIB, 16 * GIB),
    huge_pages=HugePages("madvise", 2**21, 0),
    limits=Limits(20_000, 20_000, 5000),
    devices=(),
    backends=(LLAMA, OTHER),
    found={"llama_server": Found(usable=True, version="1"), "other": Found(usable=True)},
    home=HomeFacts(exists=True, writable=True, mode=0o700, free_bytes=50 * GIB),
    port=PortFacts("127.0.0.1", 7878),
    clock=ClockFacts(is_behind=False),
    bandwidth=Bandwidth(20e9, 4, 2**26, 0.25),
    models=(ModelFacts("m", 100_000_000, CHOICE),),
    connections_max=4096,
)
MISSING = Found(usable=False, why="it is not installed", command="pip install it")


def judged(**changes: object) -> dict[str, Finding]:
    """Judge a good machine with some changes, by what each finding is about."""
    return {one.about: one for one in findings(msgspec.structs.replace(GOOD, **changes))}


def test_a_good_machine_has_no_problem() -> None:
    """Nothing but figures."""
    found = findings(GOOD)
    assert is_well(found)
    assert {one.level for one in found} == {"ok"}
    said = {one.about: one.said for one in found}
    assert said["processor"] == "Some CPU, 8 of 8 cores usable, 4 physical"
    assert said["threads"].startswith("4 per runtime")
    assert said["bandwidth"] == "20.0 GB/s read and written by 4 threads, in 0.25 s"
    assert "200 tokens a second" in said["model m"]
    assert said["fastest"].startswith("llama_server on cpu")


def test_what_serves_tests_alone_is_shown_to_who_asks_for_it() -> None:
    """A person who looks for an engine is not offered one that runs no model."""
    scripted = msgspec.structs.replace(OTHER, name="scripted")
    here = {
        "backends": (LLAMA, scripted),
        "found": {**GOOD.found, "scripted": Found(usable=True)},
    }
    assert "backend scripted" not in judged(**here)
    assert judged(**here, wanted="scripted")["backend scripted"].level == "ok"


@pytest.mark.parametrize(
    ("about", "changes", "words"),
    [
        ("memory", {"memory": Memory(32 * GIB, 10**8)}, "0.1 GiB of 32.0 GiB free"),
        (
            "memory",
            {"memory": Memory(32 * GIB, 16 * GIB, limit_bytes=GIB, used_bytes=GIB - 5)},
            "limited to 1.0 GiB by its container",
        ),
        ("clock", {"clock": ClockFacts(is_behind=True)}, "behind the date"),
        ("processes", {"limits": Limits(20_000, 20_000, 100)}, "100 at most"),
        ("home", {"home": HomeFacts(exists=True, writable=False)}, "cannot be written to"),
        ("home", {"home": HomeFacts(exists=True, writable=True, mode=0o777)}, "mode 777"),
        ("port", {"port": PortFacts("127.0.0.1", 80, "Permission denied")}, "Permission denied"),
        ("settings", {"faults": ("port is 'x'",)}, "port is 'x'"),
        ("models", {"broken": ("m: it is damaged",)}, "m: it is damaged"),
        ("fastest", {"found": dict.fromkeys(GOOD.found, MISSING)}, "nothing here runs models"),
        ("backend other", {"found": {**GOOD.found, "other": MISSING}, "wanted": "other"}, "not"),
        ("model m", {"models": (ModelFacts("m", 1, CHOICE, "it was changed"),)}, "it was changed"),
        (
            "model m",
            {"models": (ModelFacts("m", 1, Choice(ModelId("m"), "auto", "", "nobody can", ())),)},
            "nobody can",
        ),
        ("probe m", {"probes": (ProbeFacts("m", "b", failure="it died"),)}, "from b: it died"),
    ],
)
def test_what_is_a_problem(about: str, changes: dict[str, object], words: str) -> None:
    """Whatever keeps somebody from serving is one, and says so."""
    found = judged(**changes)
    assert found[about].level == "problem"
    assert words in found[about].said
    assert not is_well(list(found.values()))


@pytest.mark.parametrize(
    ("about", "changes", "words"),
    [
        ("open files", {"limits": Limits(1024, 1024, None)}, "1024 at most"),
        ("backend other", {"found": {**GOOD.found, "other": MISSING}}, "it is not installed"),
        ("disk", {"home": HomeFacts(exists=True, writable=True, free_bytes=5)}, "0.0 GiB free"),
        ("models", {"models": ()}, "none is installed"),
        ("bandwidth", {"bandwidth": None}, "not measured"),
        ("settings", {"unknown": ("ROOST_PROT",)}, "ROOST_PROT is set"),
        (
            "swap",
            {"memory": Memory(GIB * 9, GIB * 8, swap_total_bytes=GIB, swap_free_bytes=0)},
            "1.0 GiB are swapped out",
        ),
        ("fastest", {"devices": (Device("cuda", "Big GPU", GIB),)}, "Big GPU is not used"),
        ("model m", {"models": (ModelFacts("m", 20 * GIB, CHOICE),)}, "more than is free now"),
    ],
)
def test_what_is_only_worth_knowing(about: str, changes: dict[str, object], words: str) -> None:
    """Somebody may want to know it, and can serve all the same."""
    found = judged(**changes)
    assert found[about].level == "note"
    assert words in found[about].said
    assert is_well(list(found.values()))


def test_other_things_that_are_fine() -> None:
    """A gateway of our own on the port, a home to be made, a probe that worked, an accelerator."""
    taken = PortFacts("127.0.0.1", 7878, "Address already in use", is_ours=True)
    assert judged(port=taken)["port"].said == "roost listens on 127.0.0.1:7878"
    fresh = judged(home=HomeFacts(exists=False, writable=True))
    assert fresh["home"].said == "it will be made when needed"
    probed = judged(probes=(ProbeFacts("m", "b", 1.25, 0.5),))["probe m"]
    assert (probed.level, probed.said) == ("ok", "b loads it in 1.2 s, one token took 0.50 s")
    quick = {**GOOD.found, "llama_server": Found(usable=True, accelerator="cuda")}
    found = judged(found=quick, devices=(Device("cuda", "Big GPU", 2 * GIB, GIB, "570"),))
    assert found["fastest"].level == "ok"
    assert found["accelerator"].said == "Big GPU (cuda), 1.0 GiB of 2.0 GiB free, driver 570"


def test_a_model_without_weights_here_has_no_rate_of_its_own() -> None:
    """Of somebody else's server the bandwidth of this machine says nothing."""
    said = judged(models=(ModelFacts("m", 0, CHOICE),))["model m"]
    assert (said.level, said.said) == ("ok", "runs on llama_server")


def test_a_folder_and_a_clock_are_looked_at(tmp_path: Path) -> None:
    """Nothing is made, and what is not there yet is judged by where it would be."""
    inner = tmp_path / "a" / "b"
    seen = home_facts(inner)
    assert (seen.exists, seen.writable, seen.mode) == (False, True, None)
    assert not inner.parent.exists()
    assert clock_facts(0.0, tmp_path).is_behind
    assert clock_facts(root=tmp_path) == ClockFacts(is_behind=False)
    (tmp_path / "run/systemd/timesync").mkdir(parents=True)
    assert clock_facts(root=tmp_path).is_synchronised is False


def test_a_port_is_free_ours_or_somebody_elses(tmp_path: Path) -> None:
    """It is tried for a moment; whose it is, the records of ROOST_HOME tell."""
    home = Home.open(tmp_path / "home")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        foreign = port_facts("127.0.0.1", port, home)
        assert (foreign.why, foreign.is_ours) == ("Address already in use", False)
        with home.record_instance(f"http://127.0.0.1:{port}"):
            assert port_facts("127.0.0.1", port, home).is_ours
    assert port_facts("127.0.0.1", port, home) == PortFacts("127.0.0.1", port)
    assert port_facts("no.such.host.invalid", port, home).why
    assert port_facts("a..b", port, home).why == "this is no name of a machine"


def test_a_binary_says_its_version(tmp_path: Path) -> None:
    """Or nobody knows."""
    path = tmp_path / "server"
    path.write_text("#!/bin/sh\necho 'version: 4711 (abc)' >&2\n")
    path.chmod(0o700)
    assert program_version(str(path)) == "4711 (abc)"
    path.write_text("#!/bin/sh\nexit 1\n")
    assert program_version(str(path)) is None
    assert program_version(str(tmp_path / "none")) is None


def test_the_verb_over_a_home_with_a_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """0 and a line for each thing; a probe asks for one token; all of it as JSON."""
    file, home = tmp_path / "tiny.gguf", tmp_path / "home"
    file.write_bytes(tiny())
    words = ["doctor", "--home", str(home), "--port", "0"]
    assert main.run(words) == 0
    assert "none is installed" in capsys.readouterr().out
    assert not home.exists()
    assert main.run(["pull", "--home", str(home), f"file:{file}"]) == 0
    for name, pooling in (("vectors", 1), ("scores", 4)):
        other = tmp_path / f"{name}.gguf"
        other.write_bytes(tiny(**{"llama.pooling_type": Typed("u32", pooling)}))
        assert main.run(["pull", "--home", str(home), f"file:{other}"]) == 0
    capsys.readouterr()
    assert main.run([*words, "--probe", "--json", "--backend", "scripted"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is True
    probes = {one["model"]: one["failure"] for one in told["facts"]["probes"]}
    assert probes == {"tiny": "", "vectors": "", "scores": ""}
    assert "probe tiny" in [one["about"] for one in told["findings"]]


def test_the_verb_where_things_are_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """1 with everything that is wrong; wrong settings do not end the look at the rest."""
    file, home = tmp_path / "tiny.gguf", tmp_path / "home"
    file.write_bytes(tiny())
    main.run(["pull", "--home", str(home), "--link", f"file:{file}"])
    file.write_bytes(b"GGUF")
    (home / "roost.toml").write_text('slots = "x"\n[queue]\nlength = -1\n')
    capsys.readouterr()
    assert main.run(["doctor", "--home", str(home), "--port", "0"]) == 1
    told = capsys.readouterr().out
    assert "! settings              slots in the settings file is 'x'" in told
    assert "! settings              queue.length in the settings file is -1" in told
    assert "! models                tiny: " in told
    (home / "roost.toml").write_text('backend = "abacus"\n[placement]\nkeep = ["x"]\n')
    assert main.run(["doctor", "--home", str(home), "--port", "0"]) == 1
    told = capsys.readouterr().out
    assert "! settings              --backend: there is no backend 'abacus'" in told
    assert "! settings              --placement-keep x: write a model" in told
    assert "! models                tiny: " in told
