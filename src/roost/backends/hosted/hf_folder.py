"""SHELL: what a folder of safetensors says beside its weights: tokeniser, ends, defaults."""

from __future__ import annotations

from pathlib import Path

import msgspec

from roost.backends.hosted.engine import CannotLoad
from roost.backends.hosted.hf_texts import Texts


class Generation(msgspec.Struct, frozen=True):
    """What `generation_config.json` says of ends and sampling; see `drawing.Defaults`."""

    eos_token_id: int | tuple[int, ...] | None = None
    do_sample: bool = False
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None


class Config(msgspec.Struct, frozen=True):
    """What `config.json` says of ends and size, of a text model inside another one too."""

    eos_token_id: int | tuple[int, ...] | None = None
    vocab_size: int = 0
    max_position_embeddings: int = 0
    text_config: Config | None = None


def read_config(folder: Path) -> Config:
    """Read `config.json`; raises `OSError` and `msgspec.DecodeError`."""
    return msgspec.json.decode((folder / "config.json").read_bytes(), type=Config)


def read_generation(folder: Path) -> Generation:
    """Read what the folder says of sampling; most do, and none has to. Raises `CannotLoad`."""
    try:
        data = (folder / "generation_config.json").read_bytes()
        return msgspec.json.decode(data, type=Generation)
    except FileNotFoundError:
        return Generation()
    except (OSError, msgspec.DecodeError) as error:
        raise CannotLoad("The folder's generation_config.json cannot be read.") from error


def ends_of(generation: Generation, config: Config) -> frozenset[int]:
    """Give the tokens that end an answer."""
    return frozenset((*_many(generation.eos_token_id), *_many(config.eos_token_id)))


def _many(told: int | tuple[int, ...] | None) -> tuple[int, ...]:
    if told is None:
        return ()
    return told if isinstance(told, tuple) else (told,)


def read_texts(folder: Path) -> Texts:
    """Read the tokeniser; raises `CannotLoad` where there is none that can be streamed."""
    try:
        return Texts((folder / "tokenizer.json").read_text("utf-8"))
    except OSError:
        raise CannotLoad("The folder has no tokenizer.json, by which it is streamed.") from None
    except ValueError as error:
        raise CannotLoad(str(error)) from None
