"""The handlers of `/v1/apps/…`: read, find the shard, ask it, answer."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
from aiohttp import web

from gateway import http_errors
from gateway.body import LARGE, read_body
from gateway.http_errors import HttpError
from gateway.server import SERVER
from gateway.service import Service
from gateway.sessions import answers
from gateway.sessions.asked import AskedRead, bad, key_of, read_append, read_create, read_listing, read_query
from gateway.sessions.doubts import Doubts
from gateway.sessions.errors import http_error
from gateway.sessions.metrics import SessionMetrics
from gateway.settings.model import Caller
from regions.errors import UnknownShard
from regions.sharded import Sessions, Shard
from sessions.errors import InDoubt, SessionsError
from sessions.model import Page, SessionInfo, SessionKey, State, StoredEvent
from stanchion.faults import place_of

Handle = Callable[[web.Request, Caller], Awaitable[web.Response]]

_SAME_VERSION_TRIES = 5


class SessionsApi:
    """`routes` are for the agents' application."""

    def __init__(self, service: Service, sessions: Sessions, metrics: SessionMetrics) -> None:
        self._service, self._sessions, self._metrics = service, sessions, metrics
        self._doubts = Doubts(service.clock, metrics.doubt)

    def routes(self) -> dict[str, dict[str, Callable[[web.Request], Awaitable[web.StreamResponse]]]]:
        of_user, one = "/v1/apps/{app}/users/{user}", "/v1/apps/{app}/users/{user}/sessions/{session}"
        return {
            "/v1/apps/{app}/sessions": {"GET": self._guarded("list", self._list)},
            f"{of_user}/state": {"GET": self._guarded("shared_state", self._shared_state)},
            f"{of_user}/sessions": {"POST": self._guarded("create", self._create)},
            one: {"GET": self._guarded("read", self._read), "DELETE": self._guarded("delete", self._delete)},
            f"{one}/events": {"POST": self._guarded("append", self._append)},
            f"{one}/events/{{event}}": {"GET": self._guarded("lookup", self._lookup)},
        }

    def _guarded(self, op: str, handle: Handle) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """One request: who asks, what goes wrong as an error body, one line in the log."""

        async def answer(request: web.Request) -> web.StreamResponse:
            service, began = self._service, self._service.clock.now()
            request_id, caller = service.new_id(), None
            try:
                caller = self._admit(request)
                response = await handle(request, caller)
            except HttpError as error:
                response = _error(error)
            except (SessionsError, UnknownShard) as error:
                response = _error(http_error(error, self._retry_after_s(error)))
            except Exception as error:  # noqa: BLE001 - the last net: the caller gets an answer, the operator a line
                service.log.event(
                    "error", "crash", request_id=request_id, kind=type(error).__name__, where=place_of(error)
                )
                response = _error(http_errors.unexpected())
            seconds = service.clock.now() - began
            response.headers["x-stanchion-request-id"] = response.headers["x-request-id"] = request_id
            self._metrics.request(op, response.status, seconds)
            service.log.event(
                "warning" if response.status >= 500 else "info", "session", request_id=request_id, op=op,
                caller=None if caller is None else caller.name, status=response.status, ms=round(seconds * 1000, 1),
                epoch=response.headers.get("x-stanchion-epoch"), region=response.headers.get("x-stanchion-store-region"),
            )  # fmt: skip
            return response

        return answer

    def _admit(self, request: web.Request) -> Caller:
        caller = self._service.live.callers.identify(request.headers)
        if self._service.draining:
            raise http_errors.draining()
        app = request.match_info["app"]
        if caller.apps is not None and app not in caller.apps:
            raise HttpError(
                403, "forbidden", "this caller may not use the sessions of this app", param="app", retry=False
            )
        return caller

    async def _create(self, request: web.Request, caller: Caller) -> web.Response:
        key, asked = key_of(request, session=False), read_create(await self._body(request))
        once = request.headers.get("Idempotency-Key")
        write_id = once or self._service.new_id()
        session = asked.id if asked.id is not None else self._new_id(caller, key, write_id)
        if not session:
            raise bad("id", "an empty text is no id: leave it out, or write one")
        key = SessionKey(key.app, key.user, session)
        shard = self._sessions.of(key, caller.placement)
        placed = await self._remembered(key, shard.create(key, write_id=write_id, state=asked.state))
        made = placed.answer
        row = {
            "id": key.session,
            "app": key.app,
            "user": key.user,
            "version": made.version,
            "duplicate": made.duplicate,
        }
        return _json(row, 201, answers.headers_of(placed, made.version))

    async def _append(self, request: web.Request, caller: Caller) -> web.Response:
        key = key_of(request)
        shard = self._sessions.of(key, caller.placement)
        new_id = f"evt_{self._service.random.getrandbits(96):024x}"
        body, headers = await self._body(request), request.headers
        if len(body) > LARGE:
            asked = await self._service.bodies.parse(body, lambda data: read_append(data, headers, new_id))
        else:
            asked = read_append(body, headers, new_id)
        ids = [event.event_id for event in asked.events]
        await self._doubts.settle(key, shard, repeating=ids[0])
        write = shard.append(key, asked.events, expected_version=asked.expected_version, state=asked.state)
        placed = await self._remembered(key, write)
        self._doubts.written(key, shard, ids)
        return _json(answers.appended(placed, ids), 201, answers.headers_of(placed, placed.answer.version))

    async def _read(self, request: web.Request, caller: Caller) -> web.Response:
        key = key_of(request)
        shard = self._sessions.of(key, caller.placement)
        asked = read_query(request.query, self._service.settings.sessions.limits.page_events)
        await self._doubts.settle(key, shard)
        for _ in range(_SAME_VERSION_TRIES):  # events and state of one version
            placed_state = await shard.state(key, stale=asked.stale)
            placed, events, more = await self._events(shard, key, asked)
            if placed.answer.info.version == placed_state.answer.version or asked.stale:
                break
        row = answers.whole_session(placed.answer, placed_state.answer, events, more=more)
        if placed.stale:
            row["stale"] = True
        return _json(row, 200, answers.headers_of(placed, placed.answer.info.version))

    async def _events(self, shard: Shard, key: SessionKey, asked: AskedRead) -> tuple[Any, list[StoredEvent], bool]:
        limit, after = asked.limit, asked.after
        if limit == 0:
            placed = await shard.read(key, limit=1, stale=asked.stale)
            return placed, [], bool(placed.answer.events)
        found: list[StoredEvent] = []
        while True:
            placed = await shard.read(key, after=after, limit=limit, newest=asked.newest, stale=asked.stale)
            page: Page = placed.answer
            since_ms = None if asked.after_s is None else asked.after_s * 1000
            found += [one for one in page.events if since_ms is None or one.at_ms > since_ms]
            enough = asked.newest or since_ms is None or (limit is not None and len(found) >= limit)
            if enough or not page.more:
                cut = found if limit is None else found[:limit]
                return placed, cut, page.more or len(cut) < len(found)
            after = page.events[-1].position

    async def _delete(self, request: web.Request, caller: Caller) -> web.Response:
        key = key_of(request)
        shard = self._sessions.of(key, caller.placement)
        placed = await shard.delete(key)
        return _json({"existed": placed.answer.existed}, 200, answers.headers_of(placed))

    async def _list(self, request: web.Request, caller: Caller) -> web.Response:
        """Of all shards of the caller's placement, in the order of user and session."""
        app = request.match_info["app"]
        user, after, limit, stale = read_listing(request.query)
        after = None if after is None else SessionKey(app, after.user, after.session)
        rows: list[SessionInfo] = []
        more = False
        for shard in self._sessions.in_placement(caller.placement):
            listing = (await shard.list_sessions(app, user=user, after=after, limit=limit, stale=stale)).answer
            rows += listing.sessions
            more = more or listing.more
        rows.sort(key=lambda info: info.key)
        body: dict[str, Any] = {"sessions": [answers.session(info) for info in rows[:limit]]}
        if more or len(rows) > limit:
            last = rows[:limit][-1].key
            body["next"] = {"after_user": last.user, "after_session": last.session}
        return _json(body)

    async def _shared_state(self, request: web.Request, caller: Caller) -> web.Response:
        """The states of all shards, of which each has its own: the same key of a later one stands."""
        key = key_of(request, session=False)
        _, _, _, stale = read_listing(request.query)
        merged: dict[str, Any] = {}
        for shard in self._sessions.in_placement(caller.placement):
            state: State = (await shard.shared_state(key.app, key.user, stale=stale)).answer
            merged.update(state.merged())
        return _json({"app": key.app, "user": key.user, "state": merged})

    async def _lookup(self, request: web.Request, caller: Caller) -> web.Response:
        key, event_id = key_of(request), request.match_info["event"]
        shard = self._sessions.of(key, caller.placement)
        placed = await shard.lookup(key, event_id)
        found = placed.answer
        if found is None:
            return _json({"state": "absent", "event_id": event_id}, 404, answers.headers_of(placed))
        row = {
            "state": "committed", "event_id": event_id, "position": str(found.position), "seq": found.position.seq,
            "version": found.version,
        }  # fmt: skip
        return _json(row, 200, answers.headers_of(placed))

    async def _remembered(self, key: SessionKey, write: Awaitable[Any]) -> Any:
        """The write; one in doubt is remembered."""
        try:
            return await write
        except InDoubt as error:
            self._doubts.add(key, error)
            raise

    async def _body(self, request: web.Request) -> bytes:
        limits = self._service.settings.gateway
        if not request.can_read_body:
            return b""
        return await read_body(request, limits.max_body, limits.body_timeout)

    def _new_id(self, caller: Caller, key: SessionKey, write_id: str) -> str:
        """The same for a repeat, which says the same key; else one of its time."""
        wall_ms = int(self._service.clock.wall() * 1000)
        bits = int.from_bytes(hashlib.sha256("\0".join((key.app, key.user, write_id)).encode()).digest()[:16], "big")
        if write_id.startswith("req_"):
            return self._sessions.new_id(caller.placement, self._service.settings.gateway.region, wall_ms, bits)
        return self._sessions.new_id(caller.placement, self._service.settings.gateway.region, bits >> 80, bits)

    def _retry_after_s(self, error: Exception) -> float:
        return max((shard.retry_after_s for shard in self._sessions.shards.values()), default=1.0)


def _error(error: HttpError) -> web.Response:
    headers = {"Content-Type": "application/json", "Server": SERVER, **error.header_fields()}
    response = web.Response(status=error.status, body=error.body(), headers=headers)
    if error.close:
        response.force_close()
    return response


def _json(value: object, status: int = 200, headers: dict[str, str] | None = None) -> web.Response:
    fields = {"Content-Type": "application/json", "Server": SERVER, **(headers or {})}
    return web.Response(body=orjson.dumps(value), status=status, headers=fields)
