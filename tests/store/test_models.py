"""Tests of the model store: linking, importing, ids, changed files, damage and traversal."""

from __future__ import annotations

import hashlib
import itertools
import os
import shutil
from pathlib import Path

import pytest

from roost.errors import RoostError
from roost.store.home import Home
from roost.store.models.inspection import digest, take_stamp
from roost.store.models.registry import Incoming, ModelStore
from tests.store.gguf_writer import Typed, tiny

STEPS = ("..", ".", "", "%2e%2e", "..%2f", "~", "/etc", "\0", "models", "x\n", "C:", "$HOME")
TRAVERSALS = [
    separator.join(parts)
    for separator in ("/", "\\", "//")
    for length in (1, 2, 3)
    for parts in itertools.islice(itertools.product(STEPS, repeat=length), 40)
]


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    """An empty store in a new ROOST_HOME."""
    return ModelStore(Home.open(tmp_path / "home"))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A tiny model file of a user's."""
    path = tmp_path / "Tiny-Chat.Q4_1.gguf"
    path.write_bytes(tiny())
    return path


def refusal(store: ModelStore, path: Path, reason: str = "bad_request") -> str:
    """Return the message with which a file is refused, which never names its path."""
    with pytest.raises(RoostError) as caught:
        store.add_file(path, link=True)
    assert caught.value.failure.reason == reason
    assert str(path.parent) not in caught.value.failure.message
    return caught.value.failure.message


def files_of(store: ModelStore) -> list[str]:
    """List every model file, manifest and unfinished download."""
    found = [*store.home.models.rglob("*"), *store.home.downloads.rglob("*")]
    names = [*found, *store.home.manifests.rglob("*")]
    return sorted(str(path.relative_to(store.home.root)) for path in names if path.is_file())


def test_a_linked_model_stays_where_it_is(store: ModelStore, model: Path) -> None:
    """Linking lists the file by its absolute path, copies nothing, and removing leaves it alone."""
    manifest = store.add_file(model, link=True)
    assert manifest.id == "tiny-chat"
    assert manifest.path == str(model.resolve())
    assert manifest.digest == "sha256:" + hashlib.sha256(tiny()).hexdigest()
    assert manifest.size_bytes == len(tiny())
    assert (manifest.architecture, manifest.ctx_train, manifest.vocab_size) == ("llama", 256, 9)
    assert (manifest.bos, manifest.eos, manifest.max_token_bytes) == ("<s>", "</s>", 7)
    assert manifest.control_tokens == ("<unk>", "<s>", "</s>", "<|im_end|>")
    assert manifest.licence == "apache-2.0"
    assert manifest.source == f"file:{model.resolve()}"
    assert files_of(store) == ["manifests/tiny-chat.json"]
    assert store.list() == (manifest,)
    store.remove("tiny-chat")
    assert model.exists()
    assert store.list() == ()


def test_an_imported_model_is_owned(store: ModelStore, model: Path) -> None:
    """Importing copies: writing into the original later does not change the model.

    A hard link would be quicker, and would let an edit of the original break a model that is
    listed with a digest.
    """
    manifest = store.add_file(model, link=False)
    own = store.home.models / "tiny-chat" / "model.gguf"
    assert manifest.path == str(own)
    assert not own.samefile(model)
    assert own.read_bytes() == model.read_bytes()
    assert files_of(store) == ["manifests/tiny-chat.json", "models/tiny-chat/model.gguf"]
    model.unlink()
    assert store.get("tiny-chat") == manifest
    store.remove("tiny-chat")
    assert files_of(store) == []
    assert not own.parent.exists()


def test_a_known_linked_file_is_not_hashed_again(store: ModelStore, model: Path) -> None:
    """Linking an unchanged file again returns what is known, without reading it through."""
    hashed: list[int] = []
    first = store.add_file(model, link=True, progress=lambda done, total: hashed.append(done))
    assert hashed == [len(tiny())]
    again = store.add_file(model, link=True, progress=lambda done, total: hashed.append(done))
    assert again == first
    assert len(hashed) == 1


def test_importing_the_same_content_again_changes_nothing(store: ModelStore, model: Path) -> None:
    """A second import of the same content keeps the one model, and leaves no file behind."""
    first = store.add_file(model, link=False)
    again = store.add_file(model, link=False)
    assert again == first
    assert store.list() == (first,)
    assert files_of(store) == ["manifests/tiny-chat.json", "models/tiny-chat/model.gguf"]


def test_importing_a_linked_model_makes_it_owned(store: ModelStore, model: Path) -> None:
    """The same content keeps its id when it is imported later."""
    linked = store.add_file(model, link=True)
    owned = store.add_file(model, link=False)
    assert owned.id == linked.id
    assert owned.path != linked.path
    assert store.add_file(model, link=True) == owned
    assert len(store.list()) == 1


def test_a_file_of_another_disk_is_copied(store: ModelStore, tmp_path: Path) -> None:
    """A model on another file system is imported like any other: the memory disk is one."""
    memory = Path("/dev/shm")
    away = (memory if memory.is_dir() else tmp_path) / f"roost-test-{os.getpid()}"
    away.mkdir()
    try:
        source = away / "far.gguf"
        source.write_bytes(tiny())
        manifest = store.add_file(source, link=False)
    finally:
        shutil.rmtree(away)
    assert digest(Path(manifest.path)) == manifest.digest
    assert files_of(store) == ["manifests/far.json", "models/far/model.gguf"]


def test_other_content_never_takes_over_an_id(store: ModelStore, tmp_path: Path) -> None:
    """Files of one name and different content get ids that tell them apart."""
    ids = []
    for number, folder in enumerate(("a", "b", "c")):
        (tmp_path / folder).mkdir()
        path = tmp_path / folder / "Tiny.Q4_1.gguf"
        path.write_bytes(tiny(general__name=Typed("str", f"Name {number}")))
        ids.append(store.add_file(path, link=True).id)
    assert ids[:2] == ["tiny", "tiny.q4_1"]
    assert ids[2].startswith("tiny-")
    assert len(store.list()) == 3


def test_a_linked_file_that_changed_is_read_again(store: ModelStore, model: Path) -> None:
    """New content at the same path is a new digest under the same id, with or without adding it."""
    first = store.add_file(model, link=True)
    model.write_bytes(tiny(llama__context_length=Typed("u32", 512)))
    os.utime(model, ns=(1, 1))
    second = store.get(first.id)
    assert second.ctx_train == 512
    assert second.digest != first.digest
    assert store.get(first.id) == second
    model.write_bytes(tiny(llama__context_length=Typed("u32", 1024)))
    os.utime(model, ns=(2, 2))
    third = store.add_file(model, link=True)
    assert (third.id, third.ctx_train) == (first.id, 1024)


def test_a_model_whose_file_is_gone(store: ModelStore, model: Path) -> None:
    """A missing file makes the model not found and not listed; linking it anew repairs that."""
    manifest = store.add_file(model, link=True)
    moved = model.rename(model.with_name("moved.gguf"))
    assert store.list() == ()
    assert [name for name, _ in store.broken()] == [manifest.id]
    with pytest.raises(RoostError, match="gone") as caught:
        store.get(manifest.id)
    assert caught.value.failure.reason == "model_not_found"
    moved.rename(model)
    assert store.get(manifest.id) == manifest


def test_a_file_that_became_rubbish_is_broken(store: ModelStore, model: Path) -> None:
    """A model whose file is cut short later is reported, and does not hide the others."""
    store.add_file(model, link=True)
    other = model.with_name("other.gguf")
    other.write_bytes(tiny(general__name=Typed("str", "Other")))
    store.add_file(other, link=True)
    model.write_bytes(tiny()[:-100])
    assert [manifest.id for manifest in store.list()] == ["other"]
    assert store.broken()[0][0] == "tiny-chat"
    assert "cut short" in store.broken()[0][1]


def test_a_damaged_manifest_is_reported_and_removable(store: ModelStore, model: Path) -> None:
    """Rubbish in a manifest breaks that model alone, and it can be removed or added again."""
    store.add_file(model, link=False)
    path = store.home.manifests / "tiny-chat.json"
    path.write_bytes(b"{")
    assert store.list() == ()
    assert "damaged" in store.broken()[0][1]
    store.add_file(model, link=False)
    path.write_bytes(b"[]")
    store.remove("tiny-chat")
    assert store.broken() == ()


def test_owned_models_follow_a_moved_home(store: ModelStore, model: Path) -> None:
    """ROOST_HOME may be moved: owned files are found by their id, not by an old path."""
    manifest = store.add_file(model, link=False)
    moved = store.home.root.rename(store.home.root.with_name("elsewhere"))
    found = ModelStore(Home.open(moved)).get(manifest.id)
    assert found.path == str(moved / "models" / "tiny-chat" / "model.gguf")
    assert found.digest == manifest.digest


@pytest.mark.parametrize(
    "name", ["模型 ünï 🦜.gguf", "with space & 'quotes'.gguf", "-rf.gguf", "new\nline.gguf"]
)
@pytest.mark.parametrize("link", [True, False])
def test_any_unicode_path_works(
    store: ModelStore, tmp_path: Path, name: str, *, link: bool
) -> None:
    """Names in any script, with spaces, quotes or line ends are files like others."""
    path = tmp_path / name
    path.write_bytes(tiny())
    manifest = store.add_file(path, link=link)
    assert store.get(manifest.id) == manifest
    assert digest(Path(manifest.path)) == manifest.digest


def test_a_name_that_is_not_utf8_is_refused(store: ModelStore, tmp_path: Path) -> None:
    """Bytes that are no text cannot be written to a manifest; the message says so."""
    path = tmp_path / os.fsdecode(b"bad\xff.gguf")
    path.write_bytes(tiny())
    assert "UTF-8" in refusal(store, path)


def test_what_is_no_model_file_is_refused(store: ModelStore, tmp_path: Path) -> None:
    """Missing files, folders, pipes, devices, empty and other files: each with its verdict."""
    (tmp_path / "text.gguf").write_text("hello, I am no model")
    (tmp_path / "empty.gguf").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe.gguf")
    assert "No such file" in refusal(store, tmp_path / "missing.gguf")
    assert "not a GGUF" in refusal(store, tmp_path)
    (tmp_path / "folder").mkdir()
    assert "no file ends in" in refusal(store, tmp_path / "folder")
    assert "regular file" in refusal(store, tmp_path / "pipe.gguf")
    assert "regular file" in refusal(store, Path("/dev/zero"))
    assert "not a GGUF" in refusal(store, tmp_path / "empty.gguf")
    assert "not a GGUF" in refusal(store, tmp_path / "text.gguf")
    refusal(store, tmp_path / "nul\0byte")
    assert files_of(store) == []


def test_a_large_header_is_read_in_steps(store: ModelStore, tmp_path: Path) -> None:
    """A header longer than the first read is read whole."""
    path = tmp_path / "wide.gguf"
    padding = Typed("str", "x" * (15 * 2**20))
    path.write_bytes(tiny(a__padding=padding))
    assert store.add_file(path, link=True).vocab_size == 9


def test_a_symbolic_link_is_followed(store: ModelStore, model: Path) -> None:
    """What is imported is the file, never the link to it."""
    alias = model.with_name("alias.gguf")
    alias.symlink_to(model)
    manifest = store.add_file(alias, link=False)
    assert manifest.id == "alias"
    assert not Path(manifest.path).is_symlink()
    loop = model.with_name("loop.gguf")
    loop.symlink_to(loop)
    refusal(store, loop)


def test_traversals_are_just_unknown_models(store: ModelStore, tmp_path: Path) -> None:
    """No text reaches the file system unless it is an id: 280 attempts find and remove nothing."""
    outside = tmp_path / "outside.json"
    outside.write_text("{}")
    assert len(TRAVERSALS) > 200
    for text in [*TRAVERSALS, "../../outside", str(outside), "outside.json"]:
        for attempt in (store.get, store.remove):
            with pytest.raises(RoostError) as caught:
                attempt(text)
            assert caught.value.failure.reason == "model_not_found"
    assert outside.exists()


def test_files_that_are_no_manifests_are_not_listed(store: ModelStore) -> None:
    """Names in the manifests folder that are no ids are left alone."""
    for name in ("UPPER.json", ".hidden.json", "a b.json", "x.txt"):
        (store.home.manifests / name).write_text("{}")
    assert store.list() == ()
    assert store.broken() == ()


def test_install_takes_a_finished_file(store: ModelStore) -> None:
    """A pulled file moves to its place with source and licence, and is found by its source."""
    path = store.home.downloads / "finished"
    path.write_bytes(tiny())
    incoming = Incoming((path,), "../../Tiny.Q8_0.gguf", "pypi:tiny==1.0", licence="MIT")
    manifest = store.install(incoming)
    assert (manifest.id, manifest.licence, manifest.source) == ("tiny", "MIT", "pypi:tiny==1.0")
    assert not path.exists()
    for source in ("pypi:tiny", "pypi:tiny==1.0"):
        assert store.find_source(source) == manifest
    assert store.find_source("pypi:tin") is None
    assert take_stamp(Path(manifest.path)).size_bytes == manifest.size_bytes
