"""Tests of looking at a model on a hub: its headers are fetched and no more."""

from __future__ import annotations

import msgspec
import pytest

from roost.errors import RoostError
from roost.store.pulling.preview import preview_hub
from roost.store.pulling.pull import PullSettings
from roost.store.pulling.sources import HfSource
from roost.store.pulling.transfer import Limits
from tests.store.gguf_writer import Gguf, Tensor, Typed, metadata, shards, tiny
from tests.store.hub import Hub, Page, running_hub

BIG = Gguf(metadata(), (Tensor("t", (2**20, 3), 0, 12 * 2**20),)).build()
LIMITS = Limits(silence_s=5, pause_s=0.001, attempts=1)


def looked(hub: Hub, *files: bytes, file: str = "", ranges: bool = True) -> dict[str, object]:
    """Put files onto a hub, look at the model in them, and return what is known of it."""
    names = [f"m-Q8_0-{n:05}-of-{len(files):05}.gguf" for n in range(1, len(files) + 1)]
    names = names if len(files) > 1 else ["m-Q8_0.gguf"]
    told = {"siblings": [{"rfilename": name} for name in names]}
    hub.pages["/api/models/o/r"] = Page(msgspec.json.encode(told), etag=None)
    for name, raw in zip(names, files, strict=True):
        hub.pages[f"/o/r/resolve/main/{name}"] = Page(raw, ranges=ranges)
    settings = PullSettings(hub_endpoint=hub.url, limits=LIMITS)
    return msgspec.structs.asdict(preview_hub(HfSource("o", "r"), file, settings))


@pytest.mark.parametrize("ranges", [True, False])
def test_a_model_is_known_by_its_header(*, ranges: bool) -> None:
    """Name, size and weights are those of the file, whether or not the server knows ranges."""
    with running_hub() as hub:
        found = looked(hub, BIG, ranges=ranges)
        assert (found["id"], found["size_bytes"]) == ("m", len(BIG))
        assert (found["weight_bytes"], found["ctx_train"]) == (12 * 2**20, 256)
        assert found["digest"] == ""
        assert hub.ranges()[-1] == f"bytes=0-{8 * 2**20 - 1}"


def test_a_long_header_is_fetched_in_steps() -> None:
    """One that goes on behind the first bytes is asked for anew, and longer."""
    with running_hub() as hub:
        found = looked(hub, tiny(a__padding=Typed("str", "x" * (9 * 2**20))))
        assert found["vocab_size"] == 9
        assert hub.ranges()[-1] == f"bytes=0-{32 * 2**20 - 1}"


def test_parts_count_together() -> None:
    """The weights of a split model are those of all its parts."""
    with running_hub() as hub:
        found = looked(hub, *shards(2))
        assert found["size_bytes"] == sum(map(len, shards(2)))


@pytest.mark.parametrize(
    ("page", "reason"),
    [
        (Page(b"<html>"), "bad_request"),
        (Page(tiny()[:500]), "bad_request"),
        (Page(tiny(), statuses=[404]), "not_found"),
        (Page(tiny(), statuses=[403]), "unauthorized"),
        (Page(tiny(), statuses=[500]), "upstream_error"),
    ],
)
def test_what_cannot_be_looked_at(page: Page, reason: str) -> None:
    """Refusals, cut files and pages in place of files: each with its reason."""
    with running_hub() as hub:
        hub.pages["/o/r/resolve/main/m.gguf"] = page
        settings = PullSettings(hub_endpoint=hub.url, limits=LIMITS)
        with pytest.raises(RoostError) as caught:
            preview_hub(HfSource("o", "r", "m.gguf"), "", settings)
        assert caught.value.failure.reason == reason
