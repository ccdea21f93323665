"""What is in `deploy` is held against the verbs and settings that it names; no image is built."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest
import yaml

from roost.cli import options
from roost.cli.main import VERBS
from roost.cli.verbs import gateway, health, node, pull
from roost.config import TABLE
from tests.source import ROOT

DEPLOY = ROOT / "deploy"
SCRIPTS = sorted(DEPLOY.glob("*.sh"))
VARIABLES = {name for row in TABLE for name in (row.variable, *row.aliases)}
# Those of the file itself, which Compose reads and no container sees under this name.
OF_COMPOSE = {"ROOST_MODEL", "ROOST_PUBLISH"}
FIELDS = {
    *("image", "build", "init", "restart", "stop_grace_period", "cap_drop", "security_opt"),
    *("command", "entrypoint", "environment", "volumes", "depends_on", "healthcheck", "ports"),
}
CONDITIONS = {"service_started", "service_healthy", "service_completed_successfully"}
INSTRUCTIONS = {
    *("FROM", "RUN", "WORKDIR", "COPY", "ENV", "USER", "VOLUME", "EXPOSE", "ENTRYPOINT", "CMD"),
}
Service = dict[str, object]


def compose() -> dict[str, object]:
    """Read the Compose file."""
    return cast("dict[str, object]", yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8")))


def services() -> dict[str, Service]:
    """List its services, with what they share put in."""
    return cast("dict[str, Service]", compose()["services"])


def of(service: Service, field: str) -> dict[str, object]:
    """Read a field that is a table."""
    return cast("dict[str, object]", service.get(field, {}))


def words(service: Service, field: str) -> list[str]:
    """Read a field that is a list."""
    return cast("list[str]", service.get(field, []))


def instructions() -> Iterator[tuple[str, str]]:
    """List the lines of the Dockerfile, those that go on joined."""
    text = (DEPLOY / "Dockerfile").read_text("utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            name, _, rest = line.partition(" ")
            yield name, rest.strip()


def test_every_service_is_of_known_fields_and_comes_back() -> None:
    """A typing error in a name would be an error of Compose, or worse, nothing at all."""
    assert set(services()) == {"models", "gateway", "node-1", "node-2"}
    for name, service in services().items():
        assert set(service) <= FIELDS, name
        assert service["restart"] == ("no" if name == "models" else "unless-stopped")
        assert service["cap_drop"] == ["ALL"]
    assert set(compose()) <= {"name", "services", "volumes", "x-roost", "x-node"}


def test_only_the_gateway_is_reached_from_outside() -> None:
    """And that from this machine alone, unless somebody says otherwise."""
    published = {name: words(service, "ports") for name, service in services().items()}
    assert {name: ports for name, ports in published.items() if ports} == {
        "gateway": ["${ROOST_PUBLISH:-127.0.0.1:7878}:7878"]
    }


def test_nodes_wait_for_the_gateway_and_for_the_model() -> None:
    """Whoever is waited for has what is waited for: a health check, or an end."""
    for name in ("node-1", "node-2"):
        assert {
            other: cast("dict[str, str]", how)["condition"]
            for other, how in of(services()[name], "depends_on").items()
        } == {"gateway": "service_healthy", "models": "service_completed_successfully"}
    for service in services().values():
        for other, how in of(service, "depends_on").items():
            condition = cast("dict[str, str]", how)["condition"]
            assert condition in CONDITIONS
            assert condition != "service_healthy" or "healthcheck" in services()[other]


@pytest.mark.parametrize(
    ("name", "retries", "start"), [("gateway", 6, "10s"), ("node-1", 12, "120s")]
)
def test_health_is_asked_every_ten_seconds(name: str, retries: int, start: str) -> None:
    """By a command of roost, with flags that it has."""
    check = of(services()[name], "healthcheck")
    kind, program, verb, *flags = cast("list[str]", check.pop("test"))
    assert (kind, program, verb) == ("CMD", "roost", "health")
    parser = options.parser("health", "", health.SETTINGS)
    assert set(flags) <= {"--worker", "--ready"}
    assert parser.prog == "roost health"
    assert check == {"interval": "10s", "timeout": "5s", "retries": retries, "start_period": start}


def test_commands_and_variables_are_those_of_roost() -> None:
    """Every verb is one, and every variable is a setting that the verb reads."""
    parsers: dict[str, Callable[[], options.Parser]] = {
        "gateway": gateway.flags,
        "node": node.flags,
        "pull": lambda: options.parser("pull", "", pull.SETTINGS),
    }
    for name, service in services().items():
        entry = words(service, "entrypoint")
        verb = "gateway" if entry == ["roost-gateway"] else words(service, "command")[0]
        assert verb in VERBS, name
        read = {action.dest for action in parsers[verb]()._actions}  # noqa: SLF001 - argparse tells nobody else
        rows = {row.variable: row.attribute for row in TABLE}
        unread = [key for key in of(service, "environment") if rows.get(key) not in read]
        assert unread == [], name
    text = (DEPLOY / "compose.yaml").read_text("utf-8")
    assert set(re.findall(r"ROOST_[A-Z_]+", text)) <= VARIABLES | OF_COMPOSE


def test_volumes_are_declared_and_the_token_is_written_by_one() -> None:
    """Nodes read what the gateway has written, and share the models."""
    used: dict[str, set[str]] = {}
    for name, service in services().items():
        for volume in words(service, "volumes"):
            used.setdefault(volume.split(":")[0], set()).add(name)
            writes = not volume.endswith(":ro")
            assert writes == (name == "gateway") or not volume.startswith("join:")
    assert set(used) == set(cast("dict[str, object]", compose()["volumes"]))
    assert used["nodes"] == {"models", "node-1", "node-2"}


def test_the_image_is_small_in_rights_and_pinned_in_base() -> None:
    """Known instructions, a base with a version, nobody's root at the end, the scripts in it."""
    lines = list(instructions())
    assert {name for name, _ in lines} <= INSTRUCTIONS
    bases = [rest for name, rest in lines if name == "FROM"]
    assert len(bases) == 1
    assert re.fullmatch(r"python:3\.\d+-slim", bases[0])
    assert [rest for name, rest in lines if name == "USER"][-1] == "roost"
    runs = " ".join(rest for name, rest in lines if name == "RUN")
    for wanted in ("--no-install-recommends", "rm -rf /var/lib/apt/lists", "--no-cache-dir"):
        assert wanted in runs
    for name, rest in lines:
        if name == "COPY":
            *sources, _ = [word for word in shlex.split(rest) if not word.startswith("--")]
            assert all((ROOT / source).exists() for source in sources), rest
    environment = dict(rest.split("=", 1) for name, rest in lines if name == "ENV")
    assert set(environment) <= VARIABLES


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_can_be_read_by_any_shell(script: Path) -> None:
    """They are executable, stop at the first failure, and name verbs and flags that there are."""
    text = script.read_text("utf-8")
    assert text.startswith("#!/bin/sh\n")
    assert "\nset -eu\n" in text
    assert script.stat().st_mode & 0o111
    done = subprocess.run(["/bin/sh", "-n", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert set(re.findall(r"\broost ([a-z]+)\b", re.sub(r"#.*", "", text))) <= set(VERBS)
