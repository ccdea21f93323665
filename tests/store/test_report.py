"""Tests of reading pip's report and its complaints."""

from __future__ import annotations

import json

import pytest

from roost.errors import RoostError
from roost.store.pulling.report import Wheel, explain, read_report

SHA = "a" * 64
URL = "https://h/a.whl"


def report(url: str = URL, **metadata: str | list[str]) -> bytes:
    """Build a report of one package as pip writes it."""
    archive = {"hash": f"sha256={SHA}", "hashes": {"sha256": SHA}}
    described = {"name": "a", "version": "1.0", **metadata}
    item = {"download_info": {"url": url, "archive_info": archive}, "metadata": described}
    return json.dumps({"version": "1", "install": [item], "environment": {}}).encode()


def read(raw: bytes) -> Wheel:
    """Read a report of the package `a` alone."""
    (wheel,) = read_report(raw, ["a"])
    return wheel


def test_address_digest_and_licence() -> None:
    """A report names the wheel, its sha256, its version and the licence in a few words."""
    raw = report(license="Apache-2.0\nlong text follows")
    assert read(raw) == Wheel("https://h/a.whl", SHA, "1.0", "Apache-2.0")


@pytest.mark.parametrize(
    ("metadata", "licence"),
    [
        ({"license_expression": "MIT", "license": "other"}, "MIT"),
        ({"classifier": ["Topic :: X", "License :: OSI Approved :: MIT License"]}, "MIT License"),
        ({"license": "x" * 500}, "x" * 120),
        ({}, ""),
    ],
)
def test_licence_wherever_it_is_stated(metadata: dict[str, str | list[str]], licence: str) -> None:
    """Expression first, then the field, then a classifier; never more than a line."""
    assert read(report(URL, **metadata)).licence == licence


def test_reports_of_older_pip() -> None:
    """Older versions state the digest in one field only."""
    raw = report().replace(b'"hashes": {"sha256"', b'"other": {"sha256"')
    assert read(raw).sha256 == SHA


def test_without_a_digest_only_local_files_are_taken() -> None:
    """What comes over a network has to have a sha256."""
    assert read(report("file:///a.whl").replace(SHA.encode(), b"")).sha256 is None
    with pytest.raises(RoostError, match="states no sha256"):
        read(report().replace(SHA.encode(), b""))


@pytest.mark.parametrize("raw", [b"", b"[]", b'{"install": []}', b'{"install": [{}]}', b"\xff"])
def test_other_texts_are_no_reports(raw: bytes) -> None:
    """Anything else is an error of its own, never a crash."""
    with pytest.raises(RoostError, match="report"):
        read(raw)


@pytest.mark.parametrize(
    ("complaint", "reason", "words"),
    [
        ("ERROR: No matching distribution found for a==9", "not_found", "a==9"),
        (
            "WARNING: connection broken by 'NewConnectionError'\nERROR: No matching distribution",
            "upstream_error",
            "cannot be reached",
        ),
        ("x\nERROR: first\nERROR: the last one\n\nsee docs", "upstream_error", "the last one"),
        ("killed", "upstream_error", "killed"),
        ("", "upstream_error", "says nothing"),
        ("/usr/bin/python: No module named pip", "unsupported", "ensurepip"),
    ],
)
def test_complaints_become_errors(complaint: str, reason: str, words: str) -> None:
    """No network, no such package, no pip and the rest are told apart, with pip's last line."""
    error = explain(complaint)
    assert error.failure.reason == reason
    assert words in error.failure.message


def test_several_packages_are_told_apart_by_name() -> None:
    """In the order in which they were asked for; what was not asked for is refused."""
    one, two = (json.loads(report(f"https://h/{name}.whl", name=name)) for name in ("a", "B_b"))
    both = json.dumps({"install": [*two["install"], *one["install"]]}).encode()
    found = read_report(both, ["a", "b-b"])
    assert [wheel.url for wheel in found] == ["https://h/a.whl", "https://h/B_b.whl"]
    for names in (["a"], ["a", "c"], ["a", "b-b", "c"]):
        with pytest.raises(RoostError, match="report"):
            read_report(both, names)
    required = report(requires_dist=["x==1", "y"])
    assert read(required).requires == ("x==1", "y")
