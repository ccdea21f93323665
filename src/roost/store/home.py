"""SHELL: ROOST_HOME: its folders, this process's node id, secrets, and records of what is running.

    models/<id>/     model files that roost owns        manifests/<id>.json  what is installed
    downloads/       unfinished pulls                   locks/               names to lock
    nodes/<n>/       one folder per node process: `lock` is held while it runs, `id` outlives it
    instances/       one file per listening process, locked by it while it lives
    gateway.json     how often a gateway has been started
    secrets/             what no one else may read: tls.pem, keys that sign
    logs/, roost.db, certificate.pem
    runtime-state/v1/<node>/   conversations that outlive their node (`store.shelved`)

Several processes may share one ROOST_HOME. Whether another one is alive is asked of the locks that
it holds, never of its pid: a pid may have been given to somebody else meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from roost.core.fence import Life
from roost.core.ids import NodeId
from roost.errors import fail
from roost.store.files import lock_now, locked, publish, sync, translated, write_atomic

MAX_NODES = 1024
"""Node processes that may share one ROOST_HOME at a time."""

_FOLDERS = (
    "models",
    "manifests",
    "downloads",
    "locks",
    "logs",
    "nodes",
    "secrets",
    "instances",
)
_NODE_ID = re.compile(r"node-[0-9a-f]{12}")
_GATEWAY_ID = re.compile(r"gateway-[0-9a-f]{12}")
_SECRET_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}")
_SECRET_BYTES = 32


class Instance(msgspec.Struct, frozen=True):
    """A running process that listens: where client verbs find it, and its process id.

    `fingerprint` is that of the certificate by which it is known, where this home has made it.
    """

    url: str
    pid: int
    fingerprint: str = ""


class Held:
    """Something of ROOST_HOME that this process holds; let go by `close`, `with`, or its end."""

    def __init__(self, descriptor: int, record: Path | None = None) -> None:
        self._descriptor: int | None = descriptor
        self._record = record

    def close(self) -> None:
        """Let go; removes the record, if there is one. Calling it again does nothing."""
        if self._descriptor is None:
            return
        if self._record is not None:
            self._record.unlink(missing_ok=True)
        os.close(self._descriptor)
        self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Home:
    """The folder ROOST_HOME names. `open` makes what is missing."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.models = root / "models"
        self.manifests = root / "manifests"
        self.downloads = root / "downloads"
        self.locks = root / "locks"
        self.logs = root / "logs"
        self.nodes = root / "nodes"
        self.secrets = root / "secrets"
        self.instances = root / "instances"
        self.database = root / "roost.db"
        self.lives = root / "gateway.json"

    @classmethod
    def open(cls, root: Path) -> Home:
        """Make ROOST_HOME and its folders, readable by their owner alone; raises `storage_error`.

        A folder that exists keeps its mode, except `secrets`, which is closed to others.
        """
        home = cls(root.expanduser().absolute())
        with translated():
            home.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            for name in _FOLDERS:
                (home.root / name).mkdir(mode=0o700, exist_ok=True)
            home.secrets.chmod(0o700)
        return home

    def claim_node(self) -> tuple[NodeId, Held]:
        """Take the first node identity that no live process has, or make a new one.

        So two processes that share ROOST_HOME differ, and one that starts again is itself again.
        The identity is held until the second value is closed. Raises `storage_error`.
        """
        with translated():
            for number in range(MAX_NODES):
                folder = self.nodes / str(number)
                folder.mkdir(mode=0o700, exist_ok=True)
                descriptor = lock_now(folder / "lock")
                if descriptor is not None:
                    return _node_id(folder / "id"), Held(descriptor)
        raise fail("storage_error", f"{MAX_NODES} nodes already share this ROOST_HOME.")

    def begin_life(self) -> Life:
        """Count the start of a gateway: no other start has, or will have, the same value.

        The number is on disk before it is used, so it rises whatever is killed when. A damaged
        record begins a new series under a new id. Raises `storage_error`.
        """
        with translated(), locked(self.locks / "gateway"):
            before = _last_life(self.lives)
            life = Life(before.gateway, before.generation + 1)
            write_atomic(self.lives, msgspec.json.encode(life))
        return life

    def secret(self, name: str) -> bytes:
        """Return the 32 random bytes kept under `name`, made when first asked for; mode 0600."""
        if not _SECRET_NAME.fullmatch(name):
            raise ValueError(f"not a name for a secret: {name!r}")
        path = self.secrets / name
        with translated():
            made = self.secrets / f".{name}.{secrets.token_hex(8)}"
            if not path.exists():
                write_atomic(made, secrets.token_bytes(_SECRET_BYTES))
                # A link, unlike a rename, fails if another process was quicker: first one wins.
                with contextlib.suppress(FileExistsError):
                    path.hardlink_to(made)
                made.unlink()
            content = path.read_bytes()
        if len(content) != _SECRET_BYTES:
            raise fail("storage_error", f"The secret {name} is damaged. Remove it and start again.")
        return content

    def record_instance(self, url: str, pid: int | None = None, fingerprint: str = "") -> Held:
        """Record that this process listens at `url`, until the returned value is closed.

        The record also ends with this process. `pid` is this process's own unless told otherwise.
        `fingerprint`: see `Instance`.
        """
        # Whoever was killed could not remove its record; whoever comes next does.
        self.running_instances()
        pid = os.getpid() if pid is None else pid
        name = f"{pid}-{secrets.token_hex(4)}"
        hidden = self.instances / f".{name}"
        final = self.instances / f"{name}.json"
        with translated():
            # Locked before it has its name, so that nobody can take it for a dead one's.
            descriptor = lock_now(hidden)
            if descriptor is None:
                raise fail("internal", "A record of this process exists already.")
            os.write(descriptor, msgspec.json.encode(Instance(url, pid, fingerprint)))
            sync(descriptor)
            publish(hidden, final)
        return Held(descriptor, final)

    def running_instances(self) -> list[Instance]:
        """List the processes that listen now, newest first; records of dead ones are removed."""
        found: list[tuple[int, Instance]] = []
        with translated():
            for path in self.instances.glob("[!.]*.json"):
                with contextlib.suppress(FileNotFoundError):
                    found += _live(path)
        found.sort(key=lambda pair: pair[0], reverse=True)
        return [instance for _, instance in found]

    def running_instance(self) -> Instance | None:
        """Return the process that began to listen last and still does, if any."""
        return next(iter(self.running_instances()), None)


def _last_life(path: Path) -> Life:
    """Read the newest start on record; before the first one there is number 0 of a new id."""
    with contextlib.suppress(FileNotFoundError, msgspec.MsgspecError):
        kept = msgspec.json.decode(path.read_bytes(), type=Life)
        if _GATEWAY_ID.fullmatch(kept.gateway) and kept.generation > 0:
            return kept
    return Life(f"gateway-{secrets.token_hex(6)}", 0)


def _node_id(path: Path) -> NodeId:
    """Read the identity kept at `path`; a missing or damaged one is replaced by a new one."""
    if path.exists():
        kept = path.read_text("utf-8", "replace").strip()
        if _NODE_ID.fullmatch(kept):
            return NodeId(kept)
    made = f"node-{secrets.token_hex(6)}"
    write_atomic(path, made.encode())
    return NodeId(made)


def _live(path: Path) -> list[tuple[int, Instance]]:
    """Read one record with its age in ns; empty, and the record gone, if its writer is dead."""
    modified = path.stat().st_mtime_ns
    # Shared, so that two who look at a dead one's record do not take each other for its writer.
    descriptor = lock_now(path, shared=True)
    if descriptor is None:
        with contextlib.suppress(msgspec.MsgspecError):
            return [(modified, msgspec.json.decode(path.read_bytes(), type=Instance))]
        return []
    path.unlink(missing_ok=True)
    os.close(descriptor)
    return []
