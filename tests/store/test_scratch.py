"""Folders for sockets: private, gone with their process, and swept when that was killed."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from roost.store.scratch import LOCK, SETTLED_S, scratch_folder, sweep


def _age(folder: Path) -> None:
    status = (folder / LOCK).stat()
    old = status.st_mtime - 2 * SETTLED_S
    os.utime(folder / LOCK, (old, old))


def test_a_folder_is_private_and_goes_with_its_block(tmp_path: Path) -> None:
    """Nobody else may look in; nothing is left."""
    with scratch_folder(tmp_path) as folder:
        assert Path(folder).stat().st_mode & 0o777 == 0o700
        (Path(folder) / "socket").touch()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_swept_and_what_lives_is_not(tmp_path: Path) -> None:
    """Only folders with a lock that nobody holds any more, and not the newest ones."""
    dead, young, foreign = (tmp_path / f"roost-{name}" for name in ("dead", "young", "foreign"))
    for folder in (dead, young, foreign):
        folder.mkdir()
    for folder in (dead, young):
        (folder / LOCK).touch()
    _age(dead)
    with scratch_folder(tmp_path) as living:
        _age(Path(living))
        with scratch_folder(tmp_path):
            left = {path.name for path in tmp_path.iterdir()}
    assert {"roost-young", "roost-foreign", Path(living).name} <= left
    assert "roost-dead" not in left


def test_many_sweep_at_once(tmp_path: Path) -> None:
    """Processes that start together find the same leavings, and none minds who was first."""
    for number in range(300):
        folder = tmp_path / f"roost-{number}"
        folder.mkdir()
        (folder / LOCK).touch()
        _age(folder)
    with ThreadPoolExecutor(4) as pool:
        for swept in [pool.submit(sweep, tmp_path) for _ in range(4)]:
            swept.result()
    assert list(tmp_path.iterdir()) == []
