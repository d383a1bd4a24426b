"""The certificate of the listen address, and its exchange while connections stand."""

from __future__ import annotations

import ssl

from gateway.policy import TlsPolicy


class Certificate:
    """`context` is what the address is bound with. Raises OSError or ValueError when the files cannot be used.

    A new certificate is loaded into a context of its own, and handshakes are led over to that: loaded into the one that
    serves, a certificate whose key does not fit would be half there, and every handshake from then on would fail.
    """

    def __init__(self, files: TlsPolicy) -> None:
        self._current = self.context = loaded(files)
        self.context.sni_callback = self._choose

    def use(self, context: ssl.SSLContext) -> None:
        """Every handshake from now on is made with the certificate of `context`."""
        self._current = context

    def _choose(self, handshake: ssl.SSLObject | ssl.SSLSocket, _name: str | None, _context: ssl.SSLContext) -> None:
        """OpenSSL asks this at each handshake, whether or not the caller names a host."""
        handshake.context = self._current


def loaded(files: TlsPolicy) -> ssl.SSLContext:
    """A server's context with this certificate. Raises OSError or ValueError."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    # The password is for keys that ask for one: without it OpenSSL would ask the terminal.
    context.load_cert_chain(files.cert, files.key, password=lambda: b"")
    return context
