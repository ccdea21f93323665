"""WIRING: from settings to options of runtimes, files that they name looked at or hashed."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, cast

import msgspec

from roost.config.load import MODEL_OPTIONS, MODELS, read_option
from roost.core.engine import Engine, ExtraFile
from roost.core.model import RuntimeOptions
from roost.core.vectors import DIMENSIONS_MAX
from roost.errors import RoostError, fail
from roost.store.models.inspection import check_readable, digest
from roost.store.models.places import resolved

if TYPE_CHECKING:
    from roost.config import Settings
    from roost.config.setting import Value
    from roost.core.engine import Mode
    from roost.core.kv import CacheType

SCALE_MAX = 100.0
ARGUMENTS_MAX = 64
ARGUMENT_CHARS_MAX = 1000

Look: TypeAlias = Callable[[Path], str]
"""How a file is looked at: gives its digest, "" where nobody needs it; raises `bad_request`."""


def unread(path: Path) -> str:
    """Look whether a file is there and can be read, however large it is."""
    check_readable(path)
    return ""


def options_of(settings: Settings, look: Look = digest) -> RuntimeOptions:
    """Give the options of models that have none of their own; raises `bad_request`."""
    return _options(_common(settings), look)


def own_options(settings: Settings, look: Look = digest) -> dict[str, RuntimeOptions]:
    """Give the options of the models that have some of their own; the last word on each counts."""
    said: dict[str, dict[str, Value]] = {}
    for text in settings.model_options:
        model, option, value = read_option(text)
        mine = said.setdefault(model, {})
        mine[option] = settings.slots if option == "slots" and not value else value
    found, common = dict[str, RuntimeOptions](), _common(settings)
    for model, mine in said.items():
        with _told_of(model, mine):
            found[model] = _options(common | mine, look)
    return found


def _common(settings: Settings) -> dict[str, Value]:
    return {name: getattr(settings, name) for name in MODEL_OPTIONS}


@contextmanager
def _told_of(model: str, own: Collection[str]) -> Iterator[None]:
    """Tell what is wrong with an option of a model's own by the place where it is said."""
    try:
        yield
    except RoostError as error:
        failure = error.failure
        if failure.param not in own:
            raise
        where = f"{MODELS}{model}.options.{failure.param}"
        raise fail("bad_request", f"{where}: {failure.message}", param=where) from None


def sizes_of(settings: Settings) -> dict[str, tuple[int, ...]]:
    """Give what was said of sizes of vectors, by model and "" for all; raises `bad_request`."""
    said = {"": settings.vector_sizes} if settings.vector_sizes else {}
    for text in settings.model_options:
        model, option, value = read_option(text)
        if option == "vector_sizes":
            said[model] = cast("tuple[str, ...]", value)
    found = dict[str, tuple[int, ...]]()
    for model, texts in said.items():
        with _told_of(model, ("vector_sizes",) if model else ()):
            found[model] = _sizes(texts)
    return found


def _sizes(texts: tuple[str, ...]) -> tuple[int, ...]:
    words = [word for text in texts for word in text.replace(",", " ").split()]
    sizes = tuple(int(word) if word.isdecimal() else 0 for word in words)
    if not sizes or not 1 <= min(sizes) <= max(sizes) <= DIMENSIONS_MAX:
        wanted = f"whole numbers from 1 to {DIMENSIONS_MAX}, as 768 256"
        message = f"--vector-sizes {' '.join(texts)[:80]}: write {wanted}."
        raise fail("bad_request", message, param="vector_sizes")
    return sizes


def _options(values: dict[str, Value], look: Look) -> RuntimeOptions:
    ctx, slots, batch, threads = (
        cast("int", values[name]) for name in ("ctx", "slots", "batch", "threads")
    )
    device, dtype = (
        "" if values[name] == "auto" else cast("str", values[name]) for name in ("device", "dtype")
    )
    engine, mode = _engine(values, look), cast("Mode", values["mode"])
    return RuntimeOptions(ctx, slots, batch, threads, engine, device=device, dtype=dtype, mode=mode)


def _engine(values: dict[str, Value], look: Look) -> Engine:
    words = {name: cast("str", value) for name, value in values.items()}
    lists = {name: cast("tuple[str, ...]", values[name]) for name in ("adapters", "llama_args")}
    engine = Engine(
        threads_batch=cast("int", values["threads_batch"]),
        ubatch=cast("int", values["ubatch"]),
        key_type=cast("CacheType", words["cache_type_k"]),
        value_type=cast("CacheType", words["cache_type_v"]),
        gpu_layers=cast("int", values["gpu_layers"]),
        main_gpu=cast("int", values["main_gpu"]),
        kv_offload=words["kv_offload"] == "on",
        mlock=words["mlock"] == "on",
        step_budget_ms=cast("int", values["step_budget_ms"]),
        projector=_file("projector", words["projector"], look) if words["projector"] else None,
        adapters=tuple(map(partial(_adapter, look), lists["adapters"])),
        arguments=_arguments(lists["llama_args"]),
    )
    ways = {"flash_attention": words["flash_attn"], "mmap": words["mmap"]}
    ways["pooling"] = "" if words["pooling"] == "auto" else words["pooling"]
    return msgspec.convert(msgspec.to_builtins(engine) | ways, Engine)


def _adapter(look: Look, text: str) -> ExtraFile:
    """Read `FILE.gguf` or `FILE.gguf=0.5`."""
    path, sign, number = text.rpartition("=")
    if not sign or _is_file(text):
        return _file("adapters", text, look)
    try:
        scale = float(number)
    except ValueError:
        scale = math.nan
    if not -SCALE_MAX <= scale <= SCALE_MAX:
        message = (
            f"--adapters {text}: behind = comes a number from {-SCALE_MAX:g} to {SCALE_MAX:g}."
        )
        raise fail("bad_request", message, param="adapters")
    return _file("adapters", path, look, scale)


def _is_file(text: str) -> bool:
    try:
        return resolved(Path(text)).is_file()
    except RoostError:
        return False


def _file(setting: str, text: str, look: Look, scale: float = 1.0) -> ExtraFile:
    try:
        path = resolved(Path(text))
        return ExtraFile(str(path), look(path), scale)
    except RoostError:
        message = f"--{setting} {text}: there is no file at this path that can be read."
        raise fail("bad_request", message, param=setting) from None


def _arguments(texts: tuple[str, ...]) -> tuple[str, ...]:
    if len(texts) > ARGUMENTS_MAX or any(len(text) > ARGUMENT_CHARS_MAX for text in texts):
        most = f"at most {ARGUMENTS_MAX} arguments of {ARGUMENT_CHARS_MAX} characters"
        message = f"--llama-args takes {most}."
        raise fail("bad_request", message, param="llama_args")
    return texts
