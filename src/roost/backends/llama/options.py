"""DECIDER: options of an engine as arguments of a llama.cpp program, only those that it knows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from roost.core.engine import Engine, ExtraFile
from roost.errors import RoostError, fail

_FLAG = re.compile(r"(?<![\w-])--?[a-zA-Z][a-zA-Z0-9-]*")
_LINE = re.compile(r"^\s*(-[^\s,]+(?:,\s*-[^\s,]+)*)", re.MULTILINE)
JOINED_SCALE = re.compile(r"--lora-scaled\s+FNAME:SCALE")

RESERVED = frozenset(
    (
        *("--model", "--model-url", "--hf-repo", "--hf-file", "--hf-token", "--docker-repo"),
        *("--models-dir", "--models-preset", "--host", "--port", "--path", "--api-prefix"),
        *("--api-key", "--api-key-file", "--ssl-key-file", "--ssl-cert-file", "--reuse-port"),
        *("--slot-save-path", "--media-path", "--slots", "--no-slots", "--props", "--metrics"),
        *("--ctx-size", "--parallel", "--batch-size", "--ubatch-size", "--threads"),
        *("--threads-batch", "--kv-unified", "--no-kv-unified", "--cache-ram", "--cache-prompt"),
        *("--no-cache-prompt", "--cache-reuse", "--cache-idle-slots", "--no-cache-idle-slots"),
        *("--slot-prompt-similarity", "--context-shift", "--no-context-shift", "--kv-offload"),
        *("--no-kv-offload", "--cache-type-k", "--cache-type-v", "--flash-attn", "--gpu-layers"),
        *("--n-gpu-layers", "--main-gpu", "--mmap", "--no-mmap", "--mlock", "--mmproj"),
        *("--mmproj-url", "--lora", "--lora-scaled", "--embedding", "--embeddings", "--pooling"),
        *("--rerank", "--reranking", "--chat-template", "--chat-template-file", "--jinja"),
        *("--no-jinja", "--webui", "--no-webui", "--ui", "--no-ui", "--tools", "--alias"),
        *("--log-file", "--log-disable", "--verbose", "--log-verbosity", "--verbosity"),
        *("--verbose-prompt", "--sse-ping-interval", "--timeout", "--threads-http", "--offline"),
        *("--help", "--version", "--usage", "--grammar", "--grammar-file", "--json-schema"),
        *("--json-schema-file", "--predict", "--n-predict", "--sleep-idle-seconds", "--lookup"),
    )
)
"""What the adapter or another setting decides, or what would tell others of prompts."""


def flags_in(help_text: str) -> frozenset[str]:
    """Find every flag that a `--help` text names."""
    return frozenset(_FLAG.findall(help_text))


def engine_arguments(engine: Engine, help_text: str) -> tuple[str, ...]:
    """Write an engine's options for the program that prints `help_text`.

    Raises `load_failed` naming the setting, where the program does not know it.
    """
    known = flags_in(help_text)
    words = [word for one in _wanted(engine, help_text) for word in _chosen(*one, known)]
    return (*words, *_own(engine.arguments, help_text))


def _wanted(
    engine: Engine, help_text: str
) -> Iterator[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Give what differs from the defaults: a setting, its flags by preference, their values."""
    plain = Engine()
    for setting, name, flags in (
        ("threads_batch", "threads_batch", ("--threads-batch",)),
        ("cache_type_k", "key_type", ("--cache-type-k",)),
        ("cache_type_v", "value_type", ("--cache-type-v",)),
        ("flash_attn", "flash_attention", ("--flash-attn",)),
        ("gpu_layers", "gpu_layers", ("--gpu-layers", "--n-gpu-layers")),
        ("main_gpu", "main_gpu", ("--main-gpu",)),
    ):
        value = getattr(engine, name)
        if value != getattr(plain, name):
            yield setting, flags, (str(value),)
    if not engine.kv_offload:
        yield "kv_offload", ("--no-kv-offload",), ()
    if engine.mmap != "auto":
        yield "mmap", ("--mmap" if engine.mmap == "on" else "--no-mmap",), ()
    if engine.mlock:
        yield "mlock", ("--mlock",), ()
    if engine.projector:
        yield "projector", ("--mmproj",), (engine.projector.path,)
    for adapter in engine.adapters:
        yield _adapter(adapter, help_text)


def _adapter(adapter: ExtraFile, help_text: str) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    if adapter.scale == 1:
        return "adapters", ("--lora",), (adapter.path,)
    scale = f"{adapter.scale:g}"
    joined = JOINED_SCALE.search(help_text) is not None
    values = (f"{adapter.path}:{scale}",) if joined else (adapter.path, scale)
    return "adapters", ("--lora-scaled",), values


def _chosen(
    setting: str, flags: tuple[str, ...], values: tuple[str, ...], known: frozenset[str]
) -> tuple[str, ...]:
    flag = next((flag for flag in flags if flag in known), None)
    if flag is None:
        message = f"The setting {setting} needs {flags[0]}, which this llama-server does not know."
        raise fail("load_failed", message)
    return (flag, *values)


def _own(arguments: Sequence[str], help_text: str) -> tuple[str, ...]:
    """Check arguments that somebody has written: flags that the program knows, none reserved."""
    names = _aliases(help_text)
    for argument in arguments:
        if not argument.startswith("-") or _is_number(argument):
            continue
        found = names.get(argument)
        if found is None:
            raise _refused(argument, "is not known to this llama-server")
        if found & RESERVED:
            raise _refused(argument, "is not for llama_args: roost or a setting of its own says it")
    if arguments and not arguments[0].startswith("-"):
        raise _refused(arguments[0], "is the value of no argument")
    return tuple(arguments)


def _aliases(help_text: str) -> dict[str, frozenset[str]]:
    """Find all names of each flag: those that begin a line of the help together."""
    found: dict[str, frozenset[str]] = {}
    for line in _LINE.findall(help_text):
        names = frozenset(_FLAG.findall(line))
        for name in names:
            found[name] = found.get(name, frozenset()) | names
    return found


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-\d+(\.\d+)?", text) is not None


def _refused(argument: str, why: str) -> RoostError:
    return fail("load_failed", f"The argument {argument[:60]!r} of llama_args {why}.")
