"""Servers of our own, vLLM's and oMLX's: told their words, waited for, ended; on a fake of both."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

from roost.backends.base import Runtime, SlotUse
from roost.backends.looking import vllm_found
from roost.backends.openai.omlx import RETAINED_MAX, Omlx
from roost.backends.openai.vllm import Vllm
from roost.core.card import Omlx as OmlxCard
from roost.core.card import Remote, read_card
from roost.core.events import Delta, Failed, StreamEvent
from roost.core.ids import ModelId
from roost.core.model import Manifest, RuntimeKey, RuntimeOptions
from roost.core.request import GenerateRequest, TextPrompt
from roost.errors import RoostError
from roost.testing.conformance import Subject, examine, failed, table
from tests.backends.subjects import MODEL, kill_server, rewrite, served, settings_in
from tests.children import living
from tests.recorded import differing

FAKE = Path(__file__).with_name("fake_vllm.py")


async def started(subject: Subject) -> Runtime:
    """Start a subject."""
    return await subject.backend.start(
        subject.key, subject.manifest, subject.settings, lambda _: None
    )


def told(folder: Path) -> dict[str, list[str]]:
    """Give what the fake server was told."""
    found: dict[str, list[str]] = json.loads((folder / "weights" / "told.json").read_text())
    return found


@pytest.mark.slow
async def test_vllm_keeps_every_promise_of_its_dialect(tmp_path: Path) -> None:
    """Death and end included, since it is a child; what no server tells is not claimed."""
    results = await examine(served(tmp_path, Vllm(), "vllm"))
    assert failed(results) == [], table(results)
    assert differing("vllm", results) == [], "python -m tests.record vllm omlx"
    kept = {need for one in results if one.status == "kept" for need in one.case.needs}
    assert kept == {"chat", "completion", "streaming", "concurrent_streams", "cancel"}
    assert living() == []


@pytest.mark.parametrize("executable", ["vllm", "python"])
async def test_vllm_is_told_its_words(executable: str, tmp_path: Path) -> None:
    """Its command or its module, on this machine alone, with a key that is on no command line."""
    card: dict[str, object] = {"args": ["--max-num-seqs", "8; id"], "prefix_caching": "on"}
    subject = served(tmp_path, Vllm(), executable, **card)
    runtime = await started(subject)
    try:
        argv, weights = told(tmp_path)["argv"], str(tmp_path / "weights")
        module = ["-m", "vllm.entrypoints.openai.api_server", "--model", weights]
        first = ["serve", weights] if executable == "vllm" else module
        port = argv[argv.index("--port") + 1]
        assert argv == [
            *(*first, "--host", "127.0.0.1", "--port", port),
            *("--served-model-name", MODEL, "--max-model-len", "1024"),
            *("--enable-prefix-caching", "--max-num-seqs", "8; id"),
        ]
        assert len(told(tmp_path)["key"]) == 64
        assert ((await runtime.telemetry()).rss_bytes or 0) > 0
    finally:
        await runtime.stop(1.0)
    assert living() == []
    assert leftovers(subject) == []


def beside(folder: Path, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a vLLM of this version beside roost, as far as anybody can tell from outside."""
    package = folder / "site" / "vllm" / "entrypoints" / "openai"
    package.mkdir(parents=True)
    for part in (package, package.parent, package.parent.parent):
        (part / "__init__.py").touch()
    run = f"import runpy\nrunpy.run_path({str(FAKE)!r}, run_name='__main__')\n"
    (package / "api_server.py").write_text(run)
    told = folder / "site" / f"vllm-{version}.dist-info"
    told.mkdir()
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")
    monkeypatch.syspath_prepend(str(folder / "site"))
    monkeypatch.setenv("PYTHONPATH", str(folder / "site"), prepend=os.pathsep)


def weights(folder: Path, **options: object) -> Subject:
    """Give vLLM a folder that has no card."""
    where = folder / "weights"
    where.mkdir()
    path = str(where / "model.safetensors")
    manifest = Manifest(MODEL, path, 0, "sha256:0", format="safetensors", ctx_train=512)
    key = RuntimeKey("vllm", MODEL, "sha256:0", RuntimeOptions(**options))  # type: ignore[arg-type]
    return Subject(Vllm(), key, manifest, settings_in(folder), kill_server)


async def test_a_folder_without_a_card_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the vLLM beside roost, which is told what the node's own options say."""
    beside(tmp_path, "0.32.0+cpu", monkeypatch)
    subject = weights(tmp_path, ctx=4096, slots=3, dtype="bfloat16")
    runtime = await started(subject)
    argv = told(tmp_path)["argv"]
    await runtime.stop(1.0)
    assert argv[argv.index("--model") + 1] == str(tmp_path / "weights")
    assert argv[argv.index("--max-model-len") :] == [
        *("--max-model-len", "512", "--max-num-seqs", "3", "--dtype", "bfloat16")
    ]
    assert living() == []
    assert leftovers(subject) == []


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"device": "cuda"}, "vLLM as it is installed here computes on cpu: see --device"),
        ({"mode": "embed"}, "The backend vllm"),
        ({"ctx": 1}, "does not say how much context"),
    ],
)
async def test_what_it_cannot_do_with_a_folder_is_told(
    options: dict[str, object], what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is started."""
    beside(tmp_path, "0.32.0+cpu", monkeypatch)
    with pytest.raises(RoostError, match=what) as caught:
        await started(weights(tmp_path, **options))
    assert caught.value.failure.reason == "load_failed"


@pytest.mark.parametrize(
    ("version", "of"), [("0.32.0+cpu", "cpu"), ("0.32.0+rocm700", "rocm"), ("0.32.0", "cuda")]
)
def test_what_it_computes_on_is_told_by_its_version(
    version: str, of: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And weights need it beside roost, where a card names a program of its own."""
    assert vllm_found().usable
    beside(tmp_path, version, monkeypatch)
    found = vllm_found().of("safetensors")
    assert (found.usable, found.version, found.accelerator) == (True, version, of)


def test_without_it_weights_are_for_others() -> None:
    """Whoever asks why hears what to type; cards are as they were."""
    found = vllm_found().of("safetensors")
    assert (found.usable, found.why, found.extra) == (False, "vLLM is not installed", "vllm")
    assert vllm_found().of("vllm").usable


def leftovers(subject: Subject) -> list[str]:
    """List what runtimes have left."""
    return os.listdir(subject.settings.workdir)  # noqa: PTH208 - names are all that matters


@pytest.mark.parametrize(
    ("card", "words"),
    [
        ({"prefix_caching": "off"}, {"--no-enable-prefix-caching"}),
        ({"prefix_caching": "on", "args": ["--no-enable-prefix-caching"]}, set()),
        ({}, set()),
    ],
)
async def test_prefix_caching_is_said_once(
    card: dict[str, object], words: set[str], tmp_path: Path
) -> None:
    """Whoever says it in words of their own is not contradicted."""
    runtime = await started(served(tmp_path, Vllm(), "vllm", **card))
    await runtime.stop(1.0)
    own = {word for word in told(tmp_path)["argv"] if word.endswith("enable-prefix-caching")}
    assert own - set(card.get("args", ())) == words  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("args", "what"),
    [
        (["--port", "1"], "--port"),
        (["--served_model_name=x"], "--served-model-name"),
        (["--mod", "x"], "--model"),
        (["--api-key=x"], "--api-key"),
    ],
)
def test_words_that_roost_says_are_refused(args: list[str], what: str) -> None:
    """In every way in which a parser would understand them."""
    text = f'backend = "vllm"\npath = "/m"\nctx = 9\nargs = {json.dumps(args)}'
    with pytest.raises(RoostError, match=f"args may not have {what}, which roost sets"):
        read_card(text.encode())


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ('host = "gpu"\nargs = ["--x"]', "args, executable and prefix_caching"),
        ('host = "gpu"\npath = "/m"', "either a path"),
        ("", "either a path"),
        ('host = "a b"', "host is a name"),
        ('path = "/m"\nmodel = "x"', "somebody else's"),
    ],
)
def test_a_vllm_is_ours_or_somebody_elses(text: str, what: str) -> None:
    """A card that mixes the two is refused."""
    with pytest.raises(RoostError, match=what):
        read_card(f'backend = "vllm"\nctx = 9\n{text}'.encode())


def test_one_of_somebody_elses_is_a_server_like_any_other() -> None:
    """By host and port; its model is the one that is named, called as here, or the only one."""
    text = 'backend = "vllm"\nctx = 9\nhost = "gpu.example"\nport = 8001\nmodel = "m"'
    assert read_card(text.encode()) == Remote("http://gpu.example:8001", 9, "m")


@pytest.mark.parametrize(
    ("fake", "what"),
    [
        ({"dies": True}, "no kernel image is available"),
        ({"hangs": True}, "not healthy within 0.3 s. Raise health_timeout_s"),
    ],
)
async def test_a_server_that_does_not_come_up_is_told(
    fake: dict[str, bool], what: str, tmp_path: Path
) -> None:
    """With its own last words, or the time that it had; nothing of it is left."""
    subject = served(tmp_path, Vllm(), "vllm", health_timeout_s=0.3 if "hangs" in fake else 9.0)
    (tmp_path / "weights" / "fake.json").write_text(json.dumps(fake))
    with pytest.raises(RoostError, match=what) as caught:
        await started(subject)
    assert caught.value.failure.reason == "load_failed"
    assert living() == []
    assert leftovers(subject) == []


async def test_a_server_that_is_killed_ends_its_streams_with_that(tmp_path: Path) -> None:
    """And not with a connection that broke."""
    runtime = await started(served(tmp_path, Vllm(), "vllm"))
    request = GenerateRequest(MODEL, TextPrompt("one two"), 500, ignore_eos=True)
    events: list[StreamEvent] = []
    async with runtime.open(await runtime.prepare(request), SlotUse(0, reuse=False)) as stream:
        async for event in stream:
            events.append(event)
            if isinstance(event, Delta) and len(events) == 3:
                await kill_server(runtime)
    last = events[-1]
    assert isinstance(last, Failed)
    assert last.failure.reason == "runtime_died"


async def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    """No program, no folder, another card."""
    subject = served(tmp_path, Vllm(), "vllm")
    for text, what in (
        (f'path = "{tmp_path}"\nexecutable = "/no/such/vllm"', "no program that may be run"),
        ('path = "/no/such/folder"', "folder of this model is not there"),
        (f'path = "{tmp_path}"', "vLLM is not installed. Type: "),
    ):
        rewrite(subject, f'backend = "vllm"\nctx = 9\n{text}')
        with pytest.raises(RoostError, match=what):
            await started(subject)
    rewrite(subject, f'backend = "omlx"\nctx = 9\npath = "{tmp_path}"')
    with pytest.raises(RoostError, match="for another backend"):
        await started(subject)


def omlx(folder: Path, **card: object) -> Subject:
    """Give oMLX, as on one of Apple's machines."""
    return served(folder, Omlx("darwin"), "omlx", **card)


async def test_omlx_is_told_its_words(tmp_path: Path) -> None:
    """One model in a folder of its own, with limits of what it keeps, and a key in its settings."""
    runtime = await started(omlx(tmp_path, args=["--log-level", "debug"], hot_cache="2GB"))
    try:
        (argv, key) = told(tmp_path).values()
        folder = argv[argv.index("--base-path") + 1].removesuffix("/base")
        assert argv[:6] == [
            *("serve", "--model-dir", f"{folder}/models", "--base-path", f"{folder}/base"),
            "--host",
        ]
        assert argv[9:] == [
            *("--paged-ssd-cache-dir", f"{folder}/cache", "--paged-ssd-cache-max-size", "4GB"),
            *("--hot-cache-max-size", "2GB", "--log-level", "debug"),
        ]
        assert len(key) == 64
        request = GenerateRequest(MODEL, TextPrompt("one two"), 2)
        prepared = await runtime.prepare(request)
        async with runtime.open(prepared, SlotUse(0, reuse=False)) as events:
            said = [event.text async for event in events if isinstance(event, Delta)]
        assert "".join(said) == "one two"
    finally:
        await runtime.stop(1.0)


async def test_omlx_retains_so_many_and_refuses_the_next(tmp_path: Path) -> None:
    """Another configuration is refused while all run, and has its place once one has gone."""
    assert RETAINED_MAX == 16
    backend = Omlx("darwin", retained_max=2)
    subject = served(tmp_path, backend, "omlx")
    first, second = [await started(as_model(subject, number)) for number in range(2)]
    third = as_model(subject, 2)
    with pytest.raises(RoostError, match="retains 2 configurations"):
        await started(third)
    assert [one.died.is_set() for one in (first, second)] == [False, False]
    await first.stop(0.0)
    first = await started(third)
    for runtime in (first, second):
        await runtime.stop(0.0)
    assert backend.retained == frozenset()
    assert living() == []


def as_model(subject: Subject, number: int) -> Subject:
    """Give the same card as another model."""
    name = ModelId(f"m{number}")
    key = msgspec.structs.replace(subject.key, model=name)
    manifest = msgspec.structs.replace(subject.manifest, id=name)
    return Subject(subject.backend, key, manifest, subject.settings, kill_server)


async def test_a_folder_that_cannot_be_filled_is_not_left(tmp_path: Path) -> None:
    """Neither the half of it, nor the key that it may hold already."""
    subject = omlx(tmp_path)
    key = msgspec.structs.replace(subject.key, model=ModelId("m" * 300))
    with pytest.raises(RoostError, match="oMLX cannot be made: File name too long") as caught:
        await started(Subject(subject.backend, key, subject.manifest, subject.settings))
    assert caught.value.failure.reason == "load_failed"
    assert leftovers(subject) == []


def test_a_card_of_omlx_has_limits() -> None:
    """What it may keep is said in words that it understands."""
    card = read_card(b'backend = "omlx"\npath = "/m"\nctx = 9')
    assert isinstance(card, OmlxCard)
    assert (card.hot_cache, card.ssd_cache, card.health_timeout_s) == ("0", "4GB", 900.0)
    for text in ('ssd_cache = "4 gigabytes"', 'args = ["--base-path=/x"]', 'path = ""'):
        with pytest.raises(RoostError):
            read_card(f'backend = "omlx"\npath = "/m"\nctx = 9\n{text}'.encode())


async def test_omlx_is_for_apples_machines(tmp_path: Path) -> None:
    """Anywhere else it is refused before anything is looked for."""
    with pytest.raises(RoostError, match="Apple's machines"):
        await started(served(tmp_path, Omlx("linux"), "omlx"))
