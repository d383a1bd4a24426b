"""`RedisStore`: the contract over one shard's primary. What a step does is in `library.lua`; here it is asked and read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sessions.acknowledge import acknowledged
from sessions.checks import (
    Delta,
    check_counts,
    check_events,
    check_key,
    check_name,
    check_number,
    page_limit,
    split_state,
)
from sessions.errors import FenceRefused, InDoubt, ReadOnlyStore, StoreUnavailable
from sessions.limits import Limits
from sessions.model import (
    Appended,
    Committed,
    Count,
    Created,
    Deleted,
    Event,
    Fence,
    Granted,
    Listing,
    Page,
    Position,
    SessionInfo,
    SessionKey,
    State,
)
from sessions.redis import answers
from sessions.redis.keys import Keys, encoded, key_of, member
from sessions.redis.link import Link, connections
from sessions.redis.link import Lost as NoAnswer
from sessions.redis.replication import RedisReplication
from sessions.redis.script import SOURCE, Script
from sessions.redis.tail import read_tail
from sessions.refusals import refused
from sessions.tail import Lost, LostSession

MINUTES_AT_ONCE = 500
"""Minutes of counts that one call reads, so that a long window does not keep the server from others."""


@dataclass(frozen=True, slots=True)
class Timing:
    """`timeout_s`: from sending a command to its answer. `connect_timeout_s`: for a connection, TLS and login included.
    `wait_s`: for a free one of `connections`."""

    timeout_s: float = 2.0
    connect_timeout_s: float = 2.0
    wait_s: float = 1.0
    connections: int = 64


@dataclass(frozen=True, slots=True)
class Sync:
    """An append, creation or deletion is acknowledged only when so many replicas have it in memory, within `timeout_s`.

    All replicas of the server count: for a shard that must survive its region they may only be in other regions.
    """

    replicas: int
    timeout_s: float = 1.0


class RedisStore:
    """See `sessions.store.SessionStore`. It connects when it is first asked; made in a running loop, ended by `close`.

    `now` is the writer's monotonic clock in seconds, one that counts while the machine sleeps: an answer is passed on only
    within the lease that it was given under. `source`: the library's text, for tests. The constructor raises ValueError for a
    URL that cannot be read.
    """

    def __init__(
        self,
        url: str,
        *,
        shard: str,
        now: Callable[[], float],
        limits: Limits | None = None,
        timing: Timing | None = None,
        sync: Sync | None = None,
        source: str = SOURCE,
    ) -> None:
        timing = timing or Timing()
        self._limits = limits or Limits()
        self._keys = Keys(shard)
        self._now = now
        self._sync = sync
        self._link = Link(
            connections(url, timing.connect_timeout_s),
            most=timing.connections,
            timeout_s=timing.timeout_s + (sync.timeout_s if sync else 0.0),
            wait_s=timing.wait_s,
            connect_timeout_s=timing.connect_timeout_s,
        )
        self._script = Script(self._link, source)
        self.replication = RedisReplication(self._link)

    @property
    def limits(self) -> Limits:
        return self._limits

    @property
    def uses_functions(self) -> bool | None:
        """Whether the server takes Redis Functions; None before the first call, False where scripts stand in for them."""
        return self._script.uses_functions

    async def create(
        self, key: SessionKey, *, epoch: int, write_id: str, state: Mapping[str, object] | None = None
    ) -> Created:
        check_key(key, self._limits)
        check_name("write_id", write_id, self._limits)
        args: list[str | bytes | int] = [
            "create",
            epoch,
            write_id,
            member(key),
            encoded(key.app, key.user, key.session),
            self._limits.state_bytes,
        ]
        args += _pairs(split_state(state, self._limits))
        started = self._now()
        answer = await self._write(self._keys.of_session(key), args, write_id, synced=True)
        gseq, remaining_ms, duplicate, version = (int(part) for part in answer)
        created = Created(gseq, remaining_ms, bool(duplicate), version)
        return acknowledged(created, self._now() - started, write_id)

    async def append(
        self,
        key: SessionKey,
        events: Sequence[Event],
        *,
        epoch: int,
        expected_version: int | None,
        state: Mapping[str, object] | None = None,
    ) -> Appended:
        check_key(key, self._limits)
        batch = check_events(events, self._limits)
        limits = self._limits
        args: list[str | bytes | int] = [
            *("append", epoch, "" if expected_version is None else expected_version),
            encoded(key.app, key.user, key.session),
            *(limits.session_events, limits.session_bytes, limits.state_bytes, len(batch)),
        ]
        for event in batch:
            args += (event.event_id, event.invocation_id, event.author, event.tag, event.body)
        args += _pairs(split_state(state, limits))
        started = self._now()
        answer = await self._write(self._keys.of_session(key), args, batch[0].event_id, synced=True)
        gseq, remaining_ms, duplicate, version = (int(part) for part in answer[:4])
        first, last = answers.position(answer[4]), answers.position(answer[5])
        appended = Appended(gseq, remaining_ms, bool(duplicate), version, first, last)
        return acknowledged(appended, self._now() - started, batch[0].event_id)

    async def delete(self, key: SessionKey, *, epoch: int) -> Deleted:
        check_key(key, self._limits)
        return await self._delete(key, epoch, "deleted", "")

    async def expire(self, *, epoch: int, idle_before_ms: int, limit: int = 100) -> tuple[SessionKey, ...]:
        most = page_limit(limit, self._limits)
        await self._write([self._keys.fence], ["check", epoch], None)  # refused even with nothing to delete
        (found,) = await self._read(self._keys.idle(), ["idle", idle_before_ms, most])
        expired = []
        for name in found:
            key = key_of(name.decode())
            if (await self._delete(key, epoch, "expired", idle_before_ms)).existed:  # the time is looked at again
                expired.append(key)
        return tuple(expired)

    async def info(self, key: SessionKey) -> SessionInfo:
        check_key(key, self._limits)
        (row,) = await self._read(self._keys.of_session(key), ["info"])
        return answers.info(key, row)

    async def read(
        self,
        key: SessionKey,
        *,
        after: Position | None = None,
        until: Position | None = None,
        limit: int | None = None,
        newest: bool = False,
    ) -> Page:
        check_key(key, self._limits)
        most = page_limit(limit, self._limits)
        first, last = f"({after}" if after else "-", str(until) if until else "+"
        args: list[str | bytes | int] = ["page", first, last, most + 1, "new" if newest else "old"]
        row, entries = await self._read(self._keys.of_session(key), args)
        events = [answers.event(entry) for entry in entries[:most]]
        ordered = tuple(reversed(events) if newest else events)
        return Page(answers.info(key, row), ordered, more=len(entries) > most)

    async def state(self, key: SessionKey) -> State:
        check_key(key, self._limits)
        version, app, user, session = await self._read(self._keys.of_session(key), ["state"])
        return State(answers.state(app), answers.state(user), answers.state(session), int(version))

    async def shared_state(self, app: str, user: str) -> State:
        check_name("app", app, self._limits)
        check_name("user", user, self._limits)
        of_app, of_user = await self._read(self._keys.shared(app, user), ["shared"])
        return State(answers.state(of_app), answers.state(of_user), {})

    async def list_sessions(
        self, app: str, *, user: str | None = None, after: SessionKey | None = None, limit: int = 100
    ) -> Listing:
        most = page_limit(limit, self._limits)
        check_name("app", app, self._limits)
        first, last = ("-", "+") if user is None else (f"[{encoded(user)}:", f"({encoded(user)};")  # `;` follows `:`
        if after is not None:
            first = f"({member(after)}"
        found = await self._read(self._keys.listing(app), ["list", first, last, most + 1])
        infos = [answers.info(key_of(f"{encoded(app)}:{name.decode()}"), row) for name, row in found[:most]]
        return Listing(tuple(infos), more=len(found) > most)

    async def lookup(self, key: SessionKey, event_id: str) -> Committed | None:
        check_key(key, self._limits)
        found = await self._read(self._keys.of_session(key), ["lookup", event_id])
        return answers.committed(found[0]) if found else None

    async def add_counts(self, counts: Sequence[Count], *, epoch: int) -> None:
        args: list[str | bytes | int] = ["add_counts", epoch]
        for count in check_counts(counts, self._limits):
            for name, number in count.counts.items():
                args += (count.key.minute, answers.count_field(count.key, name), number)
        await self._write(self._keys.counts(), args, None)

    async def read_counts(self, first_minute: int, end_minute: int) -> tuple[Count, ...]:
        found: list[Count] = []
        while True:
            args: list[str | bytes | int] = ["counts", first_minute, end_minute, MINUTES_AT_ONCE]
            minutes = await self._read(self._keys.counts(), args)
            for minute, fields in minutes:
                found += answers.counts(int(minute), fields)
            if len(minutes) < MINUTES_AT_ONCE:
                return tuple(found)
            first_minute = int(minutes[-1][0]) + 1

    async def drop_counts(self, before_minute: int, *, epoch: int) -> int:
        (minutes,) = await self._write(self._keys.counts(), ["drop_counts", epoch, before_minute], None)
        return int(minutes)

    async def fence(self) -> Fence:
        row = await self._read([self._keys.fence], ["fence"])
        epoch, deadline_ms, revoked, high_water_ms, gseq, fork_gseq, now_ms = (int(part) for part in row[2:])
        return Fence(
            identity=row[0].decode(),
            granted_to=row[1].decode(),
            epoch=epoch,
            deadline_ms=deadline_ms,
            revoked=bool(revoked),
            high_water_ms=high_water_ms,
            gseq=gseq,
            fork_gseq=fork_gseq,
            now_ms=now_ms,
        )

    async def grant(self, epoch: int, identity: str, deadline_ms: int) -> Granted:
        check_number("epoch", epoch)
        check_number("deadline_ms", deadline_ms)
        args: list[str | bytes | int] = ["grant", epoch, identity, deadline_ms, self._limits.longest_lease_ms]
        answer = await self._write([self._keys.fence], args, None)
        return Granted(*(int(part) for part in answer))

    async def revoke(self, epoch: int) -> int:
        check_number("epoch", epoch)
        (gseq,) = await self._write([self._keys.fence], ["revoke", epoch], None)
        return int(gseq)

    def use_sync(self, sync: Sync | None) -> None:
        """From the next write on. Those under way keep what they began with."""
        self._sync = sync

    def tail(self, above_gseq: int) -> AsyncIterator[Lost]:
        """See `sessions.tail.PromotableStore`."""
        return read_tail(self._link, self._keys, above_gseq)

    async def mark_lost(self, key: SessionKey, lost: LostSession, *, epoch: int, lost_epoch: int) -> None:
        """See `sessions.tail.PromotableStore`."""
        check_key(key, self._limits)
        kept_ms = self._limits.gone_s * 1000
        args = ["mark_lost", epoch, lost_epoch, lost.events, lost.version, lost.seq, kept_ms]
        await self._write(self._keys.of_session(key), args, None)

    async def drop_connections(self) -> None:
        """Close idle connections, so that the next command finds the server anew: after a failover, say."""
        await self._link.drop()

    async def close(self) -> None:
        await self._link.close()

    async def _delete(self, key: SessionKey, epoch: int, reason: str, idle_before_ms: int | str) -> Deleted:
        name = encoded(key.app, key.user, key.session)
        args: list[str | bytes | int] = [
            "delete",
            epoch,
            reason,
            idle_before_ms,
            member(key),
            name,
            self._limits.gone_s * 1000,
        ]
        started = self._now()
        answer = await self._write(self._keys.of_session(key), args, None, synced=True)
        gseq, remaining_ms, _, existed = (int(part) for part in answer)
        deleted = Deleted(gseq, remaining_ms, duplicate=False, existed=bool(existed))
        return acknowledged(deleted, self._now() - started, None)

    async def _write(
        self, keys: list[str], args: list[Any], event_id: str | None, *, synced: bool = False
    ) -> list[Any]:
        """One write. Raises InDoubt when it was sent and is not known to have happened, or not to be on enough replicas."""
        sync = self._sync if synced else None
        wait = None if sync is None else ("WAIT", sync.replicas, int(sync.timeout_s * 1000))
        try:
            answer, waited = await self._script.call(keys, args, writes=True, wait=wait)
        except NoAnswer as lost:
            await self._link.drop()
            raise InDoubt(event_id, str(lost)) from lost
        except ReadOnlyStore:
            await self._link.drop()
            raise
        try:
            read = _accepted(answer)
        except FenceRefused:  # whoever is behind this address now, the next command looks anew
            await self._link.drop()
            raise
        if sync is not None and (waited is None or waited < sync.replicas):
            raise InDoubt(event_id, f"{waited or 0} of {sync.replicas} replicas have confirmed it")
        return read

    async def _read(self, keys: list[str], args: list[Any]) -> list[Any]:
        try:
            answer, _ = await self._script.call(keys, args, writes=False)
        except NoAnswer as lost:
            await self._link.drop()
            raise StoreUnavailable(f"the sessions' Redis did not answer ({lost}): try again") from lost
        return _accepted(answer)


def _accepted(answer: list[Any]) -> list[Any]:
    """What follows the `+`; raises the refusal that follows a `-`."""
    if answer[0] == b"-":
        details = [part.decode() if isinstance(part, bytes) else part for part in answer[2:]]
        raise refused(answer[1].decode(), details)
    return answer[1:]


def _pairs(delta: Delta) -> list[str | bytes | int]:
    """The change of state as the library reads it: for each scope the number, then keys and values."""
    flat: list[str | bytes | int] = []
    for pairs in (delta.app, delta.user, delta.session):
        flat.append(len(pairs))
        for key, value in pairs:
            flat += (key, value)
    return flat
