"""WIRING: `roost estimate`: what memory a model would take, before it is loaded."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, cast

from roost.cli import options
from roost.text.screen import in_one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roost.config import Settings
    from roost.core.footprint import Footprint
    from roost.core.kv import CacheType, KvPlan
    from roost.core.model import Manifest

DESCRIPTION = """\
Say what memory MODEL, an installed one, a file or hf:ORG/REPO[/FILE], would take with --slots
conversations of --ctx tokens each: weights, KV cache and workspace, as llama.cpp allocates them.
Once the model has run here, what its process was seen to take is said as well, and is what counts.
Nothing is loaded, and of a model on the hub nothing but its header is fetched. What is not known of
an architecture is said to be unknown.
"""
MEMORY = Path("/proc/meminfo")


def main(arguments: list[str]) -> int:
    """Print the estimate; 1 where it is known not to fit."""
    kept = ("cache_type_k", "cache_type_v")
    names = ("ctx", "slots", "batch", "threads", *kept, "hub.", "offline")
    parser = options.parser("estimate", DESCRIPTION, names)
    parser.add_argument("model", metavar="MODEL", help="its name, a GGUF file or folder, or hf:…")
    parser.add_argument("--file", default="", metavar="NAME", help="which of several, as for pull")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parsed = parser.parse_args(arguments)
    from roost.core.footprint import footprint_of
    from roost.core.kv import KvPlan
    from roost.core.model import ctx_within

    settings = options.load(parsed).settings
    model = _model(settings, parsed.model, parsed.file)
    ctx = ctx_within(settings.ctx, model.ctx_train)
    types = cast("list[CacheType]", [getattr(settings, name) for name in kept])
    plan = KvPlan(ctx, settings.slots, settings.batch, *types)
    found, free = footprint_of(model, plan), available_bytes(MEMORY)
    seen = _seen(settings, model, plan, found)
    if parsed.json:
        facts = {"plan": plan, "footprint": found, "expected_bytes": seen, "available_bytes": free}
        options.print_json(facts)
    else:
        for line in lines(model, plan, found, free, seen):
            print(line)
    total = found.total_bytes if seen is None else seen
    return 1 if total and free is not None and total > free else 0


def _seen(settings: Settings, model: Manifest, plan: KvPlan, found: Footprint) -> int | None:
    """Say what a runtime will take by what was seen of such runtimes here, if one has run."""
    from roost.core.engine import Engine
    from roost.core.model import RuntimeKey, RuntimeOptions
    from roost.store.calibration import Calibration, expected_bytes

    known = Calibration(options.open_home(settings)).all()
    mine = [one for one in known if one.digest == model.digest]
    if not mine:
        return None
    threads = settings.threads
    engine = Engine(key_type=plan.key_type, value_type=plan.value_type)
    asked = RuntimeOptions(plan.ctx, plan.slots, plan.batch, threads, engine)
    key = RuntimeKey(mine[-1].backend, model.id, model.digest, asked)
    return expected_bytes(mine, key, found.total_bytes)


def _model(settings: Settings, name: str, file: str) -> Manifest:
    from roost.store.models.describing import preview
    from roost.store.models.registry import ModelStore

    if name.startswith("hf:"):
        return _on_hub(settings, name, file)
    store = ModelStore(options.open_home(settings))
    path = Path(name)
    if name not in store.ids() and path.exists():
        return preview(path, file)
    return store.get(name)


def _on_hub(settings: Settings, name: str, file: str) -> Manifest:
    from roost.cli.parts.pulling import pull_settings
    from roost.store.pulling.preview import preview_hub
    from roost.store.pulling.sources import HfSource, parse_source

    source = parse_source(name)
    assert isinstance(source, HfSource), "an hf: source is one of the hub"
    return preview_hub(source, file, pull_settings(settings))


def lines(
    model: Manifest, plan: KvPlan, found: Footprint, free: int | None, seen: int | None = None
) -> Iterator[str]:
    """Say it for people; `seen` is what such a runtime will take by what was measured here."""
    yield f"{in_one_line(model.id)}: {plan.slots} slots of {plan.ctx} tokens"
    token = f"  {options.human_bytes(found.kv_token_bytes)} a token" if found.kv_token_bytes else ""
    yield f"  weights    {_bytes(found.weights_bytes)}"
    yield f"  KV cache   {_bytes(found.kv_bytes)}{token}"
    yield f"  workspace  {_bytes(found.workspace_bytes)}  for steps of {plan.batch} tokens"
    total = found.total_bytes if seen is None else seen
    verdict = _verdict(total, free)
    if seen is None:
        yield f"  together   {_bytes(total)}  {verdict}".rstrip()
        return
    yield f"  together   {_bytes(found.total_bytes)}"
    yield f"  measured   {_bytes(seen)}  with all that its process takes; {verdict}".rstrip("; ")


def _verdict(total: int | None, free: int | None) -> str:
    if free is None:
        return ""
    have = f"{options.human_bytes(free)} are free"
    if total is None:
        return have
    return f"fits: {have}" if total <= free else f"does not fit: {have}; lower --ctx or --slots"


def _bytes(size: int | None) -> str:
    return f"{'unknown' if size is None else options.human_bytes(size):>10}"


def available_bytes(table: Path) -> int | None:
    """Read how much memory programs can still have; None where the system does not say."""
    try:
        text = table.read_text("ascii", "replace")
    except OSError:
        return None
    found = re.search(r"^MemAvailable:\s+(\d+) kB$", text, re.MULTILINE)
    return int(found[1]) * 1024 if found else None
