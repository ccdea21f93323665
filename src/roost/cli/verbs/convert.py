"""WIRING: `roost convert`: an installed model written as another engine reads it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from roost.cli import options
from roost.errors import fail

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from roost.core.model import Manifest
    from roost.store.home import Home
    from roost.store.models.registry import ModelStore

DESCRIPTION = """\
Write MODEL as another engine reads it, and install that under a name of its own.

To safetensors: an installed GGUF becomes a folder with its tokeniser and chat template,
MODEL-safetensors. The weights take four bytes each, and are no better than they were. It needs
Transformers, and as much memory as the folder has bytes, twice.

To onnx: such a folder, or a GGUF by way of one, becomes a folder for ONNX GenAI,
MODEL-onnx-PRECISION, for the processor or the device that --for names.

A conversion is done once: a folder that was made of the same model in the same way, and is as it
was made, is used again.
"""
SAFETENSORS = "roost.backends.libraries.transformers_engine"
BUILDER = "onnxruntime_genai.models.builder"
NEEDED = ("onnxruntime_genai", "onnx", "onnx_ir", "torch", "transformers")
AS_SAFETENSORS = "-safetensors"
PART = ".part"
PRECISIONS = ("int4", "int8", "fp16", "bf16", "fp32")
DEVICES = ("cpu", "cuda", "dml", "webgpu")
TIMEOUT_S = 3600
WHY_CHARS = 300


class Step(NamedTuple):
    """One conversion: what it makes a model of, called `name`, and how, `recipe`, "" for one way.

    `argv` gives the program, for a model, the folder that it makes, and one that it may litter;
    `made_with` says what that is, or raises `load_failed` with what to type.
    """

    name: str
    recipe: str
    argv: Callable[[Manifest, Path, Path], tuple[str, ...]]
    made_with: Callable[[], str]


def main(arguments: list[str]) -> int:
    """Convert and install, or say that it has been done."""
    parser = options.parser("convert", DESCRIPTION, ())
    parser.add_argument("model", metavar="MODEL", help="the name of an installed model")
    parser.add_argument("--to", choices=("safetensors", "onnx"), default="safetensors")
    parser.add_argument("--precision", choices=PRECISIONS, help="of onnx; otherwise int4")
    parser.add_argument("--for", dest="device", choices=DEVICES, help="of onnx; otherwise cpu")
    parser.add_argument("--out", metavar="DIR", help="where to; otherwise in ROOST_HOME/converted")
    parsed = parser.parse_args(arguments)
    if parsed.to != "onnx" and (parsed.precision or parsed.device):
        parser.error("--precision and --for are of --to onnx")
    from roost.store.models.registry import ModelStore

    home = options.open_home(options.load(parsed).settings)
    with _alone(home):
        _convert(ModelStore(home), parsed)
    return 0


def _convert(store: ModelStore, parsed: argparse.Namespace) -> None:
    source = store.get(parsed.model)
    out = Path(parsed.out).absolute() if parsed.out else None
    if parsed.to == "safetensors":
        if source.format != "gguf":
            raise fail("bad_request", f"{source.id} is no GGUF.", param="model")
        _made(store, source, _to_safetensors(source), out)
        return
    if source.format not in {"gguf", "safetensors"}:
        message = f"{source.id} is neither a GGUF nor a folder of safetensors."
        raise fail("bad_request", message, param="model")
    step = _to_onnx(source, parsed.precision or "int4", parsed.device or "cpu")
    if source.format == "gguf":
        # Whatever is missing is said before the first of two steps has taken its time.
        step.made_with()
        source = _made(store, source, _to_safetensors(source), None)
    _made(store, source, step, out)


def _to_safetensors(source: Manifest) -> Step:
    def argv(model: Manifest, part: Path, _litter: Path) -> tuple[str, ...]:
        return (SAFETENSORS, model.path, str(part))

    return Step(f"{source.id}{AS_SAFETENSORS}", "", argv, _safetensors_with)


def _safetensors_with() -> str:
    from roost.backends.libraries.transformers import LIBRARY
    from roost.backends.looking import library_found

    found = library_found(LIBRARY)
    if not found.usable:
        message = f"{LIBRARY.title} is not installed. Type: {found.command}"
        raise fail("load_failed", message)
    return f"transformers {found.version}"


def _to_onnx(source: Manifest, precision: str, device: str) -> Step:
    def argv(model: Manifest, part: Path, litter: Path) -> tuple[str, ...]:
        folder = str(Path(model.path).parent)
        how = ("-p", precision, "-e", device, "-c", str(litter))
        return (BUILDER, "-i", folder, "-o", str(part), *how)

    name = f"{source.id.removesuffix(AS_SAFETENSORS)}-onnx-{precision}"
    where = "" if device == "cpu" else f"-{device}"
    return Step(f"{name}{where}", f"{precision} {device}", argv, _onnx_with)


def _onnx_with() -> str:
    from importlib.metadata import version
    from importlib.util import find_spec

    from roost.backends.install import install_command

    if not all(map(find_spec, NEEDED)):
        what = "What makes models for ONNX GenAI is not installed."
        raise fail("load_failed", f"{what} Type: {install_command('onnx-convert')}")
    return ", ".join(f"{name} {version(name)}" for name in ("onnxruntime-genai", "transformers"))


def _made(store: ModelStore, source: Manifest, step: Step, out: Path | None) -> Manifest:
    """Make what is not there yet, install it, and say so."""
    folder = out or store.home.root / "converted" / step.name
    made = _written(store.home, source, step, folder)
    installed = store.add_file(folder, link=True)
    print(f"{installed.id} {'made' if made else 'was made before'} in {folder}")
    return installed


def _written(home: Home, source: Manifest, step: Step, folder: Path) -> bool:
    """Make the folder unless it is there; raises `bad_request` for one that is something else."""
    from roost.store.models.converted import discard, seal, state_of

    origin = f"{source.digest} {step.recipe}".strip()
    state = state_of(folder, origin)
    if state == "whole":
        return False
    if state != "missing":
        said = "was made of another model" if state == "other" else "is not as it was made"
        message = f"The folder {said}. Remove it, or name another one with --out."
        raise fail("bad_request", message, param="out")
    made_with = step.made_with()
    folder.parent.mkdir(parents=True, exist_ok=True)
    for left in folder.parent.glob(f".{folder.name}-*{PART}"):
        # Whoever was making it was killed: nobody else is at work while we are.
        discard(left)
    part = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}{PART}")
    litter = part.with_name(f"{part.name}{PART}")
    try:
        print(f"converting {source.id} to {step.name} …", file=sys.stderr)
        argv = (sys.executable, "-P", "-m", *step.argv(source, part, litter))
        log = home.logs / f"{step.name}.convert.log"
        log.unlink(missing_ok=True)
        asyncio.run(_run(argv, log))
        seal(part, folder, origin, made_with)
    finally:
        discard(part)
        discard(litter)
    return True


async def _run(argv: tuple[str, ...], log: Path) -> None:
    """Run to the end, in a process that does not outlive this one; raises `load_failed`."""
    from roost.backends.processes.child import Program, start

    child = await start(Program(argv, str(log), logs_kept=0))
    try:
        async with asyncio.timeout(TIMEOUT_S):
            await child.died.wait()
    except TimeoutError:
        raise fail("load_failed", "The conversion took too long.") from None
    finally:
        child.kill()
        await child.reaped()
    if child.status:
        last = "".join(child.tail(1)).strip()[:WHY_CHARS]
        print(f"all that was said is in {log}", file=sys.stderr)
        raise fail("load_failed", f"The model cannot be converted: {last}")


@contextlib.contextmanager
def _alone(home: Home) -> Iterator[None]:
    """Be the only one who converts in this ROOST_HOME."""
    from roost.store.files import lock_now

    lock = lock_now(home.locks / "convert")
    if lock is None:
        message = "Another conversion is under way in this ROOST_HOME. Wait until it has ended."
        raise fail("bad_request", message)
    try:
        yield
    finally:
        os.close(lock)
