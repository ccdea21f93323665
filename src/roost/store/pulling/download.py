"""SHELL: fetches a file into a `.part`, goes on where an earlier attempt ended, checks its digest.

An interruption of any kind (cut connection, full disk, kill) leaves the part file and a note beside
it that says what it is a part of; the next call asks for the rest. A file whose digest is wrong is
removed, since nobody can tell which of its bytes are.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from pathlib import Path
from typing import BinaryIO, Protocol

import msgspec

from roost.errors import RoostError, fail
from roost.store.files import require_space, storage_error, sync, translated, write_atomic
from roost.store.models.inspection import CHUNK_BYTES, Progress, ignore
from roost.store.pulling.ranges import Answer, Plan, Saved, can_resume, is_strong, plan
from roost.store.pulling.transfer import BrokenError, Limits, Reply, get


class Want(msgspec.Struct, frozen=True):
    """What to fetch.

    `sha256` in hex, if known beforehand; `token` is for the host of `url` alone.
    With `unpacked` the disk has to hold the file twice: what is packed in it is no shorter.
    """

    url: str
    sha256: str | None = None
    token: str | None = None
    unpacked: bool = False


class Got(msgspec.Struct, frozen=True):
    """A file that has arrived whole: its sha256 in hex and its size."""

    sha256: str
    size_bytes: int


class _Hash(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def hexdigest(self) -> str: ...


def fetch(want: Want, part: Path, limits: Limits, progress: Progress = ignore) -> Got:
    """Fetch a file into `part`, resuming if it can; `discard` the part after use.

    Raises `upstream_error` (network, server, wrong digest), `not_found`, `unauthorized` or
    `storage_error`. All but a wrong digest keep what has arrived.
    """
    failures = 0
    while True:
        before = _length(part)
        try:
            return _attempt(want, part, limits, progress)
        except BrokenError as broken:
            moved = _length(part) - before >= limits.progress_bytes
            failures = 1 if moved else failures + 1
            if failures >= limits.attempts:
                raise _gave_up(broken, kept=_length(part) > 0) from broken
        time.sleep(limits.pause_after_s(failures))


def discard(part: Path) -> None:
    """Remove a part file and the note beside it."""
    part.unlink(missing_ok=True)
    _note(part).unlink(missing_ok=True)


def _gave_up(broken: BrokenError, *, kept: bool) -> RoostError:
    advice = " What has arrived is kept: run the same command to go on." if kept else ""
    return fail("upstream_error", f"The download failed: {broken}. Check the network.{advice}")


def _note(part: Path) -> Path:
    return part.with_name(f"{part.name}.json")


def _length(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0


def _read_note(part: Path) -> Saved | None:
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode(_note(part).read_bytes(), type=Saved)
    return None


def _attempt(want: Want, part: Path, limits: Limits, progress: Progress) -> Got:
    saved = _read_note(part)
    have = _length(part)
    if have and not can_resume(saved, want.url, want.sha256):
        discard(part)
        have, saved = 0, None
    if saved and have and have == saved.total:
        return _finished(part, saved.sha256, progress)
    with get(want.url, _headers(want, have, saved), want.token, limits) as reply:
        answer = _answer(want, reply)
        chosen = plan(answer, have, saved)
        if chosen.step == "complete":
            return _finished(part, _stated_sha256(answer, saved), progress)
        if chosen.step == "store":
            # A part that goes on keeps its digest, also if this answer is silent about it.
            stated = _stated_sha256(answer, saved if chosen.offset else None)
            note = Saved(want.url, stated, answer.etag, chosen.total)
            _check_body(want, part, chosen, reply, limits)
            return _store(reply, part, note, chosen.offset, progress)
    if chosen.step == "again":
        discard(part)
        raise BrokenError("the file on the server has changed")
    raise _refusal(chosen, answer.status)


def _headers(want: Want, have: int, saved: Saved | None) -> dict[str, str]:
    if not have:
        return {}
    headers = {"Range": f"bytes={have}-"}
    if saved and saved.etag and saved.url == want.url and is_strong(saved.etag):
        headers["If-Range"] = saved.etag
    return headers


def _answer(want: Want, reply: Reply) -> Answer:
    return Answer(
        status=reply.status,
        content_range=reply.header("Content-Range"),
        content_length=reply.header("Content-Length"),
        etag=reply.header("ETag"),
        sha256=want.sha256 or reply.named_sha256,
    )


def _refusal(chosen: Plan, status: int) -> RoostError | BrokenError:
    if chosen.step == "retry":
        return BrokenError(f"the server answers with status {status}")
    if chosen.step == "missing":
        return fail("not_found", "The server has no such file. Check the name.")
    if chosen.step == "refused":
        return fail("unauthorized", "The server refuses access. The file may need a token.")
    return fail("upstream_error", f"The server answers with status {status}. Try again later.")


def _stated_sha256(answer: Answer, saved: Saved | None) -> str | None:
    return answer.sha256 or (saved.sha256 if saved else None)


def _check_body(want: Want, part: Path, chosen: Plan, reply: Reply, limits: Limits) -> None:
    if reply.header("Content-Encoding") not in {None, "", "identity"}:
        raise fail("upstream_error", "The server sends the file in another encoding than asked.")
    total = chosen.total
    if total is None:
        raise fail("upstream_error", "The server does not say how long the file is: refused.")
    if total > limits.max_bytes:
        raise fail("upstream_error", "The server's file is larger than any model: refused.")
    require_space(part.parent, total - chosen.offset + total * want.unpacked)


def _store(reply: Reply, part: Path, note: Saved, offset: int, progress: Progress) -> Got:
    """Write the body behind byte `offset` of the part; the bytes before are hashed again."""
    write_atomic(_note(part), msgspec.json.encode(note))
    running = hashlib.sha256()
    try:
        with part.open("r+b" if offset else "wb", buffering=0) as file:
            _hash_from(file, running, offset)
            file.truncate(offset)
            try:
                done = _copy(reply, file, running, note, progress)
            finally:
                sync(file.fileno())
    except OSError as error:
        raise storage_error(error) from error
    if note.total is not None and done < note.total:
        raise BrokenError("the connection was cut")
    return _checked(part, Got(running.hexdigest(), done), note.sha256)


def _copy(reply: Reply, file: BinaryIO, running: _Hash, note: Saved, progress: Progress) -> int:
    done = file.tell()
    progress(done, note.total)
    while chunk := reply.read(CHUNK_BYTES):
        running.update(chunk)
        rest = memoryview(chunk)
        while rest:
            rest = rest[file.write(rest) :]
        done += len(chunk)
        if note.total is not None and done > note.total:
            raise BrokenError("the server sends more than it announced")
        progress(done, note.total)
    return done


def _hash_from(file: BinaryIO, running: _Hash, length: int) -> None:
    while length > 0 and (chunk := file.read(min(CHUNK_BYTES, length))):
        running.update(chunk)
        length -= len(chunk)


def _finished(part: Path, sha256: str | None, progress: Progress) -> Got:
    """Check a part that has all its bytes already."""
    running = hashlib.sha256()
    size = _length(part)
    with translated(), part.open("rb", buffering=0) as file:
        _hash_from(file, running, size)
    progress(size, size)
    return _checked(part, Got(running.hexdigest(), size), sha256)


def _checked(part: Path, got: Got, sha256: str | None) -> Got:
    if sha256 is not None and got.sha256 != sha256:
        discard(part)
        raise fail(
            "upstream_error",
            "The downloaded file is damaged: its sha256 is not the stated one. "
            "It was removed; run the same command to fetch it again.",
        )
    return got
