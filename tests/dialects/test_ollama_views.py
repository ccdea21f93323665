"""Models as Ollama's clients list them; what is not known is left out."""

from __future__ import annotations

import json

import msgspec
import pytest

from roost.core.ids import ModelId, RuntimeId
from roost.core.snapshots import ModelOffer, RuntimeView
from roost.dialects.ollama.errors import error_body
from roost.dialects.ollama.views import (
    Running,
    read_show,
    running_body,
    show_body,
    tags_body,
    version_body,
)
from roost.errors import Failure, RoostError

TINY = ModelOffer(
    ModelId("tiny"),
    slots=2,
    ctx=4096,
    created_unix_s=1_700_000_000,
    size_bytes=9,
    digest="sha256:ab",
    architecture="llama",
)
BARE = ModelOffer(ModelId("bare"), slots=1, ctx=0, has_chat=False)


def view(**facts: object) -> RuntimeView:
    """Make a runtime that is ready."""
    known = {"runtime": RuntimeId("r"), "ctx": 4096, **facts}
    return RuntimeView(ModelId("tiny"), "scripted", "ready", **known)  # type: ignore[arg-type]


def loaded(*views: RuntimeView) -> dict[str, object]:
    """Show the one model that is loaded, at second 100 since 1970."""
    body = json.loads(running_body((Running(TINY, one) for one in views), 100.0))
    [shown] = body["models"]
    assert isinstance(shown, dict)
    return shown


def test_the_list_has_what_is_known() -> None:
    """Names, sizes and digests; a model of which nothing is known has its name."""
    body = json.loads(tags_body([TINY, BARE]))
    assert body["models"] == [
        {
            "name": "tiny",
            "model": "tiny",
            "modified_at": "2023-11-14T22:13:20Z",
            "size": 9,
            "digest": "sha256:ab",
            "details": {"family": "llama", "families": ["llama"]},
        },
        {"name": "bare", "model": "bare", "details": {}},
    ]


def test_one_model_says_what_it_can_do() -> None:
    """Clients choose models with tools by that, and read the context below the architecture."""
    shown = json.loads(show_body(TINY))
    assert shown["capabilities"] == ["completion", "tools"]
    assert shown["model_info"] == {"general.architecture": "llama", "llama.context_length": 4096}
    vectors = json.loads(show_body(msgspec.structs.replace(BARE, mode="embed")))
    assert vectors["capabilities"] == ["embedding"]
    ranks = json.loads(show_body(msgspec.structs.replace(BARE, mode="rank")))
    assert ranks["capabilities"] == []
    bare = json.loads(show_body(BARE))
    assert (bare["capabilities"], bare["model_info"]) == (["completion"], {})


def test_what_is_loaded_says_until_when() -> None:
    """A pinned one stays; one in use has no such time, and each model is there once."""
    assert loaded(view(unload_in_s=20.0, idle_s=1.0))["expires_at"] == "1970-01-01T00:02:00Z"
    assert loaded(view(pinned=True))["expires_at"] == "2100-01-01T00:00:00Z"
    assert loaded(view(idle_s=3.0))["expires_at"] == "2100-01-01T00:00:00Z"
    assert "expires_at" not in loaded(view())
    both = loaded(view(unload_in_s=1.0), view(unload_in_s=9.0))
    assert both["expires_at"] == "1970-01-01T00:01:49Z"
    assert (both["size"], both["size_vram"], both["context_length"]) == (9, 0, 4096)


def test_which_model_is_shown() -> None:
    """By either of the two names of the field."""
    assert read_show(b'{"model": "a"}') == "a"
    assert read_show(b'{"name": "b", "verbose": true}') == "b"
    for wrong in (b"{}", b'{"model": 1}', b"[]", b'{"model": ""}'):
        with pytest.raises(RoostError) as caught:
            read_show(wrong)
        assert caught.value.failure.status == 400


def test_errors_are_one_text() -> None:
    """With the status of the failure."""
    failure = Failure("model_not_found", "There is none.", "model")
    assert error_body(failure) == (404, b'{"error":"There is none."}')


def test_the_version_is_that_of_the_api() -> None:
    """Clients ask whether it is new enough for tools and thinking; ours stands beside it."""
    found = json.loads(version_body("0.1.0"))
    assert tuple(map(int, found["version"].split("."))) >= (0, 12)
    assert found["roost"] == "0.1.0"
