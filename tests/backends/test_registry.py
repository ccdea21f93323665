"""The closed list of backends, and what to type when an engine is missing."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import Distribution, version
from pathlib import Path

import pytest

from roost.backends import install, looking, registry
from roost.backends.choosing import Subject
from roost.backends.hostable import Library
from roost.backends.llama.server import LlamaServer
from roost.backends.looking import library_found
from roost.core.ids import ModelId
from roost.core.model import Capabilities
from roost.errors import RoostError
from tests.backends.subjects import fake_manifest, key_of, settings_in
from tests.source import ROOT


@pytest.mark.parametrize(
    ("name", "model_format", "found"),
    [
        ("auto", "gguf", "llama_server"),
        ("auto", "scripted", "scripted"),
        ("llama_server", "anything", "llama_server"),
        ("scripted", "gguf", "scripted"),
        ("auto", "toy", "toy"),
    ],
)
def test_a_name_means_a_backend(name: str, model_format: str, found: str) -> None:
    """`auto` goes by the format of the model, a name by itself."""
    subject = Subject(ModelId("m"), model_format)
    assert registry.chosen(name, subject, registry.here()).backend == found


@pytest.mark.parametrize("name", registry.NAMES)
def test_each_backend_can_be_made(name: str) -> None:
    """Every name in the list makes the backend that bears it."""
    assert registry.make(name).name == name


@pytest.mark.parametrize("name", registry.HOSTED)
def test_a_hosted_library_is_named_in_one_place(name: str) -> None:
    """Adding one is files of its own, one line here, and the size of what it needs."""
    # A simulated fleet calls its backends what it likes, and a verb may be about one of them.
    own = re.compile(rf"src/roost/backends/libraries/{name}(_\w+)?\.py")
    naming = re.compile(rf"\b{name}\b[\"'.]|libraries\.{name}\b")
    # Texts are enough: parsing all of them takes a busy machine half a minute.
    files = {path.relative_to(ROOT).as_posix(): path for path in (ROOT / "src").rglob("*.py")}
    elsewhere = re.compile(r"src/roost/(sim|cli)/")
    places = [
        (name_of, line)
        for name_of, path in files.items()
        if not elsewhere.match(name_of) and not own.fullmatch(name_of)
        for line in path.read_text("utf-8").splitlines()
        if naming.search(line)
    ]
    known = {f"src/roost/backends/{module}.py" for module in ("registry", "install")}
    # The programs of a library may be called as it is: cards name them by their preset.
    known.add("src/roost/core/presets.py")
    assert {path for path, _ in places} <= known, places


def test_unknown_names_and_formats_say_what_there_is() -> None:
    """A wrong name lists the right ones; a format nobody serves is named."""
    with pytest.raises(
        RoostError, match="auto, candle, command, command_once, llama_server"
    ) as caught:
        registry.make("abacus")
    assert caught.value.failure.reason == "load_failed"
    with pytest.raises(RoostError, match="auto, candle, command, command_once, llama_server"):
        registry.chosen("abacus", Subject(ModelId("m"), "gguf"), registry.here())
    choice = registry.chosen("auto", Subject(ModelId("m"), "coreml"), registry.here())
    assert (choice.backend, choice.chain) == ("", ())
    assert "format 'coreml'" in choice.reason


@pytest.mark.parametrize(
    ("tool", "editable", "start"),
    [
        ("pip", False, "pip install 'roost[llama]' "),
        ("pip", True, "pip install -e '.[llama]' "),
        ("uv", False, "uv pip install 'roost[llama]' "),
    ],
)
def test_the_command_fits_the_installation(tool: str, editable: bool, start: str) -> None:
    """A checkout gets another command than a release, and the size is said."""
    command = install.command("llama", tool=tool, editable=editable)
    assert command.startswith(start)
    assert command.endswith("(127 MB installed)")


@pytest.mark.parametrize(
    ("installer", "origin", "start"),
    [
        ("pip\n", None, "pip install 'roost[llama]' "),
        ("uv", '{"url": "file:///x", "dir_info": {"editable": true}}', "uv pip install -e '."),
        ("pip", '{"url": "file:///x", "dir_info": {}}', "pip install 'roost[llama]' "),
        ("pip", '{"url": "https://x", "archive_info": {}}', "pip install 'roost[llama]' "),
        ("pip", "nonsense", "pip install 'roost[llama]' "),
    ],
)
def test_the_installers_records_are_read(
    installer: str, origin: str | None, start: str, tmp_path: Path
) -> None:
    """Tool and checkout are read from what the installer wrote, whatever it wrote."""
    (tmp_path / "INSTALLER").write_text(installer)
    if origin is not None:
        (tmp_path / "direct_url.json").write_text(origin)
    found = Distribution.at(tmp_path)
    assert install.command_for(found, "llama").startswith(start)


@pytest.mark.parametrize(
    ("installer", "origin", "argv"),
    [
        ("pip", None, [sys.executable, "-P", "-m", "pip", "install", "roost[llama]==1.2"]),
        (
            "uv",
            '{"url": "file:///a%20b/x", "dir_info": {"editable": true}}',
            ["uv", "pip", "install", "--python", sys.executable, "-e", "/a b/x[llama]"],
        ),
    ],
)
def test_an_extra_is_added_to_this_copy(
    installer: str, origin: str | None, argv: list[str], tmp_path: Path
) -> None:
    """The same version where it was released, the same folder where it is a checkout."""
    (tmp_path / "INSTALLER").write_text(installer)
    (tmp_path / "METADATA").write_text("Metadata-Version: 2.1\nName: roost\nVersion: 1.2\n")
    if origin is not None:
        (tmp_path / "direct_url.json").write_text(origin)
    assert install.argv_for(Distribution.at(tmp_path), "llama") == argv


async def test_a_missing_engine_says_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the wheel a load fails with a command, and leaves no folder behind."""
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(
        RoostError, match=r"not installed. Type: .*pip install .*llama\]'"
    ) as caught:
        await LlamaServer().start(
            key_of("llama_server"), fake_manifest(tmp_path), settings_in(tmp_path), lambda _: None
        )
    assert caught.value.failure.reason == "load_failed"
    assert _entries(tmp_path / "run") == []


def _entries(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def test_this_installation_has_a_command() -> None:
    """However roost is installed here, there is something to type."""
    assert "pip install" in install.install_command("llama")


def test_a_look_at_engines_imports_none_of_them() -> None:
    """What is installed is read from records, and the wheel's version with it."""
    code = (
        "import sys; from roost.backends import registry; found = registry.look();"
        "print(found['llama_server'].version, 'xllamacpp' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20
    )
    assert done.stdout.split() == [version("xllamacpp"), "False"]


@pytest.mark.parametrize(
    ("name", "mode", "why"),
    [
        ("nothing", None, "there is no such program"),
        ("server", 0o600, "it is not a program that may be run"),
        ("server", 0o700, ""),
    ],
)
def test_a_named_binary_is_looked_for(
    name: str, mode: int | None, why: str, tmp_path: Path
) -> None:
    """It stands in the place of the wheel, whether or not it is there."""
    path = tmp_path / name
    if mode is not None:
        path.touch(mode=mode)
    found = registry.look(str(path))["llama_server"]
    assert found.usable == (why == "")
    assert why in found.why


def test_without_the_wheel_nothing_serves_its_format(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is what to type, not that nobody reads the format."""
    for module in ("xllamacpp", "mistralrs"):
        monkeypatch.setitem(sys.modules, module, None)
    choice = registry.chosen("auto", Subject(ModelId("m"), "gguf"), registry.here())
    assert choice.backend == ""
    assert choice.reason.startswith("llama_server: llama.cpp is not installed; type: ")


@pytest.mark.parametrize(
    ("library", "accelerator"),
    [("libggml-cuda.so", "cuda"), ("libggml-hip.so", "rocm"), ("libggml-base.so", None)],
)
def test_a_build_is_known_by_its_libraries(
    library: str, accelerator: str | None, tmp_path: Path
) -> None:
    """What a wheel brings tells for which accelerator it was made; without a sign, it is ours."""
    (tmp_path / "RECORD").write_text(f"engine.libs/{library},,\nMETADATA,,\n")
    built = looking.built_for(Distribution.at(tmp_path))
    assert built == (accelerator or ("metal" if sys.platform == "darwin" else "cpu"))


def test_a_build_for_an_accelerator_is_told_by_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One library, several packages that bring it: which one it is says on what it computes."""
    library = Library("x", "X", "x:load", Capabilities(), ("json",), builds={"x-cuda": "cuda"})
    assert library_found(library).accelerator == "cpu"
    info = tmp_path / "x_cuda-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: x-cuda\nVersion: 1.5\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = library_found(library)
    assert (found.usable, found.version, found.accelerator) == (True, "1.5", "cuda")


def test_auto_prefers_on_processors_what_was_measured_to_be_quicker() -> None:
    """Priorities come in the order of the table of engines, the quickest to decode first."""
    text = (Path(__file__).parents[2] / "docs/benchmarks.md").read_text()
    table = text.partition("## Engines on one small model")[2]
    rows = [line.split("|") for line in table.splitlines() if line.startswith("| `")]
    decode = {row[1].strip(" `"): float(row[-2]) for row in rows}
    assert len(decode) >= 3
    preferred = {one.name: one.priorities["cpu"] for one in registry.traits()}
    quickest = sorted(decode, key=lambda name: -decode[name])
    assert quickest == sorted(decode, key=lambda name: -preferred[name])
