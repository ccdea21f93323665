"""SHELL: the manifest of a model, as its files say it."""

from __future__ import annotations

import time
from pathlib import Path

from roost.core.ids import ModelId
from roost.core.model import Manifest, ModelFile
from roost.store.models.inspection import Progress, digest, inspect, take_stamp
from roost.store.models.naming import candidate_ids
from roost.store.models.places import locate
from roost.store.models.records import digest_of
from roost.store.models.vocabulary import Facts


def preview(path: Path, file: str = "") -> Manifest:
    """Say what a model would be, without reading it through or installing it: it has no digest.

    Raises `bad_request`.
    """
    place = locate(path, file)
    facts = inspect(*place.files)
    size = sum(take_stamp(path).size_bytes for path in place.files)
    return described_as(place.name, facts, size)


def described_as(name: str, facts: Facts, size_bytes: int) -> Manifest:
    """Say what a model of this file name would be; it has no digest, for it was not read."""
    model = candidate_ids(name, facts.name, "sha256:")[0]
    return manifest_of(model, (ModelFile(name, size_bytes, "", 0),), facts)


def files_of(
    paths: tuple[Path, ...], digests: tuple[str, ...], progress: Progress
) -> tuple[ModelFile, ...]:
    """Take down the files of a model; those whose digests are not known are read through."""
    stamps = [take_stamp(path) for path in paths]
    total = sum(stamp.size_bytes for stamp in stamps)
    made: list[ModelFile] = []
    before = 0
    for index, (path, stamp) in enumerate(zip(paths, stamps, strict=True)):
        found = digests[index] if digests else ""
        found = found or digest(path, _shifted(progress, before, total))
        made.append(ModelFile(str(path), stamp.size_bytes, found, stamp.mtime_ns))
        before += stamp.size_bytes
    return tuple(made)


def _shifted(progress: Progress, before: int, total: int) -> Progress:
    """Count the bytes of one file as a part of all."""
    return lambda done, _: progress(before + done, total)


def manifest_of(model: ModelId, files: tuple[ModelFile, ...], facts: Facts) -> Manifest:
    """Put together what its files are and what they say of themselves."""
    return Manifest(
        id=model,
        path=files[0].path,
        size_bytes=sum(file.size_bytes for file in files),
        digest=digest_of(files),
        format=facts.format,
        architecture=facts.architecture,
        ctx_train=facts.ctx_train,
        vocab_size=facts.vocab_size,
        chat_template=facts.chat_template,
        bos=facts.bos,
        eos=facts.eos,
        add_bos=facts.add_bos,
        control_tokens=facts.control_tokens,
        max_token_bytes=facts.max_token_bytes,
        kv=facts.kv,
        created_unix_s=int(time.time()),
        files=files,
        tasks=facts.tasks,
        weight_bytes=facts.weight_bytes,
        widths=facts.widths,
        remote=facts.remote,
        vector_sizes=facts.vector_sizes,
    )
