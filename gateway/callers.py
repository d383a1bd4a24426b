"""Who is calling: the key of a request, looked up without a comparison that leaks it."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from gateway.http_errors import unauthorized, web_page_forbidden
from gateway.settings.model import Caller, digest

LOCAL = Caller("local", b"", None, "interactive")
"""The caller of a gateway without callers, which listens on loopback only."""


class Callers:
    """The callers of the settings."""

    def __init__(self, callers: Sequence[Caller]) -> None:
        self._by_digest = {caller.key_sha256: caller for caller in callers}

    def identify(self, headers: Mapping[str, str]) -> Caller:
        """The caller of a request. Raises HttpError 401, or 403 for a web page that uses a gateway without keys."""
        if not self._by_digest:
            if from_elsewhere(headers):
                raise web_page_forbidden()
            return LOCAL
        key = _key(headers)
        if key is None:
            raise unauthorized()
        sought = digest(key)
        found = None
        for known, caller in self._by_digest.items():
            if hmac.compare_digest(known, sought):
                found = caller
        if found is None:
            raise unauthorized()
        return found


def from_elsewhere(headers: Mapping[str, str]) -> bool:
    """Whether a web page of another site asks. Without keys, whoever reaches the loopback address may, and any page in a
    browser on this machine can.

    Browsers name the page's origin with every POST, so a foreign one is refused; that holds against DNS rebinding too.
    """
    origin = headers.get("Origin")
    return origin is not None and not _is_local(urlsplit(origin).hostname)


def _is_local(host: str | None) -> bool:
    if host is None:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _key(headers: Mapping[str, str]) -> str | None:
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    return headers.get("x-api-key") or headers.get("x-goog-api-key")
