"""The names of a shard's keys.

All of a shard begin with `stanchion:{<shard>}:`, and the braces put them into one slot, which makes one atomic step over a
session and the state that it shares possible. Every name within is percent-encoded, so that `:` only divides:

    fence                           epoch, grant, high-water mark, gseq
    meta:<app>:<user>:<session>     version, counts, times
    events:…                        the stream of events; an entry's id is the event's position
    ids:…                           event id → position, version, gseq, part and number of its append
    state:<app>                     the app's state; `state:<app>:<user>` and `state:<app>:<user>:<session>` likewise
    gone:…                          what is remembered of a deleted session, for a while
    index:<app>                     the app's sessions, by user and name
    idle                            all sessions by their last write
    minutes, counts:<minute>        counts
"""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import quote, unquote

from sessions.model import SessionKey


def encoded(*parts: str) -> str:
    return ":".join(quote(part, safe="") for part in parts)


def member(key: SessionKey) -> str:
    """A session within its app."""
    return encoded(key.user, key.session)


def key_of(text: str) -> SessionKey:
    """The session that `encoded(app, user, session)` names."""
    app, user, session = (unquote(part) for part in text.split(":"))
    return SessionKey(app, user, session)


@dataclass(frozen=True, slots=True)
class Keys:
    shard: str
    prefix: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefix", f"stanchion:{{{encoded(self.shard)}}}:")

    @property
    def fence(self) -> str:
        return f"{self.prefix}fence"

    def of_session(self, key: SessionKey) -> list[str]:
        """In the order that the library takes them."""
        app, user, name = encoded(key.app), encoded(key.app, key.user), encoded(key.app, key.user, key.session)
        return [
            self.fence,
            *(f"{self.prefix}{kind}:{name}" for kind in ("meta", "events", "ids")),
            *(f"{self.prefix}state:{scope}" for scope in (app, user, name)),
            f"{self.prefix}index:{app}",
            f"{self.prefix}idle",
            f"{self.prefix}gone:{name}",
        ]

    def shared(self, app: str, user: str) -> list[str]:
        return [self.fence, f"{self.prefix}state:{encoded(app)}", f"{self.prefix}state:{encoded(app, user)}"]

    def listing(self, app: str) -> list[str]:
        return [self.fence, f"{self.prefix}index:{encoded(app)}", f"{self.prefix}meta:{encoded(app)}:"]

    def idle(self) -> list[str]:
        return [self.fence, f"{self.prefix}idle"]

    def counts(self) -> list[str]:
        return [self.fence, f"{self.prefix}minutes", f"{self.prefix}counts:"]
