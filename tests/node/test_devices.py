"""Accelerators, as a vendor's tool or the system tells of them; and how fast memory is."""

from __future__ import annotations

from pathlib import Path

import pytest

from roost.core.machine import Device
from roost.node.machine import bandwidth
from roost.node.machine.devices import devices

MIB = 1024 * 1024


def tool(folder: Path, body: str) -> str:
    """Write a program that stands for the vendor's."""
    path = folder / "nvidia-smi"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o700)
    return str(path)


def test_the_tool_tells_names_memory_and_driver(tmp_path: Path) -> None:
    """One line each; what it does not know is unknown."""
    body = "echo 'Big GPU, 143771, 143000, 570.1'\necho 'Odd GPU, [N/A], [N/A], 570.1'"
    assert devices(tmp_path, tool(tmp_path, body)) == (
        Device("cuda", "Big GPU", 143_771 * MIB, 143_000 * MIB, "570.1"),
        Device("cuda", "Odd GPU", None, None, "570.1"),
    )


@pytest.mark.parametrize(
    "body", ["exit 9", "echo nonsense", "echo ', 1, 1, x'", "printf '\\377\\n'", "true"]
)
def test_a_tool_that_fails_is_no_device(body: str, tmp_path: Path) -> None:
    """A driver that does not work has no accelerator."""
    assert devices(tmp_path, tool(tmp_path, body)) == ()


def test_the_system_tells_where_the_tool_is_missing(tmp_path: Path) -> None:
    """Names of one vendor's, and memory of the other's; cards of anybody else are passed over."""
    listed = tmp_path / "proc/driver/nvidia/gpus/0000:01:00.0"
    listed.mkdir(parents=True)
    (listed / "information").write_text("Model: \t\t Big GPU\nIRQ: 1\n")
    for number, (vendor, total) in enumerate([("0x1002", "1000"), ("0x8086", ""), ("0x1002", "")]):
        card = tmp_path / f"sys/class/drm/card{number}/device"
        card.mkdir(parents=True)
        (card / "vendor").write_text(vendor + "\n")
        if total:
            (card / "mem_info_vram_total").write_text(total + "\n")
            (card / "mem_info_vram_used").write_text("400\n")
    assert devices(tmp_path, "no-such-tool") == (
        Device("cuda", "Big GPU"),
        Device("rocm", "AMD GPU", 1000, 600),
    )


def test_bandwidth_is_bytes_both_ways_over_time() -> None:
    """As many copies as the time allows, at least one each; the figure is their sum."""
    seen = bandwidth.measure_bandwidth(2, MIB, seconds=0.01)
    assert (seen.threads, seen.buffer_bytes) == (2, MIB)
    copies = seen.bytes_per_s * seen.seconds / 2 / MIB
    assert copies == pytest.approx(round(copies))
    assert round(copies) >= 2


@pytest.mark.parametrize(
    ("threads", "size"), [(1, 64 * MIB), (8, 64 * MIB), (16, 32 * MIB), (256, 2 * MIB)]
)
def test_a_large_machine_is_measured_within_a_gibibyte(threads: int, size: int) -> None:
    """However many threads there are."""
    assert bandwidth.buffer_bytes(threads) == size
