"""Bodies of HTTP answers, however their bytes are cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from roost.backends.http1.framing import framing_of


def _chunked(pieces: list[bytes]) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@given(
    pieces=st.lists(st.binary(min_size=1, max_size=40), max_size=8),
    cuts=st.lists(st.integers(0, 400), max_size=12),
    kind=st.sampled_from(["chunked", "sized", "open"]),
)
def test_a_body_is_read_whole_however_it_is_cut(
    pieces: list[bytes], cuts: list[int], kind: str
) -> None:
    """What is taken is the body, in order; it is over exactly when the body says so."""
    body = b"".join(pieces)
    raw = _chunked(pieces) if kind == "chunked" else body
    headers = {"chunked": {"transfer-encoding": "chunked"}, "sized": {"content-length": "%d"}}
    found = {
        name: text.replace("%d", str(len(body))) for name, text in headers.get(kind, {}).items()
    }
    framing, held, taken = framing_of(found), bytearray(), b""
    bounds = sorted({0, len(raw), *(cut for cut in cuts if cut < len(raw))})
    for start, end in zip(bounds, [*bounds[1:], len(raw)], strict=True):
        held += raw[start:end]
        taken += framing.take(held)
        assert body.startswith(taken)
    assert taken == body
    assert framing.over is (kind != "open")
    assert framing.ends_with_it is (kind == "open")
