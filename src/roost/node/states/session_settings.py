"""VALUE: the limits of what is put aside on a node."""

from __future__ import annotations

import msgspec

from roost.core.about import Persistence


class SessionSettings(msgspec.Struct, frozen=True):
    """Limits of what is put aside on this node.

    `ram_bytes` and `disk_bytes` in files of each kind, 0 bytes of memory for none at all, 0 bytes
    of disk for memory alone. `parked_max` sessions in all. Under `tokens_min` tokens nothing is
    worth a file. After `idle_s` without use a session is forgotten, and after a disk has failed it
    is left alone for `disk_rest_s`. A beginning of `shared_tokens_min` tokens is computed once for
    all who come with it, and who does not compute it waits for it for `shared_wait_s` at most, 0
    for not at all. `persistence` says what outlives its runtime: nothing, what is here as long as
    the node lives, or what is on disk beyond that; when the node ends, no copy is begun after
    `close_s`.
    """

    ram_bytes: int = 1024 * 2**20
    disk_bytes: int = 8192 * 2**20
    parked_max: int = 1000
    tokens_min: int = 64
    idle_s: float = 3600.0
    disk_rest_s: float = 60.0
    shared_tokens_min: int = 256
    shared_wait_s: float = 60.0
    persistence: Persistence = "ephemeral"
    close_s: float = 30.0
