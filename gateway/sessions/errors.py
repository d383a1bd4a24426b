"""Every error of a session that a caller can meet, mapped to HTTP in one table."""

from __future__ import annotations

from dataclasses import replace

from gateway.http_errors import HttpError
from regions.errors import UnknownShard
from sessions.errors import (
    EventIdsMixed,
    FenceRefused,
    InDoubt,
    InvalidInput,
    LimitExceeded,
    SessionExists,
    SessionGone,
    SessionNotFound,
    SessionsError,
    StoreUnavailable,
    VersionConflict,
)

DOUBT_RETRY_S = 1.0
"""After which a write in doubt is repeated or looked up."""

_STATUS: tuple[tuple[type[Exception], int, str, str], ...] = (
    (InvalidInput, 400, "bad_request", "invalid_session_request"),
    (SessionExists, 409, "bad_request", "already_exists"),
    (EventIdsMixed, 409, "bad_request", "event_ids_mixed"),
    (VersionConflict, 412, "bad_request", "stale_session"),
    (FenceRefused, 412, "store", "fence_lost"),
    (SessionGone, 404, "not_found", "session_gone"),
    (SessionNotFound, 404, "not_found", "session_not_found"),
    (LimitExceeded, 413, "too_large", "session_limit"),
    (UnknownShard, 404, "not_found", "shard_not_found"),
)


def http_error(error: SessionsError | UnknownShard, retry_after_s: float) -> HttpError:
    """`retry_after_s`: when asking again may help, where the store cannot be asked now."""
    if isinstance(error, InDoubt):
        headers = () if error.event_id is None else (("x-stanchion-event-id", _header(error.event_id)),)
        return HttpError(
            503, "store", str(error), "in_doubt", param=error.event_id, retry_after_s=DOUBT_RETRY_S, headers=headers
        )
    if isinstance(error, StoreUnavailable):
        return HttpError(503, "store", str(error), "store_unavailable", retry_after_s=retry_after_s)
    for kind, status, name, code in _STATUS:
        if isinstance(error, kind):
            found = HttpError(status, name, str(error), code, retry=False)
            if isinstance(error, VersionConflict):
                found = replace(found, headers=(("ETag", f'"{error.version}"'),))
            return found
    return HttpError(500, "internal", "the session store failed on this request; the log has its id", retry=False)


def _header(value: str) -> str:
    """An id may hold any character; a header may not."""
    return value.encode("ascii", "backslashreplace").decode().replace("\r", "").replace("\n", "")
