"""What goes into a session store and what comes out: frozen values, no behaviour beyond reading them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

_POSITION = re.compile(r"(0|[1-9][0-9]{0,15})-(0|[1-9][0-9]{0,15})", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """Where an event stands in its session, written `<epoch>-<seq>`.

    `seq` counts the session's events from 1 without gaps; `epoch` is that of the grant under which the event was stored,
    and never falls from one event to the next. So positions are ordered as the events are.
    """

    epoch: int
    seq: int

    def __str__(self) -> str:
        return f"{self.epoch}-{self.seq}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """The position that `text` writes. Raises ValueError for anything else."""
        if (match := _POSITION.fullmatch(text)) is None:
            raise ValueError(f"{text!r:.60} is no position: it is written <epoch>-<seq>, such as 3-17")
        return cls(int(match[1]), int(match[2]))


@dataclass(frozen=True, slots=True, order=True)
class SessionKey:
    """A session's name: unique within the user of an app."""

    app: str
    user: str
    session: str


@dataclass(frozen=True, slots=True)
class Event:
    """One event of a session.

    `event_id` is unique within the session. `body` is JSON that the store does not look into. `invocation_id`, `author`
    and `tag` (which kind of event the body is) are kept beside it. `partial`: a piece of a stream, which no store takes.
    """

    event_id: str
    body: bytes
    invocation_id: str = ""
    author: str = ""
    tag: str = "generic"
    partial: bool = False


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event with its place. `version`: the session's after the append that brought it; `gseq`: the shard's count of
    writes then; `at_ms`: the store's Unix time."""

    position: Position
    version: int
    gseq: int
    at_ms: int
    event: Event


@dataclass(frozen=True, slots=True)
class Written:
    """A write that the store acknowledges.

    `gseq`: the shard's count of writes with this one. `remaining_ms`: how long the grant still ran when it was answered.
    `duplicate`: the same write had been stored before, and the answer is that of then.
    """

    gseq: int
    remaining_ms: int
    duplicate: bool


@dataclass(frozen=True, slots=True)
class Created(Written):
    """`version`: the new session's: 0, or above every version that an earlier session of this name had."""

    version: int


@dataclass(frozen=True, slots=True)
class Appended(Written):
    """`version`: the session's after this append. `first` and `last`: the positions of its events, all between them."""

    version: int
    first: Position
    last: Position


@dataclass(frozen=True, slots=True)
class Deleted(Written):
    """`existed`: whether there was anything to delete; without, no `gseq` was used."""

    existed: bool


@dataclass(frozen=True, slots=True)
class Committed:
    """What a lookup finds: the event's position, and version and gseq of its append."""

    position: Position
    version: int
    gseq: int


@dataclass(frozen=True, slots=True)
class Loss:
    """The last promotion that lost some of a session: the epoch that it left, and how many events."""

    epoch: int
    events: int


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session without its events. `events` and `event_bytes`: number and size of the bodies; `last`: the last
    event's position, None before the first. `lost`: what a promotion lost of it, None if none did."""

    key: SessionKey
    version: int
    last: Position | None
    events: int
    event_bytes: int
    created_ms: int
    updated_ms: int
    lost: Loss | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """Events of a session in their order, with the session as it was at that moment. `more`: there are further events in
    the range that was asked for."""

    info: SessionInfo
    events: tuple[StoredEvent, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class Listing:
    """Sessions in the store's own order. `more`: ask again, after the last of these."""

    sessions: tuple[SessionInfo, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class State:
    """The state that a session sees, by scope, each key as it was written, its prefix included. `version`: the
    session's at that moment; None where no session was asked for."""

    app: Mapping[str, Any]
    user: Mapping[str, Any]
    session: Mapping[str, Any]
    version: int | None = None

    def merged(self) -> dict[str, Any]:
        """All scopes in one map. The prefixes keep them apart."""
        return {**self.app, **self.user, **self.session}


@dataclass(frozen=True, slots=True)
class CountKey:
    """Whose count it is. `minute`: Unix time in whole minutes. `boot`: the process's start, since counts start anew."""

    minute: int
    component: str
    region: str
    node: str
    boot: str


@dataclass(frozen=True, slots=True)
class Count:
    """What one process counted in one minute so far: absolute numbers by name, which only grow."""

    key: CountKey
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Granted:
    """A grant as the store holds it now. Times in Unix milliseconds of the store."""

    epoch: int
    deadline_ms: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class Fence:
    """The store's fence at one moment.

    `identity`: the store's own now; `granted_to`: whom the last grant named, empty before the first. `deadline_ms` is 0
    when it was revoked. `fork_gseq`: what `gseq` was when the present epoch was granted. Times are Unix milliseconds of the
    store.
    """

    identity: str
    granted_to: str
    epoch: int
    deadline_ms: int
    revoked: bool
    high_water_ms: int
    gseq: int
    fork_gseq: int
    now_ms: int
