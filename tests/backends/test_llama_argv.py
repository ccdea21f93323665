"""Arguments for a binary: what the rules need, what it knows, and no key for all to read."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest

from roost.backends.llama.argv import Launch, arguments
from roost.backends.llama.options import flags_in
from roost.errors import RoostError

LAUNCH = Launch("m.gguf", "secret", "key.txt", ctx=1000, slots=3, batch=128, socket="s.sock")
NEEDED = "-m, --model F\n-c, --ctx-size N\n--parallel N\n--batch-size N\n--host H\n--port P\n"
KEY_FILE = "--api-key-file FNAME   path to file (default: none)\n"
FULL = f"""{NEEDED}{KEY_FILE}
-ub,   --ubatch-size N     physical batch (see --batch-size-x)
-kvu,  --kv-unified, -no-kvu, --no-kv-unified
--cache-ram N  --slots --no-slots --no-webui --threads N --chat-template T
"""


def test_flags_are_found() -> None:
    """Short and long flags are found, and words with a dash in them are none."""
    assert flags_in("-m, --model-x N  non-flag a--b (--ok)") == {"-m", "--model-x", "--ok"}


def test_full_binary() -> None:
    """Contexts are rounded up to what llama.cpp can do, times the slots; own caches are off."""
    words = arguments(LAUNCH, FULL)
    pairs = dict(pairwise(words))
    assert pairs["--ctx-size"] == str(1024 * 3)
    assert pairs["--parallel"] == "3"
    assert pairs["--batch-size"] == pairs["--ubatch-size"] == "128"
    assert pairs["--host"] == "s.sock"
    assert pairs["--cache-ram"] == "0"
    assert pairs["--api-key-file"] == "key.txt"
    assert {"--no-kv-unified", "--slots", "--no-webui"} <= set(words)
    assert not {"secret", "--threads", "--no-ui", "--port", "--offline"} & set(words)


def test_old_binary_on_a_socket_may_see_the_key() -> None:
    """A binary without key files is told the key only where nobody else can connect."""
    assert "secret" in arguments(LAUNCH, NEEDED + "--api-key KEY")
    tcp = msgspec.structs.replace(LAUNCH, socket="", port=99)
    with pytest.raises(RoostError, match="does not know --api-key-file"):
        arguments(tcp, NEEDED + "--api-key KEY")
    words = arguments(tcp, NEEDED + KEY_FILE)
    assert words[words.index("--port") + 1] == "99"
    assert words[words.index("--host") + 1] == "127.0.0.1"


def test_too_old_binary_is_named() -> None:
    """What cannot be done without is named, all at once."""
    with pytest.raises(RoostError, match="know --api-key, --ctx-size, --parallel") as caught:
        arguments(LAUNCH, "--model --batch-size --host")
    assert caught.value.failure.reason == "load_failed"


def test_threads_are_told_where_chosen() -> None:
    """A number of threads is passed on; 0 is the server's own choice."""
    words = arguments(msgspec.structs.replace(LAUNCH, threads=7), FULL)
    assert words[words.index("--threads") + 1] == "7"


def test_threads_stay_where_a_program_knows_how() -> None:
    """Each on one of the cores; with half of the flags all of them would be on any."""
    launch = msgspec.structs.replace(LAUNCH, threads=3, cores=(0, 1, 66))
    words = arguments(launch, f"{FULL}-C, --cpu-mask M  --cpu-strict <0|1>")
    pairs = dict(pairwise(words))
    assert int(pairs["--cpu-mask"], 16) == 1 + 2 + (1 << 66)
    assert pairs["--cpu-strict"] == "1"
    for known, told in (
        (f"{FULL}--cpu-mask M", launch),
        (f"{FULL}--cpu-mask --cpu-strict", LAUNCH),
    ):
        assert not {"--cpu-mask", "--cpu-strict"} & set(arguments(told, known))


def test_threads_that_talk_and_copies_are_told_to_those_who_know() -> None:
    """A program that has the flags is told; one that has not does without."""
    launch = msgspec.structs.replace(LAUNCH, http_threads=18, copies=True)
    known = f"{FULL}--threads-http N   --mmap, --no-mmap"
    words = arguments(launch, known)
    assert words[words.index("--threads-http") + 1] == "18"
    assert "--no-mmap" in words
    assert not {"--threads-http", "--no-mmap"} & set(arguments(launch, FULL))
    assert not {"--threads-http", "--no-mmap"} & set(arguments(LAUNCH, known))
