"""The shelf: what is offered of a model, and with which key and files a runtime of it starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from roost.backends.base import Runtime, StartSettings
from roost.core.engine import Engine, ExtraFile
from roost.core.ids import ModelId, RuntimeId
from roost.core.kv import KvLayers, KvShape
from roost.core.model import Capabilities, Manifest, ModelFile, RuntimeKey, RuntimeOptions
from roost.core.snapshots import ModelOffer
from roost.errors import Failure, RoostError, fail
from roost.node.models.shelf import Shelf, ShelfSettings, digest_of, reading_of
from roost.store.calibration import Calibration
from roost.store.home import Home
from roost.store.models.inspection import digest
from tests.node.tiny import TinyRuntime
from tests.store.gguf_writer import tiny

ODD = ModelId("../org/model:1")


class Recording:
    """A backend that remembers how it was asked."""

    capabilities = Capabilities()

    def __init__(self, name: str = "tiny", *, works: bool = True) -> None:
        self.name = name
        self._works = works
        self.asked: list[tuple[RuntimeKey, Manifest, StartSettings]] = []

    async def start(
        self,
        key: RuntimeKey,
        manifest: Manifest,
        settings: StartSettings,
        on_progress: Callable[[float], None],
    ) -> Runtime:
        """Start a tiny runtime."""
        self.asked.append((key, manifest, settings))
        if not self._works:
            raise fail("load_failed", "This backend does not start.")
        on_progress(1.0)
        made = TinyRuntime(key.model)
        made.key = key
        return made


class Always:
    """The first of its backends for every model, and the next one where that failed."""

    def __init__(self, *backends: Recording) -> None:
        self._backends = list(backends)

    def backend_of(self, _model: Manifest) -> Recording:
        """Give the first; raises `load_failed` where there is none."""
        if not self._backends:
            raise fail("load_failed", "No backend serves this.")
        return self._backends[0]

    def on_failed(self, _model: Manifest, _backend: str, _failure: Failure) -> bool:
        """Drop the first, unless it is the last."""
        if len(self._backends) == 1:
            return False
        self._backends.pop(0)
        return True


class Seen(Always):
    """Keeps what was said of models that backends were chosen for."""

    def __init__(self, *backends: Recording) -> None:
        super().__init__(*backends)
        self.tasks: list[tuple[str, ...]] = []

    def backend_of(self, model: Manifest) -> Recording:
        """Give the first."""
        self.tasks.append(model.tasks)
        return super().backend_of(model)


def manifest_of(model: str = "m", ctx_train: int = 2048) -> Manifest:
    """Say of a model what there is to say."""
    return Manifest(
        ModelId(model),
        "/models/m.gguf",
        size_bytes=7,
        digest="sha256:0",
        ctx_train=ctx_train,
        chat_template="{{ messages }}",
        created_unix_s=5,
        max_token_bytes=12,
    )


def _shelf(backend: Recording, *models: Manifest, ctx: int = 4096) -> Shelf:
    start = StartSettings(workdir="", log_path="", start_timeout_s=9.0)
    options = RuntimeOptions(ctx=ctx, slots=3)
    return Shelf(models, Always(backend), ShelfSettings(options, "/run", "/logs", start))


@pytest.mark.parametrize(
    ("wanted", "own", "ctx"),
    [(4096, 2048, 2048), (1024, 2048, 1024), (0, 2048, 2048), (512, 0, 512)],
)
def test_the_context_is_at_most_the_models_own(wanted: int, own: int, ctx: int) -> None:
    """What is asked for, but never more than the model was trained for; 0 takes all of that."""
    (offer,) = _shelf(Recording(), manifest_of(ctx_train=own), ctx=wanted).offers()
    assert offer == ModelOffer(
        ModelId("m"),
        slots=3,
        ctx=ctx,
        created_unix_s=5,
        size_bytes=7,
        has_chat=True,
        max_token_bytes=12,
        backend="tiny",
        digest=offer.digest,
        key=offer.key,
    )
    assert offer.digest
    assert offer.key


async def test_a_model_may_have_options_of_its_own() -> None:
    """Its offer and its runtime's key have them; the others keep the common ones."""
    start = StartSettings(workdir="", log_path="")
    own = {"m": RuntimeOptions(ctx=64, slots=1, batch=16, threads=2)}
    settings = ShelfSettings(RuntimeOptions(), "/run", "/logs", start, own_options=own)
    backend = Recording()
    shelf = Shelf([manifest_of(), manifest_of("n")], Always(backend), settings)
    assert [(offer.slots, offer.ctx) for offer in shelf.offers()] == [(1, 64), (4, 2048)]
    await shelf.start(ModelId("m"), RuntimeId("m#1"), lambda _part: None)
    assert backend.asked[0][0].options == own["m"]


async def test_what_may_be_copied_is_asked_at_every_start() -> None:
    """Memory comes and goes; a shelf that nobody has told copies nothing."""
    backend = Recording()
    shelf, left = _shelf(backend, manifest_of()), iter((70, 30))
    for _ in range(3):
        await shelf.start(ModelId("m"), RuntimeId("m#1"), lambda _part: None)
        shelf.copy_with(lambda: next(left))
    assert [settings.copy_max_bytes for _, _, settings in backend.asked] == [0, 70, 30]


def test_a_model_is_for_what_it_was_made_for_or_what_is_said() -> None:
    """One for vectors has no chat, and sizes; `mode` makes one of another that can say texts."""
    made = msgspec.structs.replace(manifest_of("v"), tasks=("embeddings",), vector_sizes=(8,))
    chat = msgspec.structs.replace(manifest_of("c"), tasks=("chat",), vector_sizes=(64,))
    common = RuntimeOptions(mode="auto")
    own = {"c": RuntimeOptions(mode="embed")}
    start, seen = StartSettings(workdir="", log_path=""), Seen(Recording())

    def offered(sizes: dict[str, tuple[int, ...]], **more: RuntimeOptions) -> list[object]:
        settings = ShelfSettings(common, "/run", "/logs", start, "", more, sizes)
        found = Shelf([manifest_of(), made, chat], seen, settings).offers()
        return [(one.mode, one.has_chat, one.max_token_bytes, one.vector_sizes) for one in found]

    says, makes = ("generate", True, 12, ()), ("embed", False, 0, (8,))
    assert offered({}) == [says, makes, says]
    assert seen.tasks == [(), ("embeddings",), ("chat",)]
    assert offered({"v": (8, 4)}, **own) == [
        says,
        ("embed", False, 0, (8, 4)),
        ("embed", False, 0, (64,)),
    ]
    assert seen.tasks[3:] == [(), ("embeddings",), ("embeddings",)]
    ranks = msgspec.structs.replace(made, tasks=("rerank",))
    settings = ShelfSettings(common, "/run", "/logs", start)
    (found,) = Shelf([ranks], seen, settings).offers()
    assert (found.mode, found.has_chat, found.vector_sizes) == ("rank", False, ())
    assert offered({"": (3,)}, v=RuntimeOptions(mode="generate"))[1] == says


def _engines(backend: Recording, engine: Engine, kv: KvShape | None = None) -> Shelf:
    """Give a shelf with one model that has these options of its own."""
    own = {"m": RuntimeOptions(ctx=256, slots=1, engine=engine)}
    start = StartSettings(workdir="", log_path="")
    settings = ShelfSettings(RuntimeOptions(), "/run", "/logs", start, own_options=own)
    manifest = msgspec.structs.replace(manifest_of(), kv=kv)
    return Shelf([manifest], Always(backend), settings)


def test_options_of_an_engine_are_part_of_its_keys_and_costs() -> None:
    """Another type of KV is another runtime, and another number of bytes."""
    shape = KvShape((KvLayers(2, 64, 64),))
    (plain,) = _engines(Recording("llama_server"), Engine(), shape).offers()
    (small,) = _engines(Recording("llama_server"), Engine(key_type="q8_0"), shape).offers()
    assert plain.key != small.key
    assert plain.kv_token_bytes == 2 * (128 + 128)
    assert small.kv_token_bytes == 2 * (68 + 128)


async def test_options_without_effect_are_refused_by_name() -> None:
    """What was said of this very model has to be for the backend that runs it."""
    shelf = _engines(Recording(), Engine(mlock=True, gpu_layers=3))
    with pytest.raises(RoostError, match="which tiny runs: gpu_layers, mlock") as caught:
        await shelf.start(ModelId("m"), RuntimeId("m#1"), lambda _part: None)
    assert caught.value.failure.reason == "load_failed"
    start = StartSettings(workdir="", log_path="")
    common = RuntimeOptions(engine=Engine(mlock=True))
    backend = Recording()
    shelf = Shelf([manifest_of()], Always(backend), ShelfSettings(common, "/run", "/logs", start))
    await shelf.start(ModelId("m"), RuntimeId("m#1"), lambda _part: None)
    assert backend.asked[0][0].options.engine == Engine()


async def test_files_beside_a_model_are_looked_at_before_each_load(tmp_path: Path) -> None:
    """One that is not what it was when the node started is not loaded."""
    file = tmp_path / "lora.gguf"
    file.write_bytes(b"one")
    adapter = ExtraFile(str(file), digest(file))
    backend = Recording("llama_server")
    shelf = _engines(backend, Engine(adapters=(adapter,)))
    await shelf.start(ModelId("m"), RuntimeId("m#1"), lambda _part: None)
    file.write_bytes(b"two")
    with pytest.raises(RoostError, match=r"lora\.gguf is not what it was"):
        await shelf.start(ModelId("m"), RuntimeId("m#1"), lambda _part: None)
    file.unlink()
    with pytest.raises(RoostError, match="start it again"):
        await shelf.start(ModelId("m"), RuntimeId("m#1"), lambda _part: None)


async def test_models_come_and_go() -> None:
    """After an update the new model starts, and the old one fails to load with a reason."""
    shelf = _shelf(Recording(), manifest_of("old"))
    assert [offer.model for offer in shelf.update([manifest_of("new")])] == ["new"]
    runtime = await shelf.start(ModelId("new"), RuntimeId("new#1"), lambda _part: None)
    assert runtime.key.model == "new"
    with pytest.raises(RoostError) as caught:
        await shelf.start(ModelId("old"), RuntimeId("old#2"), lambda _part: None)
    assert caught.value.failure.reason == "load_failed"


def test_a_model_that_no_backend_runs_is_still_offered() -> None:
    """Asked for, it says why it does not load; that beats pretending that it is not there."""
    start = StartSettings(workdir="", log_path="")
    settings = ShelfSettings(RuntimeOptions(), "/run", "/logs", start)
    shelf = Shelf([manifest_of()], Always(), settings)
    assert [offer.backend for offer in shelf.offers()] == [""]


async def test_the_next_backend_takes_over_where_a_load_fails() -> None:
    """What is offered then is told before the next one is tried: other digests, other answers."""
    told: list[ModelOffer] = []

    async def tell(offers: list[ModelOffer]) -> None:
        told.extend(offers)

    broken, sound = Recording("broken", works=False), Recording("sound")
    start = StartSettings(workdir="", log_path="")
    settings = ShelfSettings(RuntimeOptions(), "/run", "/logs", start)
    shelf = Shelf([manifest_of()], Always(broken, sound), settings)
    shelf.tell_with(tell)
    (before,) = shelf.offers()
    runtime = await shelf.start(ModelId("m"), RuntimeId("m#1"), lambda _part: None)
    assert (runtime.key.backend, before.backend) == ("sound", "broken")
    assert [key.backend for key, _, _ in broken.asked + sound.asked] == ["broken", "sound"]
    assert [offer.backend for offer in told] == ["sound"]
    assert told[0].digest != before.digest


async def test_the_last_backend_says_why_nothing_runs() -> None:
    """Where nobody is left the last failure is the answer, and it is tried again when asked."""
    broken = Recording("broken", works=False)
    shelf = Shelf(
        *([manifest_of()], Always(broken)),
        ShelfSettings(RuntimeOptions(), "/run", "/logs", StartSettings(workdir="", log_path="")),
    )
    for _ in range(2):
        with pytest.raises(RoostError, match="does not start"):
            await shelf.start(ModelId("m"), RuntimeId("m#1"), lambda _part: None)
    assert len(broken.asked) == 2


async def test_a_runtime_starts_with_its_own_key_and_files() -> None:
    """The key holds what the offer promised; names of files stay inside their folders."""
    backend = Recording()
    shelf = _shelf(backend, manifest_of(ODD))
    progress: list[float] = []
    runtime = await shelf.start(ODD, RuntimeId(f"{ODD}#1"), progress.append)
    ((key, manifest, settings),) = backend.asked
    options = RuntimeOptions(ctx=2048, slots=3)
    assert key == RuntimeKey("tiny", ODD, "sha256:0", options, reading_of(manifest))
    assert [offer.key for offer in shelf.offers()] == [key.name]
    assert manifest.id == runtime.key.model == ODD
    assert (settings.workdir, settings.log_path) == (
        "/run/_org_model_1_1",
        "/logs/%2E.%2Forg%2Fmodel%3A1.log",
    )
    assert settings.start_timeout_s == 9.0
    assert progress == [1.0]


async def test_what_counts_has_a_log_of_its_own(tmp_path: Path) -> None:
    """A model's runtime may run beside it, and two processes neither write nor rotate one log."""
    backend, path = Recording("llama_server"), tmp_path / "m.gguf"
    path.write_bytes(tiny())
    manifest = msgspec.structs.replace(manifest_of(ODD), path=str(path))
    start = StartSettings(workdir="", log_path="", start_timeout_s=9.0)
    settings = ShelfSettings(RuntimeOptions(), str(tmp_path), "/logs", start)
    shelf = Shelf([manifest], Always(backend), settings)
    await shelf.start(ODD, RuntimeId(f"{ODD}#1"), lambda _: None)
    await shelf.start_counter(ODD)
    logs = [asked.log_path for _key, _manifest, asked in backend.asked]
    own = "/logs/%2E.%2Forg%2Fmodel%3A1"
    assert logs == [f"{own}.log", f"{own}+vocabulary.log"]


async def test_no_name_of_a_model_is_that_of_what_counts_for_another(tmp_path: Path) -> None:
    """Neither a log nor a folder is shared, whatever models are called."""
    backend, path = Recording("llama_server"), tmp_path / "m.gguf"
    path.write_bytes(tiny())
    names = ("x", "vocabulary-x", "x_1", "x+vocabulary", "a/b", "a_b", "1-vocabulary")
    models = [msgspec.structs.replace(manifest_of(name), path=str(path)) for name in names]
    start = StartSettings(workdir="", log_path="")
    settings = ShelfSettings(RuntimeOptions(), str(tmp_path), "/logs", start)
    shelf = Shelf(models, Always(backend), settings)
    for number, name in enumerate(names, 1):
        await shelf.start(ModelId(name), RuntimeId(f"{name}#{number}"), lambda _: None)
        await shelf.start_counter(ModelId(name))
    asked = [settings for _key, _manifest, settings in backend.asked]
    assert len({one.log_path for one in asked}) == len({one.workdir for one in asked}) == 14


async def test_no_runtime_starts_on_a_file_that_is_another(tmp_path: Path) -> None:
    """What lies behind a manifest is looked at once more before native code does."""
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF")
    file = ModelFile(str(path), 5, "sha256:0", path.stat().st_mtime_ns)
    backend = Recording()
    shelf = _shelf(backend, msgspec.structs.replace(manifest_of(), files=(file,)))
    with pytest.raises(RoostError, match="another one than was installed") as caught:
        await shelf.start(ModelId("m"), RuntimeId("m#1"), lambda _part: None)
    assert caught.value.failure.reason == "load_failed"
    assert backend.asked == []
    with pytest.raises(RoostError, match="another one than was installed"):
        await shelf.check(ModelId("m"))
    shelf.update(())
    await shelf.check(ModelId("m"))


def test_offers_say_what_the_cache_takes() -> None:
    """Bytes of all slots and of a token, from the layers; unknown layers are unknown bytes."""
    known = msgspec.structs.replace(manifest_of(), kv=KvShape((KvLayers(30, 192, 192),)))
    shelf = _shelf(Recording(), known, manifest_of("other"))
    offers = {offer.model: (offer.kv_bytes, offer.kv_token_bytes) for offer in shelf.offers()}
    assert offers == {"m": (3 * 2048 * 23_040, 23_040), "other": (None, None)}


@pytest.mark.parametrize(
    "change",
    [
        {"digest": "sha256:2"},
        {"chat_template": "{{ x }}"},
        {"add_bos": True},
        {"control_tokens": ("<x>",)},
    ],
)
def test_whatever_changes_the_meaning_of_an_id_changes_the_digest(
    change: dict[str, object],
) -> None:
    """Weights, template, tokeniser and backend; a name, a path or a size do not matter."""
    one = Manifest(ModelId("m"), "/a", 1, "sha256:1")
    same = msgspec.structs.replace(one, id=ModelId("n"), path="/b", size_bytes=2)
    assert digest_of(one, "tiny") == digest_of(same, "tiny")
    assert digest_of(one, "tiny") != digest_of(one, "other")
    assert digest_of(one, "tiny") != digest_of(msgspec.structs.replace(one, **change), "tiny")
    assert digest_of(one, "") == digest_of(msgspec.structs.replace(one, digest=""), "tiny") == ""


async def test_what_was_seen_is_offered_by_whoever_starts_next(tmp_path: Path) -> None:
    """Of this key as measured; a model that was installed anew meanwhile is another one."""
    home = Home.open(tmp_path)
    shelf = _shelf(Recording(), manifest_of())
    shelf.weigh_with(Calibration(home), {"tiny": "cuda"})
    (before,) = shelf.offers()
    assert (before.measured_bytes, before.device) == (None, "cuda")
    options = RuntimeOptions(ctx=2048, slots=3)
    key = RuntimeKey("tiny", ModelId("m"), "sha256:0", options)
    await shelf.note(key, 9000)
    await shelf.note(msgspec.structs.replace(key, digest="sha256:1"), 7)
    await shelf.note(msgspec.structs.replace(key, model=ModelId("gone")), 8)
    (after,) = shelf.offers()
    assert after.measured_bytes == 9000
    assert before.key == after.key
    again = _shelf(Recording(), manifest_of())
    again.weigh_with(Calibration(home), {})
    (offer,) = again.offers()
    assert (offer.measured_bytes, offer.device) == (9000, "host")


async def test_a_node_that_cannot_write_figures_down_still_has_them(tmp_path: Path) -> None:
    """The failure is a storage error for the log; what was seen counts until the node ends."""
    home = Home.open(tmp_path)
    shelf = _shelf(Recording(), manifest_of())
    shelf.weigh_with(Calibration(home), {})
    home.locks.rmdir()
    key = RuntimeKey("tiny", ModelId("m"), "sha256:0", RuntimeOptions(ctx=2048, slots=3))
    with pytest.raises(RoostError):
        await shelf.note(key, 9000)
    assert shelf.offers()[0].measured_bytes == 9000
