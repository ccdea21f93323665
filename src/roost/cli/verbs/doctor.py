"""WIRING: `roost doctor`: is this machine fit to serve, and what to do where it is not."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from roost.cli import options

if TYPE_CHECKING:
    from roost.cli.doctoring.facts import Facts, ProbeFacts
    from roost.cli.doctoring.findings import Finding
    from roost.config import Settings

DESCRIPTION = """\
Look at this machine: processor, memory and its bandwidth, limits, accelerators, every backend,
ROOST_HOME, the port, the clock, the settings and the installed models; say what is wrong and what
to do. Nothing is changed and no model is loaded, unless --probe asks for one token from every
installed model. Exit code 1 where there is a problem.
"""
SETTINGS = ("host", "port", "backend", "llama_server", "connections_max", "threads", "ctx", "slots")
MARKS = {"ok": " ", "note": "~", "problem": "!"}


def main(arguments: list[str]) -> int:
    """Print what was found; 1 where there is a problem."""
    parser = options.parser("doctor", DESCRIPTION, (*SETTINGS, "runtime.start_timeout_s"))
    parser.add_argument("--probe", action="store_true", help="load every model for one token")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parsed = parser.parse_args(arguments)
    from roost.cli.doctoring.facts import gather
    from roost.cli.doctoring.findings import findings, is_well
    from roost.cli.parts.meaning import examined

    # Wrong settings are a finding and not the end: the rest is looked at all the same.
    loaded, faults = examined(vars(parsed))
    facts = gather(loaded.settings, faults, loaded.unknown)
    if parsed.probe:
        facts = _probed(loaded.settings, facts)
    found = findings(facts)
    if parsed.json:
        options.print_json({"ok": is_well(found), "findings": found, "facts": facts})
    else:
        for finding in found:
            print(_line(finding))
    return 0 if is_well(found) else 1


def _line(finding: Finding) -> str:
    from roost.text.screen import in_one_line

    todo = f"\n{'':24}{in_one_line(finding.todo)}" if finding.todo else ""
    about = in_one_line(finding.about)
    return f"{MARKS[finding.level]} {about:<21} {in_one_line(finding.said)}{todo}"


def _probed(settings: Settings, facts: Facts) -> Facts:
    import msgspec

    return msgspec.structs.replace(facts, probes=_probes(settings, facts))


def _probes(settings: Settings, facts: Facts) -> tuple[ProbeFacts, ...]:
    from roost.backends.registry import make
    from roost.cli.doctoring.probe import probe_all
    from roost.store.home import Home
    from roost.store.models.registry import ModelStore

    if not facts.models:
        return ()
    store = ModelStore(Home(Path(settings.home)))
    models = [(store.get(model.id), model) for model in facts.models]
    maker = partial(make, llama_server_path=settings.llama_server)
    return probe_all(models, maker, settings.runtime_start_timeout_s)
