"""The admin routes of regions: what they are like, a promotion planned, and done."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import orjson
from aiohttp import web

from gateway.http_errors import HttpError
from gateway.regional.report import report
from regions.errors import (
    AuthorityError,
    PromotionRefused,
    PromotionStopped,
    RegionsError,
    SwapConflict,
    UnknownRegion,
    UnknownShard,
)
from regions.install import Install, ShardParts
from regions.journal import Entry, Kind
from regions.promotion import Say
from sessions.errors import SessionsError

_BODY_BYTES = 10_000
_FIELDS = {"to", "force", "reason"}


class RegionalAdmin:
    """`install` None: the sessions are in a file, and there is nothing to promote. It has to be closed."""

    def __init__(self, install: Install | None, own: str) -> None:
        self._install, self._own = install, own
        self._running: dict[str, asyncio.Task[Entry]] = {}

    def routes(self) -> dict[str, dict[str, Callable[[web.Request], Awaitable[web.StreamResponse]]]]:
        return {
            "/admin/v1/regions": {"GET": self.regions},
            "/admin/v1/shards/{shard}/promote": {"POST": self.promote},
            "/admin/v1/shards/{shard}/switchover": {"POST": self.switchover},
            "/admin/v1/shards/{shard}/promote/plan": {"POST": self.plan_promote},
            "/admin/v1/shards/{shard}/switchover/plan": {"POST": self.plan_switchover},
        }

    async def close(self) -> None:
        """Promotions under way are left: whoever owns the record goes on with them."""
        for task in self._running.values():
            task.cancel()
        await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def regions(self, request: web.Request) -> web.Response:
        if self._install is None:
            return _json({"region": self._own, "authority": None, "problem": "", "shards": []})
        return _json(await report(self._install, self._own))

    async def promote(self, request: web.Request) -> web.StreamResponse:
        return await self._act(request, "failover")

    async def switchover(self, request: web.Request) -> web.StreamResponse:
        return await self._act(request, "switchover")

    async def plan_promote(self, request: web.Request) -> web.Response:
        return await self._plan(request, "failover")

    async def plan_switchover(self, request: web.Request) -> web.Response:
        return await self._plan(request, "switchover")

    async def _plan(self, request: web.Request, kind: Kind) -> web.Response:
        part, asked = self._part(request), await _asked(request, kind)
        try:
            plan = await part.promoter.plan(kind, asked["to"], force=asked["force"])
        except (RegionsError, SessionsError) as error:
            raise _http_error(error) from None
        return _json(plan.as_dict())

    async def _act(self, request: web.Request, kind: Kind) -> web.StreamResponse:
        """Do it. It goes on should the caller leave; its steps come as lines of JSON where those are accepted."""
        part, asked = self._part(request), await _asked(request, kind)
        shard = part.spec.name
        if (running := self._running.get(shard)) is not None and not running.done():
            raise HttpError(
                409, "bad_request", f"a promotion of {shard} is under way here: wait for its end", "busy", retry=False
            )
        steps: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

        def say(step: str, sentence: str) -> None:
            steps.put_nowait({"step": step, "text": sentence})

        task = self._running[shard] = asyncio.ensure_future(_run(part, kind, asked, say))
        if "application/x-ndjson" in request.headers.get("Accept", ""):
            return await _streamed(request, task, steps)
        try:
            entry = await asyncio.shield(task)
        except (RegionsError, SessionsError) as error:
            raise _http_error(error) from None
        return _json(entry.as_dict())

    def _part(self, request: web.Request) -> ShardParts:
        if self._install is None:
            message = (
                "the sessions of this gateway are in a file, which has no other region: there is nothing to promote"
            )
            raise HttpError(404, "not_found", message, "no_shards", retry=False)
        try:
            return self._install.part(request.match_info["shard"])
        except UnknownShard as error:
            raise _http_error(error) from None


async def _run(part: ShardParts, kind: Kind, asked: dict[str, Any], say: Say) -> Entry:
    promoter, by = part.promoter, f"operator {getpass.getuser()}"
    reason = asked["reason"] or ("planned" if kind == "switchover" else "asked for by an operator")
    if kind == "switchover":
        return await promoter.switchover(asked["to"], by=by, reason=reason, say=say)
    return await promoter.failover(asked["to"], by=by, reason=reason, force=asked["force"], say=say)


async def _streamed(
    request: web.Request, task: asyncio.Task[Entry], steps: asyncio.Queue[dict[str, Any]]
) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
    await response.prepare(request)
    while not task.done() or not steps.empty():
        with suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await response.write(_line(await steps.get()))
    try:
        last = {"result": task.result().as_dict()}
    except (RegionsError, SessionsError) as error:
        failed = _http_error(error)
        last = {"error": {"status": failed.status, "code": failed.code, "message": failed.message}}
    await response.write(_line(last))
    await response.write_eof()
    return response


async def _asked(request: web.Request, kind: Kind) -> dict[str, Any]:
    data = await request.content.read(_BODY_BYTES)
    try:
        row = orjson.loads(data)
    except orjson.JSONDecodeError:
        row = None
    if not isinstance(row, dict):
        raise _bad("body", 'an object is needed, such as {"to": "us-east"}')
    fields = _FIELDS if kind == "failover" else _FIELDS - {"force"}
    if unknown := sorted(row.keys() - fields):
        raise _bad(unknown[0][:100], f"the field is not known here: use {', '.join(sorted(fields))}")
    if not isinstance(row.get("to"), str) or not row["to"]:
        raise _bad("to", "the region to go to is needed")
    force, reason = row.get("force", False), row.get("reason", "")
    if not isinstance(force, bool):
        raise _bad("force", "true or false is needed")
    if not isinstance(reason, str) or len(reason) > 500:
        raise _bad("reason", "a text of at most 500 characters is needed")
    if force and not reason.strip():
        raise _bad("reason", "a forced promotion needs a reason, which is recorded with it")
    return {"to": row["to"], "force": force, "reason": reason.strip()}


def _bad(field: str, message: str) -> HttpError:
    return HttpError(400, "bad_request", f"{field}: {message}", param=field, retry=False)


def _http_error(error: Exception) -> HttpError:
    match error:
        case UnknownShard() | UnknownRegion():
            return HttpError(404, "not_found", str(error), "unknown", retry=False)
        case PromotionRefused():
            return HttpError(409, "bad_request", str(error), error.code, retry=False)
        case SwapConflict():
            return HttpError(409, "bad_request", str(error), "changed", retry=False)
        case PromotionStopped():
            return HttpError(503, "store", str(error), "stopped", retry=False)
        case AuthorityError():
            message = f"the authority cannot be asked, and nothing is promoted without it: {error}"
            return HttpError(503, "store", message, "authority", retry_after_s=1)
    return HttpError(503, "store", str(error), "store", retry_after_s=1)


def _line(row: dict[str, Any]) -> bytes:
    return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)


def _json(value: object) -> web.Response:
    return web.Response(body=orjson.dumps(value), content_type="application/json")
