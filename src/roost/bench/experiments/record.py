"""VALUE: the file of one run: what was asked, where and when, and everything that was seen."""

from __future__ import annotations

import msgspec

from roost.bench.load.machine import Environment

FORM = 1


class Record(msgspec.Struct, frozen=True):
    """One run of an experiment; `seen` is its own business.

    `model` is the file of the real model and its SHA-256, "" where none was needed.
    """

    experiment: str
    command: str
    plan: dict[str, object]
    environment: Environment
    model: str
    wall_s: float
    held: dict[str, str]
    seen: msgspec.Raw
    form: int = FORM


def written(record: Record) -> bytes:
    """Return the file."""
    return msgspec.json.encode(record) + b"\n"


def read(raw: bytes) -> Record:
    """Read a file; `ValueError` for one that is none or of another form."""
    record = msgspec.json.decode(raw, type=Record)
    if record.form != FORM:
        raise ValueError(f"a record of form {record.form}, and not {FORM}")
    return record
