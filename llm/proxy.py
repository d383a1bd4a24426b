"""An HTTP proxy between the gateway and a provider, and how its URL is read."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from urllib.parse import unquote, unquote_to_bytes, urlsplit

_ADVICE = "write http://HOST:PORT or https://HOST:PORT, with USER:PASSWORD@ before the host if the proxy asks for them"


@dataclass(frozen=True, slots=True)
class Proxy:
    """`secure`: the proxy itself is spoken to over TLS. `authorization` is the value of `Proxy-Authorization`, a secret."""

    host: str
    port: int
    secure: bool = False
    authorization: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be seen in a message."""
        encoded = (self.authorization or "").removeprefix("Basic ")
        return tuple(secret for secret in (encoded, self.password) if secret)


def parse(url: str) -> Proxy | None:
    """The proxy of a URL, None for an empty text. User and password are percent-decoded.

    Raises ValueError with a sentence that repeats nothing of the URL, since it may hold a password.
    """
    if not url:
        return None
    if not url.isprintable() or " " in url:  # urlsplit would drop some of these in silence
        raise ValueError(f"the URL holds a blank or a control character: {_ADVICE}")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its message quotes what stands before the port
        raise ValueError(f"the value is not the URL of a proxy: {_ADVICE} (their @ : / # ? as %40 and so on)") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise ValueError(f"the value is not the URL of an HTTP proxy: {_ADVICE}")
    if parts.path not in ("", "/") or parts.query or parts.fragment:
        raise ValueError(f"the URL of a proxy has nothing behind its port: {_ADVICE} (their / # ? as %2F and so on)")
    secure = parts.scheme == "https"
    authorization = password = None
    if "@" in parts.netloc:
        raw = unquote_to_bytes(parts.username or "") + b":" + unquote_to_bytes(parts.password or "")
        authorization = "Basic " + base64.b64encode(raw).decode()
        password = unquote(parts.password or "") or None
    return Proxy(parts.hostname, port or (443 if secure else 80), secure, authorization, password)
