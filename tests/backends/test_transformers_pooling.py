"""How one vector is made of a text's many: what a folder says, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roost.backends.hosted.engine import CannotLoad
from roost.backends.libraries.transformers_pooling import pooling_of


def written(folder: Path, pooling: object, *kinds: str) -> Path:
    """Write a folder with these parts, and this about its pooling."""
    paths = {"Pooling": "1_Pooling"}
    modules = [{"type": f"x.models.{kind}", "path": paths.get(kind, "")} for kind in kinds]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return folder


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, "mean"),
        ({"pooling_mode_cls_token": True}, "cls"),
        ({"pooling_mode_lasttoken": True, "include_prompt": True}, "lasttoken"),
        ({"pooling_mode_max_tokens": True}, "max"),
        ({"pooling_mode": "mean"}, "mean"),
    ],
)
def test_a_folder_says_how_it_pools(told: object, found: str, tmp_path: Path) -> None:
    """In the words of either generation of its library."""
    parts = ("Transformer", "Pooling", "Normalize")
    assert pooling_of(written(tmp_path, told, *parts)) == found


@pytest.mark.parametrize(
    ("told", "parts", "words"),
    [
        ({}, ("Transformer", "Pooling"), "is not known"),
        ({"pooling_mode": "magic"}, ("Transformer", "Pooling"), "'magic' is not known"),
        ({"pooling_mode_weightedmean_tokens": True}, ("Transformer", "Pooling"), "weightedmean"),
        (
            {"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True},
            ("Transformer", "Pooling"),
            "is not known",
        ),
        ({"pooling_mode": "mean"}, ("Transformer", "Pooling", "Dense"), "Pooling, Dense"),
        ({"pooling_mode": "mean"}, ("Transformer",), "not all known"),
        ([], ("Transformer", "Pooling"), "cannot be read"),
    ],
)
def test_what_is_not_known_is_not_guessed(
    told: object, parts: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    """Vectors that lack a part of their model look right and mean less."""
    with pytest.raises(CannotLoad, match=words):
        pooling_of(written(tmp_path, told, *parts))


def test_a_folder_without_a_word_about_it(tmp_path: Path) -> None:
    """The refusal names the file that would say it."""
    with pytest.raises(CannotLoad, match=r"modules\.json"):
        pooling_of(tmp_path)
