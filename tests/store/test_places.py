"""Tests of models as users keep them: folders, shards, links; linked and imported, verified."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from roost.errors import RoostError
from roost.store.home import Home
from roost.store.models.inspection import check_unchanged, inspect
from roost.store.models.places import found_in, locate
from roost.store.models.registry import ModelStore
from tests.store.gguf_writer import Typed, shards, tiny


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    """An empty store in a new ROOST_HOME."""
    return ModelStore(Home.open(tmp_path / "home"))


@pytest.fixture
def split(tmp_path: Path) -> Path:
    """A folder with one model in three parts."""
    folder = tmp_path / "Größe 模型"
    folder.mkdir()
    for number, raw in enumerate(shards(3), 1):
        (folder / f"Big-Q4_0-{number:05}-of-00003.gguf").write_bytes(raw)
    return folder


def refusal(path: Path, wanted: str = "") -> str:
    """Return the message with which a place is refused."""
    with pytest.raises(RoostError) as caught:
        locate(path, wanted)
    assert caught.value.failure.reason == "bad_request"
    return caught.value.failure.message


@pytest.mark.parametrize("link", [True, False])
@pytest.mark.parametrize(
    "named", ["", "Big-Q4_0-00001-of-00003.gguf", "Big-Q4_0-00002-of-00003.gguf"]
)
def test_shards_are_one_model(store: ModelStore, split: Path, named: str, *, link: bool) -> None:
    """A folder, or any part, names the model; its files keep names that llama.cpp finds."""
    manifest = store.add_file(split / named, link=link)
    assert manifest.id == "big"
    assert [Path(file.path).stem[-14:] for file in manifest.files] == [
        f"{number:05}-of-00003" for number in (1, 2, 3)
    ]
    assert manifest.path == manifest.files[0].path
    assert manifest.size_bytes == sum(path.stat().st_size for path in split.iterdir())
    assert len({file.digest for file in manifest.files} | {manifest.digest}) == 4
    assert store.get("big") == manifest
    assert store.add_file(split, link=link) == manifest
    check_unchanged(manifest)
    store.remove("big")
    assert len(list(split.iterdir())) == 3
    assert list(store.home.models.iterdir()) == []


def test_a_split_model_that_is_not_whole(store: ModelStore, split: Path) -> None:
    """A missing part is named; a part alone under another name is told what it is."""
    second = split / "Big-Q4_0-00002-of-00003.gguf"
    alone = split / "alone.gguf"
    alone.write_bytes(second.read_bytes())
    second.unlink()
    lost = "1 of its 3 parts cannot be found: Big-Q4_0-00002-of-00003.gguf."
    assert lost in refusal(split, "Big-Q4_0-00001-of-00003.gguf")
    assert lost in refusal(split / "Big-Q4_0-00003-of-00003.gguf")
    with pytest.raises(RoostError, match="3 parts and 1 are here"):
        store.add_file(alone, link=False)
    assert store.list() == ()


def test_a_cache_of_links(store: ModelStore, split: Path, tmp_path: Path) -> None:
    """Where names are links to blobs, the names count: for the id, and for what finds shards."""
    cache = tmp_path / "snapshot"
    cache.mkdir()
    blobs = tmp_path / "blobs"
    split.rename(blobs)
    for index, blob in enumerate(sorted(blobs.iterdir())):
        name = blob.name
        (cache / name).symlink_to(blob.rename(blobs / f"blob{index}"))
    manifest = store.add_file(cache, link=True)
    assert manifest.id == "big"
    assert [Path(file.path).parent for file in manifest.files] == [cache] * 3
    single = cache / "Tiny-Q8_0.gguf"
    (blobs / "blob9").write_bytes(tiny())
    single.symlink_to(blobs / "blob9")
    assert store.add_file(single, link=True).id == "tiny"


def test_variants_of_a_folder(store: ModelStore, tmp_path: Path) -> None:
    """The best one without being asked, any by name; folders in it count, links to folders not."""
    folder = tmp_path / "repo"
    (folder / "deep").mkdir(parents=True)
    for kind in ("Q8_0", "Q4_K_M"):
        raw = tiny(general__name=Typed("str", kind))
        (folder / "deep" / f"m-{kind}.gguf").write_bytes(raw)
    (folder / "round").symlink_to(folder)
    assert [one.name for one in found_in(folder)] == ["deep/m-Q4_K_M.gguf", "deep/m-Q8_0.gguf"]
    assert store.add_file(folder, link=True).path.endswith("m-Q4_K_M.gguf")
    chosen = store.add_file(folder, link=True, file="q8_0")
    assert (chosen.id, chosen.path[-9:]) == ("m-q8_0", "Q8_0.gguf")
    assert "no model here" in refusal(folder, "q2_k").lower()
    assert "in a folder" in refusal(folder / "deep" / "m-Q8_0.gguf", "q8_0")


@pytest.mark.parametrize("link", [True, False])
def test_another_file_behind_the_same_name(
    store: ModelStore, tmp_path: Path, *, link: bool
) -> None:
    """A model can be given other files: its id stays, and nothing of the old ones is left."""
    (tmp_path / "m.gguf").write_bytes(tiny())
    before = store.add_file(tmp_path / "m.gguf", link=False)
    other = tmp_path / "other"
    other.mkdir()
    for number, raw in enumerate(shards(2), 1):
        (other / f"x-{number:05}-of-00002.gguf").write_bytes(raw)
    after = store.add_file(other, link=link, into=before.id)
    assert (after.id, len(after.files)) == (before.id, 2)
    assert store.list() == (after,)
    kept = [path for path in store.home.models.rglob("*") if path.is_file()]
    assert sorted(map(str, kept)) == ([] if link else [file.path for file in after.files])


def test_verifying_reads_everything(store: ModelStore, tmp_path: Path) -> None:
    """A byte that was turned in an owned file is found, though size and time say nothing."""
    (tmp_path / "m.gguf").write_bytes(tiny())
    manifest = store.add_file(tmp_path / "m.gguf", link=False)
    counted: list[int] = []
    verified = store.verify("m", lambda done, total: counted.append(done))
    assert (verified.manifest, verified.verdict) == (manifest, "good")
    assert counted[-1] == manifest.size_bytes
    own = Path(manifest.path)
    raw = bytearray(own.read_bytes())
    raw[-1] ^= 1
    own.write_bytes(raw)
    os.utime(own, ns=(1, manifest.files[0].mtime_ns))
    assert store.get("m") == manifest
    with pytest.raises(RoostError, match="damaged") as caught:
        store.verify("m")
    assert caught.value.failure.reason == "storage_error"
    os.utime(own, ns=(1, 1))
    with pytest.raises(RoostError, match="damaged"):
        store.get("m")


def test_verifying_a_linked_file_that_its_user_changed(store: ModelStore, tmp_path: Path) -> None:
    """It is the user's to change: the manifest says what the file is now, and that it changed."""
    path = tmp_path / "m.gguf"
    path.write_bytes(tiny())
    first = store.add_file(path, link=True)
    path.write_bytes(tiny(llama__context_length=Typed("u32", 512)))
    verified = store.verify("m")
    assert (verified.verdict, verified.manifest.ctx_train) == ("changed", 512)
    assert verified.manifest.source == first.source
    assert store.verify("m").verdict == "good"
    path.unlink()
    with pytest.raises(RoostError, match="gone"):
        store.verify("m")


def test_a_look_before_native_code_does(store: ModelStore, tmp_path: Path) -> None:
    """Files that changed, went or broke since they were installed start no runtime."""
    path = tmp_path / "m.gguf"
    path.write_bytes(tiny())
    manifest = store.add_file(path, link=True)
    check_unchanged(manifest)
    path.write_bytes(tiny()[:-100])
    for _ in range(2):
        with pytest.raises(RoostError, match="roost models verify") as caught:
            check_unchanged(manifest)
        assert caught.value.failure.reason == "load_failed"
        path.unlink(missing_ok=True)


def test_the_header_of_every_part_is_judged(split: Path) -> None:
    """A part that is cut short is found before anything is copied or started."""
    files = sorted(split.iterdir())
    assert inspect(*files).vocab_size == 9
    files[2].write_bytes(files[2].read_bytes()[:-64])
    with pytest.raises(RoostError, match="cut short"):
        inspect(*files)
