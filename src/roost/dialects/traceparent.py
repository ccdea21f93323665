"""DECIDER: the header `traceparent` of W3C Trace Context; a wrong one is as none."""

from __future__ import annotations

import re

from roost.core.trace import Parent

HEADER = b"traceparent"
# A later version may have more behind these four, and its first four mean the same.
_FORM = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 1


def parent_of(header: bytes | None) -> Parent | None:
    """Read the caller's span; None where there is none, or nothing that is one."""
    found = _FORM.fullmatch(header.strip()) if header is not None else None
    if found is None or found[1] == b"ff" or (found[1] == b"00" and found[5]):
        return None
    trace_id, span_id = int(found[2], 16), int(found[3], 16)
    if not trace_id or not span_id:
        return None
    return Parent(trace_id, span_id, bool(int(found[4], 16) & _SAMPLED))
