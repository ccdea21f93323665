"""Tests of the downloader against a real server: resume, cuts, wrong digests, redirects, limits."""

from __future__ import annotations

import hashlib
import resource
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from roost.errors import RoostError
from roost.store.pulling.download import Got, Want, discard, fetch
from roost.store.pulling.transfer import Limits
from tests.store.hub import Hub, Page, running_hub

BODY = bytes(range(256)) * 1200
SHA = hashlib.sha256(BODY).hexdigest()
LIMITS = Limits(silence_s=5, attempts=3, pause_s=0.001)
ONCE = Limits(silence_s=5, attempts=1)


@pytest.fixture
def hub() -> Iterator[Hub]:
    """A hub with one good file at /f."""
    with running_hub() as running:
        running.pages["/f"] = Page(BODY)
        yield running


@pytest.fixture
def part(tmp_path: Path) -> Path:
    """Where the download goes."""
    return tmp_path / "x.part"


def refused(want: Want, part: Path, limits: Limits = ONCE) -> tuple[str, str]:
    """Return reason and message of a download that fails."""
    with pytest.raises(RoostError) as caught:
        fetch(want, part, limits)
    return caught.value.failure.reason, caught.value.failure.message


def test_a_whole_file(hub: Hub, part: Path) -> None:
    """The bytes, the digest and the progress are those of the file."""
    seen: list[tuple[int, int | None]] = []
    got = fetch(Want(f"{hub.url}/f", SHA), part, ONCE, lambda *step: seen.append(step))
    assert got == Got(SHA, len(BODY))
    assert part.read_bytes() == BODY
    assert seen[0] == (0, len(BODY))
    assert seen[-1] == (len(BODY), len(BODY))
    assert hub.ranges() == [None]


def test_a_cut_connection_is_resumed_at_once(hub: Hub, part: Path) -> None:
    """After each cut only the rest is asked for, under the condition that nothing has changed."""
    hub.pages["/f"].cuts = [100_000, 50_000]
    assert fetch(Want(f"{hub.url}/f"), part, LIMITS) == Got(SHA, len(BODY))
    assert hub.ranges() == [None, "bytes=100000-", "bytes=150000-"]
    assert hub.seen[1][1]["If-Range"] == '"v1"'


def test_a_later_run_goes_on(hub: Hub, part: Path) -> None:
    """An interrupted download keeps its part, says so, and the next run fetches the rest."""
    hub.pages["/f"].cuts = [100_000]
    reason, message = refused(Want(f"{hub.url}/f", SHA), part)
    assert reason == "upstream_error"
    assert "kept" in message
    assert part.stat().st_size == 100_000
    assert fetch(Want(f"{hub.url}/f", SHA), part, ONCE).sha256 == SHA
    assert hub.ranges()[1] == "bytes=100000-"


def test_a_complete_part_needs_no_network(hub: Hub, part: Path) -> None:
    """If all bytes are there and only checking was missing, nothing is asked."""
    want = Want(f"{hub.url}/f", SHA)
    fetch(want, part, ONCE)
    assert fetch(want, part, ONCE) == Got(SHA, len(BODY))
    assert len(hub.seen) == 1


def test_a_mirror_may_finish_what_another_began(hub: Hub, part: Path) -> None:
    """With a known digest the rest may come from another address, without that one's tag."""
    hub.pages["/f"].cuts = [100_000]
    refused(Want(f"{hub.url}/f", SHA), part)
    hub.pages["/mirror"] = Page(BODY, etag='"other"')
    assert fetch(Want(f"{hub.url}/mirror", SHA), part, ONCE).sha256 == SHA
    assert hub.ranges()[1] == "bytes=100000-"
    assert "If-Range" not in hub.seen[1][1]


def test_a_changed_file_starts_again(hub: Hub, part: Path) -> None:
    """If the server's file has another tag, it sends all of it, and nothing old remains."""
    hub.pages["/f"].cuts = [100_000]
    refused(Want(f"{hub.url}/f"), part)
    hub.pages["/f"] = Page(BODY[::-1], etag='"v2"')
    assert fetch(Want(f"{hub.url}/f"), part, ONCE).sha256 == hashlib.sha256(BODY[::-1]).hexdigest()


def test_a_changed_digest_starts_again(hub: Hub, part: Path) -> None:
    """If the hub names another digest than before, the part is dropped though a range came."""
    hub.pages["/f"] = Page(BODY, etag=None, linked_etag=f'"{SHA}"', cuts=[100_000])
    refused(Want(f"{hub.url}/f"), part)
    newer = BODY[::-1]
    sha256 = hashlib.sha256(newer).hexdigest()
    hub.pages["/f"] = Page(newer, etag=None, linked_etag=f'"{sha256}"')
    assert fetch(Want(f"{hub.url}/f"), part, LIMITS).sha256 == sha256
    assert hub.ranges() == [None, "bytes=100000-", None]


def test_a_server_without_ranges_starts_again(hub: Hub, part: Path) -> None:
    """A server that ignores Range sends the whole file, which replaces the part."""
    hub.pages["/f"] = Page(BODY, ranges=False, cuts=[100_000])
    assert fetch(Want(f"{hub.url}/f", SHA), part, LIMITS) == Got(SHA, len(BODY))
    assert part.read_bytes() == BODY


def test_without_any_proof_nothing_is_resumed(hub: Hub, part: Path) -> None:
    """With neither a digest nor a tag, old bytes might be of another file: all is fetched anew."""
    hub.pages["/f"] = Page(BODY, etag=None, cuts=[100_000])
    assert fetch(Want(f"{hub.url}/f"), part, LIMITS) == Got(SHA, len(BODY))
    assert hub.ranges() == [None, None]


def test_a_wrong_digest_removes_the_file(hub: Hub, part: Path) -> None:
    """Damaged content is removed with its note, and the message says so."""
    reason, message = refused(Want(f"{hub.url}/f", "0" * 64), part)
    assert reason == "upstream_error"
    assert "removed" in message
    assert list(part.parent.iterdir()) == []


def test_a_digest_named_by_the_server_is_checked(hub: Hub, part: Path) -> None:
    """An ETag that is a sha256 is one: content of another digest is refused."""
    hub.pages["/f"].etag = f'"{"1" * 64}"'
    assert "damaged" in refused(Want(f"{hub.url}/f"), part)[1]


def test_a_digest_named_once_is_checked_at_the_end(hub: Hub, part: Path) -> None:
    """What the first answer said of the digest holds for the rest, though that is silent."""
    hub.pages["/f"] = Page(BODY, linked_etag=f'"{"3" * 64}"', cuts=[100_000])
    refused(Want(f"{hub.url}/f"), part)
    hub.pages["/f"].linked_etag = None
    assert "damaged" in refused(Want(f"{hub.url}/f"), part)[1]
    assert hub.ranges() == [None, "bytes=100000-"]


@pytest.mark.slow
def test_a_silent_server_is_left_and_asked_again(hub: Hub, part: Path) -> None:
    """A connection that says nothing for too long is given up; the next one brings the rest."""
    hub.pages["/f"] = Page(BODY, cuts=[100_000], stalls=True)
    limits = Limits(silence_s=0.8, attempts=2, pause_s=0.001)
    assert fetch(Want(f"{hub.url}/f"), part, limits) == Got(SHA, len(BODY))
    assert hub.ranges() == [None, "bytes=100000-"]


def test_the_first_wait_is_the_shortest() -> None:
    """Each is twice as long as the one before, up to a limit; the hub is asked in the same way."""
    limits = Limits(pause_s=0.5, max_pause_s=3.0)
    assert [limits.pause_after_s(failures) for failures in (1, 2, 3, 4, 9)] == [0.5, 1, 2, 3, 3]


def test_a_server_that_speaks_something_else(part: Path) -> None:
    """An answer that is no HTTP is a broken connection, not a crash."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"SSH-2.0-rubbish\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        reason, message = refused(Want(f"http://127.0.0.1:{server.getsockname()[1]}/f"), part)
        thread.join()
    assert reason == "upstream_error"
    assert "closed the connection" in message


def test_a_damaged_part_is_found_out(hub: Hub, part: Path) -> None:
    """Bytes that rotted on the disk are hashed again on resuming, and so do not pass."""
    hub.pages["/f"].cuts = [100_000]
    refused(Want(f"{hub.url}/f", SHA), part)
    part.write_bytes(b"\0" * 100_000)
    assert "damaged" in refused(Want(f"{hub.url}/f", SHA), part)[1]


def test_more_than_there_is(hub: Hub, part: Path) -> None:
    """A part longer than the file makes the server say 416, and the file is fetched anew."""
    hub.pages["/f"].cuts = [100_000]
    refused(Want(f"{hub.url}/f", SHA), part)
    hub.pages["/f"].body = BODY[:50_000]
    assert fetch(Want(f"{hub.url}/f"), part, LIMITS).size_bytes == 50_000


def test_exactly_all_there_is(hub: Hub, part: Path) -> None:
    """If the server says 416 because nothing is missing, the part is the file."""
    hub.pages["/f"] = Page(BODY, etag='"v1"', cuts=[100_000])
    refused(Want(f"{hub.url}/f", SHA), part)
    with part.open("ab") as file:
        file.write(BODY[100_000:])
    note = part.with_name("x.part.json")
    note.write_text(note.read_text().replace(str(len(BODY)), "null"))
    assert fetch(Want(f"{hub.url}/f", SHA), part, ONCE) == Got(SHA, len(BODY))
    assert hub.ranges()[-1] == f"bytes={len(BODY)}-"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff"])
def test_a_damaged_note_starts_again(hub: Hub, part: Path, content: bytes) -> None:
    """A part that nobody knows anything of is not used."""
    part.write_bytes(b"left over")
    part.with_name("x.part.json").write_bytes(content)
    assert fetch(Want(f"{hub.url}/f", SHA), part, ONCE).sha256 == SHA
    assert hub.ranges() == [None]


def test_passing_failures_are_tried_again(hub: Hub, part: Path) -> None:
    """503 and 429 pass; more of them than attempts end the download."""
    hub.pages["/f"].statuses = [503, 429]
    assert fetch(Want(f"{hub.url}/f"), part, LIMITS).sha256 == SHA
    discard(part)
    hub.pages["/f"].statuses = [503, 503, 503, 503]
    assert "status 503" in refused(Want(f"{hub.url}/f"), part, LIMITS)[1]
    assert hub.pages["/f"].statuses == [503]


@pytest.mark.parametrize(
    ("status", "reason"),
    [(404, "not_found"), (401, "unauthorized"), (403, "unauthorized"), (418, "upstream_error")],
)
def test_final_answers_are_not_tried_again(hub: Hub, part: Path, status: int, reason: str) -> None:
    """What will not pass is reported at once, by its reason."""
    hub.pages["/f"].statuses = [status]
    assert refused(Want(f"{hub.url}/f"), part, LIMITS)[0] == reason
    assert len(hub.seen) == 1


def test_nobody_listens(part: Path) -> None:
    """Without a server the message names the network, and nothing is left behind."""
    with running_hub() as gone:
        url = f"{gone.url}/f"
    reason, message = refused(Want(url), part, LIMITS)
    assert reason == "upstream_error"
    assert "Check the network" in message
    assert list(part.parent.iterdir()) == []


def test_a_redirect_keeps_the_digest_and_drops_the_token(hub: Hub, part: Path) -> None:
    """The first host's token goes to no other host, and its digest counts for the other's bytes."""
    with running_hub() as store:
        store.pages["/blob"] = Page(BODY, etag='"cdn"')
        hub.pages["/f"] = Page(location=f"{store.url}/blob", linked_etag=f'"{SHA}"')
        got = fetch(Want(f"{hub.url}/f", token="hush"), part, ONCE)
        discard(part)
        hub.pages["/f"] = Page(location=f"{store.url}/blob", linked_etag=f'"{"2" * 64}"')
        assert "damaged" in refused(Want(f"{hub.url}/f", token="hush"), part)[1]
        assert all("Authorization" not in headers for _, headers in store.seen)
    assert got.sha256 == SHA
    assert [headers["Authorization"] for _, headers in hub.seen] == ["Bearer hush"] * 2


def test_a_redirect_on_the_same_host_keeps_the_token(hub: Hub, part: Path) -> None:
    """Relative redirects are followed with the token."""
    hub.pages["/old"] = Page(location="/f")
    fetch(Want(f"{hub.url}/old", token="hush"), part, ONCE)
    assert [headers.get("Authorization") for _, headers in hub.seen] == ["Bearer hush"] * 2


@pytest.mark.parametrize("location", ["/f", "file:///etc/passwd", "ftp://127.0.0.1/f", ""])
def test_bad_redirects_are_refused(hub: Hub, part: Path, location: str) -> None:
    """Circles and other schemes end the download."""
    hub.pages["/f"] = Page(location=location)
    reason, message = refused(Want(f"{hub.url}/f"), part)
    assert reason == "upstream_error"
    assert "redirect" in message


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://h/f", "http:///f", "http://h:x/f"])
def test_only_http_addresses_are_fetched(part: Path, url: str) -> None:
    """Anything but http and https is refused before anything is sent."""
    assert refused(Want(url), part)[0] == "bad_request"


def test_lengths_are_checked_before_the_body(hub: Hub, part: Path) -> None:
    """A file that is too long, does not fit on the disk or has no length is refused unread."""
    small = Limits(attempts=1, max_bytes=1000)
    assert "larger than" in refused(Want(f"{hub.url}/f"), part, small)[1]
    hub.pages["/f"] = Page(BODY, length=2**60)
    assert "larger than" in refused(Want(f"{hub.url}/f"), part)[1]
    reason, message = refused(Want(f"{hub.url}/f"), part, Limits(attempts=1, max_bytes=2**62))
    assert reason == "storage_error"
    assert "disk space" in message
    hub.pages["/f"] = Page(BODY, length=-1)
    assert "how long" in refused(Want(f"{hub.url}/f"), part)[1]
    hub.pages["/f"] = Page(BODY, encoding="gzip")
    assert "encoding" in refused(Want(f"{hub.url}/f"), part)[1]
    hub.pages["/f"].statuses = [404]
    assert refused(Want(f"{hub.url}/f"), part)[0] == "not_found"
    assert list(part.parent.iterdir()) == []


def test_a_full_disk_keeps_what_has_arrived(hub: Hub, part: Path) -> None:
    """When writing fails half-way the part stays, and the next run goes on from there."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        reason, message = refused(Want(f"{hub.url}/f", SHA), part)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert reason == "storage_error"
    assert str(part) not in message
    assert part.stat().st_size == 100_000
    assert fetch(Want(f"{hub.url}/f", SHA), part, ONCE) == Got(SHA, len(BODY))
    assert hub.ranges()[-1] == "bytes=100000-"
