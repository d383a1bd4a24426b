"""How much a store takes. What is over a limit is refused with `LimitExceeded`; nothing is cut off or dropped."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Sizes in bytes, as they are stored.

    `name_bytes`: of an app, user, session, event or invocation id, author, tag or state key. `append_events`: of one append.
    `session_events` and `session_bytes`: all of a session. `state_bytes`: keys and values of one scope. `page_events`: the
    most that one read returns. `longest_lease_ms`: how far ahead of the store's time a grant's deadline may be.
    `gone_s`: how long the store remembers that a session was deleted.
    """

    name_bytes: int = 256
    event_bytes: int = 4 * 1024 * 1024
    append_events: int = 256
    append_bytes: int = 16 * 1024 * 1024
    session_events: int = 100_000
    session_bytes: int = 256 * 1024 * 1024
    state_bytes: int = 1024 * 1024
    page_events: int = 1000
    longest_lease_ms: int = 60_000
    gone_s: int = 7 * 24 * 3600
