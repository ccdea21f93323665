"""From settings to limits: every setting of a gateway arrives where it is enforced."""

from __future__ import annotations

import errno
import socket
from pathlib import Path

import pytest

from roost.cli import main
from roost.cli.parts.gateway import (
    GATEWAY_SETTINGS,
    UPSTREAM_SETTINGS,
    fleet_settings,
    gateway_settings,
    kept,
    limits,
    said_where,
    upstream_settings,
)
from roost.config import TABLE, Machine, Settings, load
from roost.config.setting import Setting, Value
from roost.core.fence import Life
from roost.errors import RoostError
from roost.gateway.upstream.targets import Target


def settings(**flags: object) -> Settings:
    """Load settings from flags alone."""
    return load({}, flags, "", Machine(4, "/home")).settings


def test_the_relay_decides_before_the_front_does() -> None:
    """The front's write deadline is a net, wider than that of the relay."""
    given = settings(stream_write_deadline_s="7")
    fleet = gateway_settings(given, Life("gateway-0", 1))
    assert fleet.generation.relay.write_deadline_s == 7
    assert fleet.limits.write_s == 14
    assert upstream_settings(given, ()).limits.write_s == 7


def test_idle_connections_outlive_those_of_proxies() -> None:
    """Idle time is a setting of its own, by default longer than the usual 60 s of proxies."""
    assert limits(settings()).idle_s == 75
    changed = limits(settings(receipt_idle_s="20", receipt_head_s="3"))
    assert (changed.idle_s, changed.head_s) == (20, 3)


def test_all_bodies_together_are_bounded() -> None:
    """The bound is a setting; one body of the largest size fits in any case."""
    assert limits(settings()).bodies_max_bytes == 256 * 1024 * 1024
    assert limits(settings(bodies_max_bytes="1000000", body_max_bytes="1000")).bodies_max_bytes == (
        1_000_000
    )
    assert limits(settings(bodies_max_bytes="1000", body_max_bytes="5000")).bodies_max_bytes == 5000


def test_every_patience_with_a_server_is_a_setting() -> None:
    """What an upstream server is granted comes from the table."""
    given = settings(upstream_first_byte_s="11", upstream_kept_s="12", upstream_idle_s="13")
    made = upstream_settings(given, (Target("a", "127.0.0.1", 1),))
    assert (made.passage.first_byte_s, made.passage.idle_s, made.client.kept_s) == (11, 13, 12)
    given = settings(upstream_stall_s="14", upstream_models_s="15")
    made = upstream_settings(given, ())
    assert (made.pool.stall_s, made.models_s) == (14, 15)
    usual = upstream_settings(settings(), ())
    assert (usual.passage.first_byte_s, usual.client.kept_s) == (600, 4)


def test_limits_of_the_fleet_come_from_their_settings() -> None:
    """What an operator sets for fairness, quarantine, receipts and servers is what decides."""
    given = settings(
        queue_class_one_in="3",
        retry_quarantine_kills="1",
        receipts_entries="7",
        receipts_ttl_s="60",
        upstream_errors_max="9",
        upstream_kept="2",
    )
    fleet, servers = fleet_settings(given), upstream_settings(given, ())
    assert (fleet.class_one_in, fleet.quarantine_kills) == (3, 1)
    assert (fleet.receipts_entries, fleet.receipts_ttl_s) == (7, 60.0)
    assert (servers.pool.errors_max, servers.client.kept) == (9, 2)


READ_ELSEWHERE = {
    *("insecure_http", "keys", "drain.grace_s", "log_level", "log_format"),
    *("upstream.urls", "upstream.keys"),
}
"""What such a gateway reads, and not in one piece with the rest."""
OF_NO_USE = {"link.message_max_bytes", "limits.answer_tokens", "limits.save_s"}
"""What stands in its pieces because a gateway for nodes has the same ones."""
OTHERS: dict[str, Value] = {
    "aliases": ("a=b",),
    "cors.origins": ("https://h",),
    "placement.keep": ("m=2",),
    "trusted_proxies": ("10.0.0.2",),
}


def named(rows: tuple[str, ...]) -> set[str]:
    """Name every setting that these stand for."""
    groups = tuple(row for row in rows if row.endswith("."))
    return {row.name for row in TABLE if row.name in rows or row.name.startswith(groups)}


def another(row: Setting) -> Value:
    """Give a value that is not the default."""
    if row.name in OTHERS:
        return OTHERS[row.name]
    if row.choices:
        return row.choices[1]
    match row.default:
        case bool():
            return not row.default
        case int() | float():
            return row.default + 1
        case str():
            return "x"
        case _:
            return ("x",)


def test_what_a_gateway_for_servers_reads_is_in_its_list() -> None:
    """And nothing else is: whoever adds a setting has to say whether it counts there."""
    usual = settings()

    def counts(row: Setting) -> bool:
        values = zip(TABLE, usual, strict=True)
        changed = Settings._make(another(one) if one == row else has for one, has in values)
        return upstream_settings(changed, ()) != upstream_settings(usual, ())

    rows = {*named(GATEWAY_SETTINGS), *named(UPSTREAM_SETTINGS)}
    read = {row.name for row in TABLE if row.name in rows and counts(row)}
    assert (read - OF_NO_USE) | READ_ELSEWHERE == named(UPSTREAM_SETTINGS)


@pytest.mark.parametrize(
    ("flag", "mode"),
    [
        *[(f"--{name}", "with") for name in ("scaling-calm-s", "reattach-entries", "strict")],
        *[(f"--{name}", "with") for name in ("queue-class-one-in", "stream-buffer-events")],
        *[(f"--{name}", "without") for name in ("max-in-flight", "upstream-kept")],
    ],
)
def test_a_flag_that_the_chosen_kind_does_not_read_is_refused(
    flag: str, mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of what is said on a command line nothing is ignored; files are shared, and may say more."""
    (tmp_path / "roost.toml").write_text("strict = true\n[scaling]\ncalm_s = 7\n")
    servers = ["--upstream", "http://127.0.0.1:1"] if mode == "with" else []
    value = [] if flag == "--strict" else ["9"]
    assert main.run(["gateway", "--home", str(tmp_path), *servers, flag, *value]) == 2
    assert capsys.readouterr().err == f"roost gateway: {flag} has no effect {mode} --upstream.\n"


def test_models_to_keep_are_named_with_a_count() -> None:
    """The last = counts, since names may have others; what makes no sense is refused by name."""
    assert kept(["a=1", "org/b:q4=x=3"]) == {"a": 1, "org/b:q4=x": 3}
    for text in ("a", "a=", "=2", "a=-1", "a=1.5", "a=1001"):
        with pytest.raises(RoostError) as caught:
            kept([text])
        assert caught.value.failure.param == "placement.keep"


def test_placement_is_a_setting_of_the_fleet() -> None:
    """One load at a time unless told otherwise, and nothing is kept."""
    fleet = gateway_settings(settings(), Life("gateway-0", 1)).fleet
    assert (fleet.replicas, fleet.keep) == (1, {})


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("", "--host 127.0.0.1 --port 7878: cannot listen there (Address already in use): end"),
        ("--worker-api 127.0.0.1:3001", "or give --worker-api another port."),
    ],
)
def test_a_port_in_use_is_said_with_the_flag_that_changes_it(flag: str, words: str) -> None:
    """What another program has is not taken; which flag to change is in the sentence."""
    with pytest.raises(RoostError) as caught, said_where(settings(), flag):
        raise OSError(errno.EADDRINUSE, "")
    assert words in caught.value.failure.message


def test_a_host_that_can_have_no_address_is_said_with_its_flag() -> None:
    """A look-up fails with no `OSError` then."""
    with pytest.raises(RoostError) as caught, said_where(settings(host="a..b")):
        socket.getaddrinfo("a..b", 80)
    failure = caught.value.failure
    assert (failure.reason, failure.message.startswith("--host a..b: ")) == ("bad_request", True)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({}, (4, True)),
        ({"slots": "2"}, (2, False)),
        ({"max_in_flight_decodes_per_node": "4"}, (4, False)),
        ({"max_in_flight_decodes_per_node": "0", "slots": "2"}, (0, False)),
        ({"max_in_flight_decodes_per_node": "-1", "slots": "2"}, (4, True)),
    ],
)
def test_a_nodes_cap_follows_its_slots_unless_it_is_set(
    flags: dict[str, str], expected: tuple[int, bool]
) -> None:
    """Of one process, the slots that were set count; of other machines, what nodes tell."""
    found = fleet_settings(settings(**flags))
    assert (found.max_decodes_per_node, found.decodes_by_slots) == expected
