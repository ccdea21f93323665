"""A program: loads a model as a runtime does, lets llama.cpp say what it allocates, and ends.

It reads `{"launch": …, "type": "q8_0"}` from stdin; the report is in what llama.cpp logs.
"""

from __future__ import annotations

import os
import sys

import msgspec
import xllamacpp

from roost.backends.llama.argv import Launch
from roost.backends.llama.child import params_of

TALKATIVE = 5


class Wanted(msgspec.Struct):
    """What is to be loaded, and in which type its cache is kept."""

    launch: Launch
    type: str


def main() -> None:
    """Load, and leave without a goodbye: the server has threads that wait for requests."""
    wanted = msgspec.json.decode(sys.stdin.buffer.read(), type=Wanted)
    params = params_of(wanted.launch)
    type_ = getattr(xllamacpp.ggml_type, f"GGML_TYPE_{wanted.type.upper()}")
    for name, value in {
        "cache_type_k": type_,
        "cache_type_v": type_,
        "verbosity": TALKATIVE,
    }.items():
        setattr(params, name, value)
    server = xllamacpp.Server(params)
    assert server.listening_address
    os._exit(0)


if __name__ == "__main__":
    main()
