"""VALUE: what a machine is; whatever its system does not tell is None, never 0 or a guess."""

from __future__ import annotations

import msgspec


class Processor(msgspec.Struct, frozen=True):
    """The processor as this process may use it.

    `cores` counts those of the machine as the system sees them, `usable` those that this process
    may run on, `physical` the different cores behind those. `quota` is how many cores' time its
    container gives it, `features` what instruction sets matter to inference.
    """

    model: str | None
    cores: int
    usable: int
    physical: int | None = None
    quota: float | None = None
    features: tuple[str, ...] = ()

    @property
    def threads(self) -> int:
        """How many threads inference should use: a second one on a core only takes turns."""
        most = min(self.usable, self.physical or self.usable)
        return max(1, min(most, int(self.quota)) if self.quota is not None else most)


class Cores(msgspec.Struct, frozen=True):
    """The cores that this process may run on, by number; none where the system does not tell.

    `alike` says that none of them is known to be slower than another.
    """

    ids: tuple[int, ...] = ()
    alike: bool = True


class Memory(msgspec.Struct, frozen=True):
    """Memory in bytes: what there is, what programs can still have, and what is swapped out.

    `limit_bytes` is the container's limit and `used_bytes` what it has of that; None without one.
    `free_bytes` is used by nobody at all, `available_bytes` counts what could be dropped as well.
    """

    total_bytes: int | None = None
    available_bytes: int | None = None
    free_bytes: int | None = None
    limit_bytes: int | None = None
    used_bytes: int | None = None
    swap_total_bytes: int | None = None
    swap_free_bytes: int | None = None

    @property
    def capacity_bytes(self) -> int | None:
        """What programs here can have at most: the machine's, or less where a limit says so."""
        known = [size for size in (self.total_bytes, self.limit_bytes) if size is not None]
        return min(known, default=None)

    @property
    def room_bytes(self) -> int | None:
        """What they can have now."""
        left = None
        if self.limit_bytes is not None and self.used_bytes is not None:
            left = max(0, self.limit_bytes - self.used_bytes)
        known = [size for size in (self.available_bytes, left) if size is not None]
        return min(known, default=None)


class HugePages(msgspec.Struct, frozen=True):
    """Large pages: `mode` is what the system does by itself, and the rest what was set aside."""

    mode: str | None = None
    page_bytes: int | None = None
    reserved: int | None = None


class Device(msgspec.Struct, frozen=True):
    """One accelerator; `driver` and memory in bytes as far as they are told."""

    kind: str
    name: str
    total_bytes: int | None = None
    free_bytes: int | None = None
    driver: str | None = None


class Limits(msgspec.Struct, frozen=True):
    """What one process, or this user, may have at once; None is no limit, or nobody tells."""

    open_files: int | None = None
    open_files_most: int | None = None
    processes: int | None = None


class Bandwidth(msgspec.Struct, frozen=True):
    """Memory bandwidth as measured: bytes read and written a second by `threads` that copy.

    `buffer_bytes` were copied at a time by each, for `seconds` in all. A busy machine measures
    less than it has.
    """

    bytes_per_s: float
    threads: int
    buffer_bytes: int
    seconds: float
