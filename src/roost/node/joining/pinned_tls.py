"""SHELL: TLS to a gateway that is known by its certificate's fingerprint, and by nothing else.

The check is part of the handshake: nothing is said to whoever shows another certificate, and there
is no moment between looking and talking. Names, dates and authorities play no part. A node need not
know what the gateway is called, and a machine without a clock may join.
"""

from __future__ import annotations

import hashlib
import hmac
import ssl

OTHER = "another certificate than the one that was named"


def pinned_context(fingerprint: str) -> ssl.SSLContext:
    """Return the TLS of a client that talks to the owner of this one certificate alone.

    `fingerprint` is the certificate's SHA-256 in lower-case hexadecimal digits. A handshake with
    anybody else fails with `ssl.SSLCertVerificationError`.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    # What OpenSSL still checks is that the peer owns the key of what it shows.
    context.verify_mode = ssl.CERT_NONE
    context.sslobject_class, context.sslsocket_class = _of(fingerprint)
    return context


def _of(fingerprint: str) -> tuple[type[ssl.SSLObject], type[ssl.SSLSocket]]:
    """Make the two kinds of connection that Python has, for event loops and for plain sockets."""

    def check(shown: bytes | None) -> None:
        if not hmac.compare_digest(hashlib.sha256(shown or b"").hexdigest(), fingerprint):
            raise ssl.SSLCertVerificationError(OTHER)

    class PinnedObject(ssl.SSLObject):
        """Stands only with the certificate that was named."""

        def do_handshake(self) -> None:
            """Shake hands, and look whose hand it was."""
            super().do_handshake()
            check(self.getpeercert(binary_form=True))

    class PinnedSocket(ssl.SSLSocket):
        """Stands only with the certificate that was named."""

        def do_handshake(self, block: bool = False) -> None:  # noqa: FBT001, FBT002 - as it is there
            """Shake hands, and look whose hand it was."""
            super().do_handshake(block)
            check(self.getpeercert(binary_form=True))

    return PinnedObject, PinnedSocket
