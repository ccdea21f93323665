"""SHELL: the certificate that a ROOST_HOME makes for itself, and the fingerprint nodes know it by.

One file, `secrets/tls.pem`, has key and certificate: it is there whole or not at all, so they
always belong together. `certificate.pem` beside the database is the public half again, for clients
that take a file of authorities (`curl --cacert`).
"""

from __future__ import annotations

import contextlib
import hashlib
import ipaddress
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from roost.errors import RoostError, fail
from roost.store.credentials.validity import ends_at
from roost.store.files import locked, translated, write_atomic
from roost.store.home import Home

DAYS = 3650
"""How long a certificate counts: it is known by its fingerprint, so nothing is won by less."""
MAKE_S = 20.0
OPENSSL = "openssl"
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
PUBLIC_MODE = 0o644
_NAME = re.compile(r"(\*\.)?[A-Za-z0-9]([A-Za-z0-9-]*)(\.[A-Za-z0-9-]+)*\.?")
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n?", re.DOTALL)
# Not an authority: libraries that are strict about that would not let it stand for a server.
_WANTED = """\
[req]
prompt = no
distinguished_name = name
x509_extensions = extensions
[name]
CN = roost
[extensions]
basicConstraints = critical,CA:FALSE
keyUsage = critical,digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
subjectAltName = {names}
"""
# Nobody is asked at these: a datagram's route tells which address this machine would use.
_FAR = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


class Certificate(msgspec.Struct, frozen=True):
    """A certificate of one's own.

    `path` holds key and certificate in PEM, `public` the certificate alone; `fingerprint` is its
    SHA-256 in 64 hexadecimal digits. `is_new` says that this call has made it.
    """

    path: Path
    public: Path
    fingerprint: str
    ends: datetime
    is_new: bool = False


def fingerprint_of(der: bytes) -> str:
    """Return a certificate's SHA-256, by which nodes know it."""
    return hashlib.sha256(der).hexdigest()


def own_certificate(home: Home, names: Iterable[str] = (), openssl: str = OPENSSL) -> Certificate:
    """Return this home's certificate; made now, for `names` too, where there is none.

    Of any number who ask at once, one makes it. Raises `storage_error` for a file that is damaged,
    or where no `openssl` can make one.
    """
    with _held(home):
        is_new = not _path(home).exists()
        if is_new:
            write_atomic(_path(home), _made(home, names, openssl))
        return _read(home, is_new=is_new)


def renewed_certificate(
    home: Home, names: Iterable[str] = (), openssl: str = OPENSSL
) -> Certificate:
    """Make another certificate in place of the one there is; raises what `own_certificate` does."""
    with _held(home):
        write_atomic(_path(home), _made(home, names, openssl))
        return _read(home, is_new=True)


def known_certificate(home: Home) -> Certificate | None:
    """Return this home's certificate if there is one; raises `storage_error` for a damaged one."""
    with _held(home):
        return _read(home) if _path(home).exists() else None


def fingerprint_in(path: Path) -> str:
    """Return that of the first certificate of a file in PEM; raises `bad_request` for none."""
    try:
        found = _PEM.search(path.read_bytes())
        return fingerprint_of(ssl.PEM_cert_to_DER_cert(found[0].decode("ascii") if found else ""))
    except (OSError, ValueError):
        message = "tls_cert names a file that is no certificate in PEM."
        raise fail("bad_request", message, param="tls_cert") from None


@contextlib.contextmanager
def _held(home: Home) -> Iterator[None]:
    with translated(), locked(home.locks / "certificate"):
        yield


def _path(home: Home) -> Path:
    return home.secrets / "tls.pem"


def _read(home: Home, *, is_new: bool = False) -> Certificate:
    path, public = _path(home), home.root / "certificate.pem"
    found = _PEM.search(path.read_bytes())
    try:
        if found is None:
            raise ValueError("no certificate in it")
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path)
        der = ssl.PEM_cert_to_DER_cert(found[0].decode("ascii"))
        ends = ends_at(der)
    except (ValueError, ssl.SSLError):
        message = (
            "secrets/tls.pem in ROOST_HOME is damaged. Remove it, start again, and give the nodes "
            "new tokens."
        )
        raise fail("storage_error", message) from None
    if not public.is_file() or public.read_bytes() != found[0]:
        write_atomic(public, found[0], PUBLIC_MODE)
    return Certificate(path, public, fingerprint_of(der), ends, is_new)


def _made(home: Home, names: Iterable[str], openssl: str) -> bytes:
    """Have a key and its certificate made, in a folder that nobody else can read."""
    program = shutil.which(openssl)
    if program is None:
        raise _not_made("there is no `openssl` here: install it")
    with tempfile.TemporaryDirectory(prefix=".tls-", dir=home.secrets) as folder:
        wanted, key, made = (Path(folder) / name for name in ("wanted", "key", "certificate"))
        wanted.write_text(_WANTED.format(names=_alternatives([*names, *own_names()])))
        command = [program, "req", "-x509", "-nodes", "-sha256", "-days", str(DAYS)]
        command += ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"]
        command += ["-config", str(wanted), "-keyout", str(key), "-out", str(made)]
        try:
            subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=MAKE_S, check=True
            )
        except (subprocess.SubprocessError, OSError) as error:
            raise _not_made(f"`openssl` did not do it ({type(error).__name__}): look at it") from (
                None
            )
        return key.read_bytes() + made.read_bytes()


def _not_made(why: str) -> RoostError:
    return fail(
        "storage_error",
        f"No certificate could be made, as {why}; or give --tls-cert and --tls-key, or say "
        "--insecure-http if something in front of roost does TLS.",
    )


def own_names() -> list[str]:
    """List what this machine may be called by others: its name, and its addresses towards them."""
    found = [*LOOPBACK_NAMES, socket.gethostname()]
    for family, far in _FAR:
        # No packet is sent: connecting a datagram socket only asks for the route.
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as asked:
            asked.connect((far, 9))
            found.append(asked.getsockname()[0])
    return found


def _alternatives(names: Iterable[str]) -> str:
    """Write names and addresses as a certificate has them; what can be neither is left out."""
    return ",".join(dict.fromkeys(filter(None, map(_alternative, names))))


def _alternative(name: str) -> str:
    with contextlib.suppress(ValueError):
        return f"IP:{ipaddress.ip_address(name)}"
    return f"DNS:{name.rstrip('.')}" if _NAME.fullmatch(name) else ""
