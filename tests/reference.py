"""Reference pages that are written from code: `python -m tests.reference` writes them anew."""

from __future__ import annotations

import re
from collections.abc import Callable

from roost.backends.registry import CLASSES, NAMES, traits
from roost.config.show import reference_markdown
from roost.config.table import TABLE
from roost.core.conformance import NOT_RUN, PROMISES, read_runs, tried
from roost.errors import REASONS, Fault
from roost.observe.names import EVENTS, METRICS
from tests.commands import Command, Entry, commands, described
from tests.source import ROOT
from tests.system1_names import EVENT_TWINS, METRIC_TWINS, Twin

_INTRODUCTION = """\
# Errors

Written by `make docs` from the catalogue in `src/roost/errors.py`.

Every failure has one reason from these tables, in the reply, in the receipt and in the metrics.
The status is the one before a dialect translates it.
"retry" says whether the same request may succeed later or elsewhere.
"""

_WHO = {
    Fault.CALLER: "whoever sent the request has to change it",
    Fault.CAPACITY: "nobody is at fault: come back later",
    Fault.PEER: "a node, a runtime or an upstream server failed",
    Fault.OURS: "a defect in roost: please report it",
}


def errors_markdown() -> str:
    """Render the catalogue of failures, one table per fault."""
    parts = [_INTRODUCTION]
    for fault in Fault:
        parts.append(f"\n## {fault.value}: {_WHO[fault]}\n\n")
        parts.append("| reason | status | retry | meaning | what to do |\n|---|---|---|---|---|\n")
        for reason, kind in REASONS.items():
            if kind.fault is fault:
                retry = "yes" if kind.retryable else "no"
                parts.append(
                    f"| `{reason}` | {kind.status} | {retry} | {kind.meaning} | {kind.remedy} |\n"
                )
    return "".join(parts)


_OBSERVED = """\
# Metrics and log events

Written by `make docs` from `src/roost/observe/names.py`.

`GET /metrics` gives the metrics as Prometheus text; names that end in `_seconds` are histograms.
Where keys exist, what has the label `tenant` is told to keys of the role admin alone.
Logs go to stderr: human lines on a terminal, JSON otherwise (`--log-format`, `--log-level`).
Prompts, completions and keys are in neither.

| metric | shape | labels | meaning |
|---|---|---|---|
"""


def observed_markdown() -> str:
    """Render the list of metrics and the list of log events."""
    rows = [f"| `{m.name}` | {m.shape} | {', '.join(m.labels)} | {m.meaning} |\n" for m in METRICS]
    events = [f"| `{event}` | {meaning} |\n" for event, meaning in EVENTS.items()]
    named = [_NAMED, *_twins("event", EVENT_TWINS), *_twins("metric", METRIC_TWINS)]
    return "".join([_OBSERVED, *rows, "\n| event | meaning |\n|---|---|\n", *events, *named])


_NAMED = """
## Names of system 1

Whoever knows system 1 by its log finds here which line or metric of roost says the same.
`request` is in every line of a request on its way, at the gateway and at its node; `session` is in
those of conversations, and `node` once one was chosen. What `session` names is a word made of a
secret of the gateway's: the same in all its lines, and nobody can tell from it what was said.
Lines of a single request are written at level `debug`, but for its end, its client's slowness and
what went wrong.
"""


def _twins(what: str, twins: dict[str, Twin]) -> list[str]:
    head = f"\n| {what} of system 1 | ours | told apart by |\n|---|---|---|\n"
    return [head, *(f"| `{name}` | `{twin.ours}` | {twin.by} |\n" for name, twin in twins.items())]


_CAPABILITIES = """\
# What each backend was seen to do

Written by `make docs` from `src/roost/core/conformance.json`.
That is written by `python -m tests.record`, which runs the conformance suite on the backends that
can be run where it is called.
`GET /roost/v1/capabilities` says the same of the backends that a fleet has.

A promise passes where every case of it did; `pass (2 of 5)` is all that the backend claims or the
model allows, and the rest is named below.
What is not claimed is refused as `unsupported`. What was not run is not marked.

"""

_CLASSES = """
## Who owns what

For each class of backends, and what a build does that only calls the engine.

| class | backends | residency | requests of one model | batching | KV | cancelling | naive |
|---|---|---|---|---|---|---|---|
"""


def capabilities_markdown() -> str:
    """Render what was recorded of the conformance suite, and what classes of backends there are."""
    runs = read_runs((ROOT / "src/roost/core/conformance.json").read_bytes())
    names = tuple(PROMISES.values())
    parts = [_CAPABILITIES, f"| backend | {' | '.join(names)} |\n|{'---|' * (len(names) + 1)}\n"]
    shown = tried(runs, {one.name: one.capabilities.claimed for one in traits()})
    for one in shown:
        cells = " | ".join(one.promises[name] for name in names)
        parts.append(f"| `{one.backend}` | {cells} |\n")
    parts.append("\n## The runs\n\n| backend | date | with | versions | machine | not kept |\n")
    parts.append("|---|---|---|---|---|---|\n")
    for one in shown:
        run = runs.get(one.backend)
        if run is None:
            parts.append(f"| `{one.backend}` | {NOT_RUN} | | | | |\n")
            continue
        rest = ", ".join(f"{c.name} ({c.status})" for c in run.cases if c.status != "kept")
        facts = f"{one.date} | {one.subject} | {one.versions} | {one.machine}"
        parts.append(f"| `{one.backend}` | {facts} | {rest} |\n")
    parts.append(_CLASSES)
    for kind in dict.fromkeys(CLASSES[name] for name in NAMES):
        mine = ", ".join(f"`{name}`" for name in NAMES if CLASSES[name] == kind)
        words = (kind.residency, kind.overlap, kind.batching, kind.kv, kind.cancel, kind.naive)
        parts.append(f"| {kind.name} | {mine} | {' | '.join(words)} |\n")
    return "".join(parts)


_COMMANDS = """\
# Every command

Written by `make docs` from what `roost VERB --help` says.

Settings are flags of every verb that heeds them: [settings.md](../settings.md) has what they mean.

Exit codes: 0 done; 1 it did not work; 2 the command line or a setting is wrong; 130 interrupted;
143 a second TERM, or the end of the grace.
"""
_SETTINGS_MAX = 20
"""More settings of a verb are a list for its own help."""
_SIGNATURE_MAX = 60


def commands_markdown() -> str:
    """Render every verb with what it is for, its words and its flags."""
    parts = [_COMMANDS, "\n| command | what it is for |\n|---|---|\n"]
    for name in commands():
        anchor = f"roost {name}".replace(" ", "-")
        parts.append(f"| [`roost {name}`](#{anchor}) | {_cell(described(name))} |\n")
    for command in commands().values():
        parts.append(f"\n## roost {command.name}\n\n{_prose(command.description)}\n")
        parts.append(_command_table(command))
    return "".join(parts)


def _command_table(command: Command) -> str:
    flags = {row.flag: row.name for row in TABLE}
    rows, settings = [], []
    for entry in command.entries:
        known = [flags[flag] for flag in sorted(entry.flags) if flag in flags]
        settings += known
        if not known and not entry.flags & {"--help", "--config"}:
            rows.append(f"| `{_signature(entry)}` | {_cell(entry.told)} |\n")
    table = "\n| word or flag | meaning |\n|---|---|\n" + "".join(rows) if rows else ""
    if len(settings) > _SETTINGS_MAX:
        return f"{table}\nSettings: many; `roost {command.name} --help` lists them.\n"
    told = ", ".join(f"`{name}`" for name in settings)
    return table + (f"\nSettings: {told}.\n" if told else "")


def _signature(entry: Entry) -> str:
    """Write a word or a flag without choices that fill a screen."""
    word = entry.word if len(entry.word) <= _SIGNATURE_MAX else entry.word.partition(" {")[0]
    return word.replace("|", "\\|")


def _prose(text: str) -> str:
    """Begin each sentence on a line of its own."""
    return re.sub(r"(?<=[\w`)\]][.]) (?=\S)", "\n", text)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


PAGES: dict[str, Callable[[], str]] = {
    "docs/capabilities.md": capabilities_markdown,
    "docs/errors.md": errors_markdown,
    "docs/guide/commands.md": commands_markdown,
    "docs/observe.md": observed_markdown,
    "docs/settings.md": reference_markdown,
}

if __name__ == "__main__":
    for path, page in PAGES.items():
        (ROOT / path).write_text(page(), "utf-8")
