"""SHELL: which accelerators are visible: asked of the vendor's tool or read from the system.

No library of an accelerator is loaded for that: it takes seconds, and memory on the device.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from roost.core.machine import Device

ROOT = Path("/")
TOOL_TIMEOUT_S = 5.0
DEVICES_MAX = 64
_MIB = 1024 * 1024
_QUERY = "name,memory.total,memory.free,driver_version"
_AMD = "0x1002"


def devices(root: Path = ROOT, tool: str = "nvidia-smi") -> tuple[Device, ...]:
    """List what is visible here; `tool` is the vendor's program, if it is installed."""
    return (*(_asked(tool) or _listed(root)), *_amd(root))[:DEVICES_MAX]


def _asked(tool: str) -> list[Device]:
    """Ask NVIDIA's tool, which knows the memory; nothing where it is not there or says nothing."""
    path = shutil.which(tool)
    if path is None:
        return []
    try:
        done = subprocess.run(
            [path, f"--query-gpu={_QUERY}", "--format=csv,noheader,nounits"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TOOL_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    if done.returncode:
        return []
    lines = done.stdout.decode("utf-8", "replace").splitlines()
    return [device for line in lines if (device := _parsed(line)) is not None]


def _parsed(line: str) -> Device | None:
    cells = [cell.strip() for cell in line.split(",")]
    if len(cells) != len(_QUERY.split(",")) or not cells[0]:
        return None
    name, total, free, driver = cells
    return Device("cuda", name, _mebibytes(total), _mebibytes(free), driver or None)


def _mebibytes(text: str) -> int | None:
    return int(text) * _MIB if text.isdecimal() else None


def _listed(root: Path) -> list[Device]:
    """Read what NVIDIA's driver lists, which has names alone."""
    found = []
    for path in sorted((root / "proc/driver/nvidia/gpus").glob("*/information")):
        for line in _read(path).splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "Model" and value.strip():
                found.append(Device("cuda", value.strip()))
    return found


def _amd(root: Path) -> list[Device]:
    found = []
    for card in sorted((root / "sys/class/drm").glob("card[0-9]*/device")):
        if _read(card / "vendor").strip() != _AMD:
            continue
        total = _read(card / "mem_info_vram_total").strip()
        used = _read(card / "mem_info_vram_used").strip()
        if not total.isdecimal():
            continue
        free = int(total) - int(used) if used.isdecimal() else None
        name = _read(card / "product_name").strip() or "AMD GPU"
        found.append(Device("rocm", name, int(total), free))
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")
    except OSError:
        return ""
