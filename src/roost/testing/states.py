"""SHELL: cases about what slots hold: continued in place, kept in files, and brought back."""

from __future__ import annotations

import shutil
import stat
import time
from pathlib import Path

from roost.backends.base import Prepared, SavedState, States
from roost.core.request import TokensPrompt
from roost.errors import RoostError
from roost.testing.lifetimes import neighbour
from roost.testing.stand import Broken, NotApplicable, Stand, require

NAME = "kept"


async def sessions_go_on(stand: Stand) -> None:
    """Each turn of a conversation computes what is new, and nothing that is in the slot already."""
    prepared = await stand.runtime.prepare(stand.request("one two three four five " * 6, 2))
    for _ in range(3):
        held = len(prepared.tokens)
        await stand.run(prepared, 1, reuse=True)
        prepared = await _continued(stand, prepared)
        new = len(prepared.tokens) - held
        started = (await stand.run(prepared, 1, reuse=True)).started
        computed = started.prompt_tokens - started.cached_tokens
        require(computed <= new + 1, f"{computed} tokens were computed for {new} new ones")


async def states_come_back(stand: Stand) -> None:
    """A saved state serves in another slot after its own was erased, and is gone before that."""
    states, saved, prepared = await _saved(stand)
    await states.erase(1)
    more = await _continued(stand, prepared)
    cached = (await stand.run(more, 1, reuse=True)).started.cached_tokens
    require(cached == 0, f"{cached} tokens were reused after the slot was erased")
    began_s = time.monotonic()
    await states.restore(0, NAME, saved)
    stand.measured["restore"] = time.monotonic() - began_s
    held = len(prepared.tokens)
    cached = (await stand.run(more, 0, reuse=True)).started.cached_tokens
    require(0.9 * held <= cached < len(more.tokens), f"{cached} of {held} tokens came back")


async def saving_changes_nothing(stand: Stand) -> None:
    """The slot that was saved goes on as if nothing had happened."""
    _, _, prepared = await _saved(stand)
    more = await _continued(stand, prepared)
    cached = (await stand.run(more, 1, reuse=True)).started.cached_tokens
    held = len(prepared.tokens)
    require(cached >= held - 1, f"{cached} of {held} tokens were left after saving")


async def states_do_not_disturb(stand: Stand) -> None:
    """While a stream runs on one slot another one is saved, erased and restored."""
    async with neighbour(stand):
        states, saved, prepared = await _saved(stand)
        await states.erase(1)
        await states.restore(1, NAME, saved)
        more = await _continued(stand, prepared)
        cached = (await stand.run(more, 1, reuse=True)).started.cached_tokens
        require(cached > 0, "nothing came back beside a stream that runs")


async def states_are_shared(stand: Stand) -> None:
    """One file fills two slots, and each goes on from its beginning in its own way."""
    states, saved, prepared = await _saved(stand)
    common = len(prepared.tokens) - len(prepared.tokens) // 4
    for slot in (0, 1):
        await states.restore(slot, NAME, saved)
    for slot in (0, 1):
        ending = prepared.tokens[4 + slot : 12 + slot]
        tokens = (*prepared.tokens[:common], *ending)
        more = await stand.runtime.prepare(stand.request(TokensPrompt(tokens), 4))
        cached = (await stand.run(more, slot, reuse=True)).started.cached_tokens
        require(
            0.9 * common <= cached < len(tokens), f"{cached} of {common} tokens were found again"
        )


async def bad_states_are_refused(stand: Stand) -> None:
    """Files that are missing, cut or foreign leave an empty slot and a healthy runtime."""
    states, saved, prepared = await _saved(stand)
    _spoil(Path(states.folder))
    for name in ("missing", "cut", "foreign"):
        await states.restore(1, NAME, saved)
        await _refused(states, 1, (name, saved), "runtime_error")
        more = await _continued(stand, prepared)
        cached = (await stand.run(more, 1, reuse=True)).started.cached_tokens
        require(cached == 0, f"{cached} tokens were reused of a file that is {name}")
    for slot, name in ((-1, NAME), (10**6, NAME), (1, "../" + NAME), (1, "")):
        await _refused(states, slot, (name, saved), "bad_request")


async def lost_folder_is_made_again(stand: Stand) -> None:
    """Whoever cleans up temporary folders costs what was in them, and nothing that comes after."""
    states, saved, _ = await _saved(stand)
    shutil.rmtree(states.folder)
    await _refused(states, 1, (NAME, saved), "runtime_error")
    states, saved, prepared = await _saved(stand)
    _check_private(Path(states.folder))
    await states.restore(0, NAME, saved)
    more = await _continued(stand, prepared)
    cached = (await stand.run(more, 0, reuse=True)).started.cached_tokens
    require(cached > 0, "nothing came back from a folder that was made again")


def _check_private(folder: Path) -> None:
    mode = stat.S_IMODE(folder.stat().st_mode)
    require(mode & 0o077 == 0, f"others can look into the folder of states: {mode:o}")


def _spoil(folder: Path) -> None:
    _check_private(folder)
    whole = (folder / NAME).read_bytes()
    (folder / "cut").write_bytes(whole[:-3])
    (folder / "foreign").write_bytes(b"\x00 something else" * 9)


async def _refused(states: States, slot: int, file: tuple[str, SavedState], reason: str) -> None:
    try:
        await states.restore(slot, *file)
    except RoostError as error:
        require(error.failure.reason == reason, f"refused as {error.failure.reason}")
    else:
        raise Broken(f"slot {slot} was restored from {file[0]!r}")


async def _saved(stand: Stand) -> tuple[States, SavedState, Prepared]:
    """Run a prompt on slot 1 and save what it leaves there."""
    states = stand.runtime.states
    if states is None:
        raise NotApplicable("this model's states do not come back as they were, or have no folder")
    prepared = await stand.runtime.prepare(stand.request("one two three four five " * 12, 3))
    await stand.run(prepared, 1)
    began_s = time.monotonic()
    saved = await states.save(1, NAME)
    stand.measured["save"] = time.monotonic() - began_s
    size = _size_bytes(states)
    require(saved.size_bytes == size, f"{saved.size_bytes} bytes are told, {size} are there")
    held = len(prepared.tokens)
    require(saved.tokens >= held, f"{saved.tokens} tokens are told to be saved, of {held} and more")
    return states, saved, prepared


def _size_bytes(states: States) -> int:
    return Path(states.folder, NAME).stat().st_size


async def _continued(stand: Stand, prepared: Prepared) -> Prepared:
    tokens = (*prepared.tokens, *prepared.tokens[-9:])
    return await stand.runtime.prepare(stand.request(TokensPrompt(tokens), 4))
