"""VALUE: the servers behind the gateway, from what the operator typed."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import msgspec

from roost.core.hosts import in_address, is_host

_PORTS = {"http": 80, "https": 443}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
_HOST = re.compile(r"[A-Za-z0-9._-]+\Z|\[[0-9A-Fa-f:.]+\]\Z")
_BASE = re.compile(r"[A-Za-z0-9._~/-]*\Z")


class Target(msgspec.Struct, frozen=True):
    """One server. `base` is a path prefix without trailing slash; `key` is sent to it only.

    `name` is what clients, logs and metrics see; it says nothing about where the server is. Where
    `host` is an address that a name was resolved to, the server is still `called` by that name.
    """

    name: str
    host: str
    port: int
    tls: bool = False
    base: str = ""
    key: str | None = None
    called: str = ""

    @property
    def authority(self) -> str:
        """The Host header: the port only where it is not the usual one."""
        host = in_address(self.called or self.host)
        usual = _PORTS["https" if self.tls else "http"]
        return host if self.port == usual else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The address, for logs."""
        return f"{'https' if self.tls else 'http'}://{self.authority}{self.base}"


def parse_target(text: str, number: int, key: str | None = None) -> Target:
    """Parse `URL` or `NAME=URL`; without a name it is `upstream-<number>`.

    A trailing `/v1` is taken off, because clients are often configured with it. `ValueError` for
    what is not plain `http(s)://host[:port][/path]`: no user part, no query, no other scheme.
    """
    name, _, url = text.partition("=")
    if not _has_name(text):
        name, url = f"upstream-{number}", text
    scheme, found, rest = url.partition("://")
    if scheme not in _PORTS or not found:
        raise ValueError("an upstream is http://HOST[:PORT] or https://HOST[:PORT]")
    authority, slash, path = rest.partition("/")
    host, port = _host_and_port(authority, _PORTS[scheme])
    base = f"{slash}{path}".rstrip("/")
    if not _NAME.match(name) or not _BASE.match(base):
        raise ValueError("an upstream has a plain name and a plain path")
    return Target(name, host, port, scheme == "https", base.removesuffix("/v1"), key)


def parse_targets(
    urls: Sequence[str], keys: Sequence[str], before: Sequence[Target] = ()
) -> tuple[Target, ...]:
    """Parse a list of servers with their keys, in the same order; "-" or nothing is no key.

    A server without a name that was in the list `before` keeps the name it had there, so that
    taking one away renames nobody. `ValueError` for more keys than servers, or a name twice.
    """
    if len(keys) > len(urls):
        raise ValueError("there are more keys than servers")
    padded = [*keys, *["-"] * (len(urls) - len(keys))]
    numbers = itertools.count(len(urls) + 1)
    taken = {target.name for target in before}
    targets: list[Target] = []
    for place, (url, key) in enumerate(zip(urls, padded, strict=True), start=1):
        target = parse_target(url, place, None if key == "-" else key)
        if not _has_name(url):
            mine = (b.name for b in before if same_address(b, target) and not _in(targets, b.name))
            fresh = (f"upstream-{n}" for n in itertools.chain([place], numbers))
            free = (name for name in fresh if name not in taken and not _in(targets, name))
            name = next(itertools.chain(mine, free))
            target = msgspec.structs.replace(target, name=name)
        if _in(targets, target.name):
            raise ValueError(f"two servers have the name {target.name}")
        targets.append(target)
    return tuple(targets)


def _in(targets: Sequence[Target], name: str) -> bool:
    return any(target.name == name for target in targets)


def _has_name(text: str) -> bool:
    name, found, _ = text.partition("=")
    return bool(found) and "/" not in name


def same_address(one: Target, other: Target) -> bool:
    """Whether two targets are the same server, perhaps with another name or key."""
    return (one.host, one.port, one.tls, one.base) == (
        other.host,
        other.port,
        other.tls,
        other.base,
    )


def _host_and_port(authority: str, usual: int) -> tuple[str, int]:
    host, port = authority, ""
    if not authority.endswith("]"):
        host, _, port = authority.rpartition(":") if ":" in authority else (authority, "", "")
    host = host.strip("[]") if _HOST.match(host) else ""
    if not is_host(host) or (port and not (port.isascii() and port.isdigit())):
        raise ValueError("an upstream needs a plain host and a numeric port")
    number = int(port) if port else usual
    if not 0 < number < 65_536:
        raise ValueError("a port is 1 to 65535")
    return host, number
