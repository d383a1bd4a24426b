"""The admin address: metrics, the state of targets and routes, and reloads."""

from __future__ import annotations

import hmac
from typing import Any

import orjson
from aiohttp import web

from gateway.callers import from_elsewhere
from gateway.http_errors import HttpError
from gateway.metrics import CONTENT_TYPE
from gateway.reload import Reloader
from gateway.service import Service
from llm.errors import Failure
from llm.target import Target
from quota.target_quota import Level
from stanchion import __version__


class Admin:
    """Handlers of the admin address."""

    def __init__(self, service: Service, reloader: Reloader) -> None:
        self._service, self._reloader = service, reloader

    def allow(self, request: web.Request) -> None:
        """Raises HttpError 401 without the token, where one is set."""
        token = self._service.settings.gateway.admin_token
        if token is None:
            return
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(
            given.strip().encode("utf-8", "surrogateescape"), token.get_secret_value().encode()
        ):
            message = "the admin token is missing or wrong: send it as Authorization: Bearer"
            raise HttpError(401, "unauthorized", message, retry=False)

    def obey(self, request: web.Request) -> None:
        """For what changes something. Raises HttpError 403 for a web page of another site, where no token is asked for."""
        if self._service.settings.gateway.admin_token is None and from_elsewhere(request.headers):
            message = "an admin address without a token obeys no web pages of other sites: set gateway.admin_token"
            raise HttpError(403, "forbidden", message, retry=False)

    async def metrics(self, request: web.Request) -> web.Response:
        return web.Response(body=self._service.metrics.exposition(), headers={"Content-Type": CONTENT_TYPE})

    async def targets(self, request: web.Request) -> web.Response:
        service = self._service
        body = {
            "version": __version__,
            "settings_version": service.settings.version,
            "region": service.settings.gateway.region,
            "uptime_s": round(service.clock.now() - service.started_at, 1),
            "draining": service.draining,
            "targets": [self._target(target) for target in service.engine.targets.values()],
            "routes": [self._route(name) for name in service.routes],
        }
        return web.Response(body=orjson.dumps(body), content_type="application/json")

    async def reload(self, request: web.Request) -> web.Response:
        """Read the settings again. It goes on should the caller leave."""
        self.obey(request)
        result = await self._reloader.reload("admin")
        body = orjson.dumps(result.as_dict())
        return web.Response(body=body, status=200 if result.applied else 422, content_type="application/json")

    def _target(self, target: Target) -> dict[str, Any]:
        service, spec = self._service, target.spec
        view, hold, levels = target.breaker_view(), target.hold(), target.quota.levels()
        tally = service.tally.targets[spec.name]
        failure = tally.failure
        return {
            "name": spec.name,
            "provider": spec.provider.name,
            "model": spec.model,
            "region": spec.region,
            "credential": spec.credential.name,
            "breaker": {
                "state": view.state,
                "samples": view.samples,
                "failures": view.failures,
                "retry_in_s": round(view.retry_in_s, 3),
            },
            "hold": hold
            and {
                "reason": hold.reason.value,
                "scope": hold.scope,
                "seconds_left": round(service.engine.holds.seconds_left(hold), 3),
            },
            "quota": {
                "requests": _level(levels.requests),
                "tokens": _level(levels.tokens),
                "in_flight": levels.in_flight,
                "concurrency": levels.concurrency,
            },
            "last_error": failure
            and {
                "class": failure.error_class.value,
                "message": _words(failure),
                "seconds_ago": round(service.clock.now() - tally.failed_at, 1),
            },
            "counts": {"attempts": tally.attempts, "success": tally.success},
        }

    def _route(self, name: str) -> dict[str, Any]:
        stops = [stop.target.name for stop in self._service.routes[name].stops]
        usable = sum(self._service.engine.targets[stop].blocked() is None for stop in stops)
        turns = {outcome.value: count for outcome, count in self._service.tally.routes[name].items()}
        return {"name": name, "targets": stops, "usable": usable, "turns": turns}


def _words(failure: Failure) -> str:
    """What went wrong, without the provider's wording, which may repeat a prompt."""
    if not failure.quoted:
        return failure.message
    said = "the provider reported an error" if failure.status is None else f"the provider answered {failure.status}"
    return said if failure.code is None else f"{said} ({failure.code[:100]})"


def _level(bucket: Level | None) -> dict[str, float] | None:
    return None if bucket is None else {"level": round(bucket.level, 3), "capacity": round(bucket.capacity, 3)}
