"""Until when a certificate counts, out of its bytes."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.store.credentials.validity import ends_at


def element(tag: int, content: bytes) -> bytes:
    """Write one element, with its length in the short form or in two bytes."""
    size = len(content)
    length = bytes([size]) if size < 128 else b"\x82" + size.to_bytes(2, "big")
    return bytes([tag]) + length + content


def certificate(end: bytes, *, version: bool = True, filler: int = 1) -> bytes:
    """Write what a certificate has up to its validity; `end` is the time's element."""
    validity = element(0x30, element(0x17, b"200101000000Z") + end)
    issuer = element(0x30, b"\x05\x00" * filler)
    signed = element(0x02, b"\x01") + element(0x30, b"") + issuer + validity
    if version:
        signed = element(0xA0, element(0x02, b"\x02")) + signed
    return element(0x30, element(0x30, signed) + b"rest")


@pytest.mark.parametrize(
    ("tag", "text", "year"),
    [
        *((0x17, b"361127105922Z", 2036), (0x17, b"491231235959Z", 2049)),
        *((0x17, b"500101000000Z", 1950), (0x18, b"20500101000000Z", 2050)),
        (0x18, b"99991231235959Z", 9999),
    ],
)
@pytest.mark.parametrize("version", [True, False])
def test_both_ways_to_write_a_time_are_read(
    tag: int, text: bytes, year: int, *, version: bool
) -> None:
    """Years of two digits up to 2049, of four from then on; with and without a version."""
    der = certificate(element(tag, text), version=version, filler=300)
    assert ends_at(der).year == year
    assert ends_at(der).tzinfo == UTC


def test_every_digit_counts() -> None:
    """Down to the second."""
    assert ends_at(certificate(element(0x18, b"20360203040506Z"))) == datetime(
        2036, 2, 3, 4, 5, 6, tzinfo=UTC
    )


@pytest.mark.parametrize(
    "end", [b"", element(0x04, b"361127105922Z"), element(0x17, b"369927105922Z"), b"\x17\x0d361"]
)
def test_what_is_no_time_is_refused(end: bytes) -> None:
    """A date that does not exist, another kind of element, or one that ends too early."""
    with pytest.raises(ValueError, match=r"."):
        ends_at(certificate(end))


@given(st.binary(max_size=200), st.integers(0, 200))
def test_no_bytes_do_harm(noise: bytes, at: int) -> None:
    """Whatever they are, there is a date or a `ValueError`."""
    whole = certificate(element(0x17, b"361127105922Z"))
    for data in (noise, whole[:at] + noise + whole[at + len(noise) :]):
        with suppress(ValueError):
            assert isinstance(ends_at(data), datetime)
