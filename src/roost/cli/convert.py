"""WIRING: `roost convert`: a GGUF as a folder of safetensors, for engines that read those."""

from __future__ import annotations

import secrets
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from roost.cli import options
from roost.errors import fail

if TYPE_CHECKING:
    from roost.core.model import Manifest

DESCRIPTION = """\
Write MODEL, an installed GGUF, as a folder of safetensors with its tokeniser and chat template, and
install that as MODEL-safetensors. It is done once: a folder that was made of the same file and is
as it was made is used again. The weights take four bytes each, and are no better than they were.
It needs Transformers and as much memory as the folder has bytes, twice.
"""
ENGINE = "roost.backends.transformers_engine"
TIMEOUT_S = 3600


def main(arguments: list[str]) -> int:
    """Convert and install, or say that it has been done."""
    parser = options.parser("convert", DESCRIPTION, ())
    parser.add_argument("model", metavar="MODEL", help="the name of an installed GGUF")
    parser.add_argument("--out", metavar="DIR", help="where to; otherwise in ROOST_HOME/converted")
    parsed = parser.parse_args(arguments)
    from roost.store.models import ModelStore

    home = options.open_home(options.load(parsed).settings)
    store = ModelStore(home)
    manifest = store.get(parsed.model)
    if manifest.format != "gguf":
        raise fail("bad_request", f"{manifest.id} is no GGUF.", param="model")
    name = f"{manifest.id}-safetensors"
    folder = Path(parsed.out).absolute() if parsed.out else home.root / "converted" / name
    made = _converted(manifest, folder)
    installed = store.add_file(folder, link=True)
    print(f"{installed.id} {'made' if made else 'was made before'} in {folder}")
    return 0


def _converted(manifest: Manifest, folder: Path) -> bool:
    """Make the folder unless it is there; raises `bad_request` for one that is something else."""
    from roost.store.converted import discard, seal, state_of

    state = state_of(folder, manifest.digest)
    if state == "whole":
        return False
    if state != "missing":
        said = "was made of another model" if state == "other" else "is not as it was made"
        message = f"The folder {said}. Remove it, or name another one with --out."
        raise fail("bad_request", message, param="out")
    made_with = _made_with()
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = folder.with_name(f".{folder.name}-{secrets.token_hex(4)}")
    try:
        _run(manifest, part)
        seal(part, folder, manifest.digest, made_with)
    finally:
        discard(part)
    return True


def _made_with() -> str:
    """Name what converts; raises `load_failed` with the command that installs it."""
    from roost.backends.looking import library_found
    from roost.backends.transformers import LIBRARY

    found = library_found(LIBRARY)
    if not found.usable:
        message = f"{LIBRARY.title} is not installed. Type: {found.command}"
        raise fail("load_failed", message)
    return f"transformers {found.version}"


def _run(manifest: Manifest, part: Path) -> None:
    print(f"converting {manifest.id} …", file=sys.stderr)
    # In a process of its own, as everything that such libraries do.
    argv = [sys.executable, "-P", "-m", ENGINE, manifest.path, str(part)]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise fail("load_failed", "The conversion took too long.") from None
    if done.returncode:
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise fail("load_failed", f"The model cannot be converted: {''.join(last)[:300]}")
