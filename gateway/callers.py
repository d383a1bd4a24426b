"""Who is calling: the key of a request, looked up without a comparison that leaks it."""

from __future__ import annotations

import hmac
from collections.abc import Mapping, Sequence

from gateway.http_errors import unauthorized
from gateway.settings.model import Caller, digest

LOCAL = Caller("local", b"", None, "interactive")
"""The caller of a gateway without callers, which listens on loopback only."""


class Callers:
    """The callers of the settings."""

    def __init__(self, callers: Sequence[Caller]) -> None:
        self._by_digest = {caller.key_sha256: caller for caller in callers}

    def identify(self, headers: Mapping[str, str]) -> Caller:
        """The caller of a request. Raises HttpError 401."""
        if not self._by_digest:
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


def _key(headers: Mapping[str, str]) -> str | None:
    scheme, _, token = headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    return headers.get("x-api-key") or headers.get("x-goog-api-key")
