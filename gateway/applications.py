"""The two aiohttp applications: the address of the agents and the address of the operators."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import orjson
from aiohttp import web

from gateway import http_errors
from gateway.admin import Admin
from gateway.chat import ChatCompletions
from gateway.http_errors import HttpError
from gateway.log import Log
from gateway.regional.admin import RegionalAdmin
from gateway.reload import Reloader
from gateway.server import SERVER
from gateway.service import Service
from gateway.sessions.api import SessionsApi
from stanchion import __version__
from stanchion.faults import place_of

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Routes = Mapping[str, Mapping[str, Handler]]
"""For each path its methods."""


def public(service: Service) -> web.Application:
    """What agents reach."""
    models = Models(service)
    health = Health(service)
    return _application(
        {
            "/": {"GET": health.root, "HEAD": health.root},
            "/livez": {"GET": health.live},
            "/readyz": {"GET": health.ready},
            "/v1/models": {"GET": models.list},
            "/v1/models/{model:.+}": {"GET": models.one},
        },
        service.log,
        bare={
            "/v1/chat/completions": {"POST": ChatCompletions(service).complete},
            **SessionsApi(service, service.stores.sessions, service.session_metrics).routes(),
        },
    )


def admin(service: Service, reloader: Reloader, regional: RegionalAdmin) -> web.Application:
    """What operators reach; everything but the health checks asks for the token where one is set."""
    handlers, health = Admin(service, reloader), Health(service)

    def guarded(handler: Handler) -> Handler:
        async def with_token(request: web.Request) -> web.StreamResponse:
            handlers.allow(request)
            return await handler(request)

        return with_token

    def obeying(handler: Handler) -> Handler:
        async def from_here(request: web.Request) -> web.StreamResponse:
            handlers.obey(request)
            return await handler(request)

        return guarded(from_here)

    return _application(
        {
            "/": {"GET": health.root, "HEAD": health.root},
            "/livez": {"GET": health.live},
            "/readyz": {"GET": health.ready},
            "/metrics": {"GET": guarded(handlers.metrics)},
            "/admin/v1/targets": {"GET": guarded(handlers.targets)},
            "/admin/v1/reload": {"POST": guarded(handlers.reload)},
            **{
                path: {
                    method: guarded(handler) if method == "GET" else obeying(handler)
                    for method, handler in methods.items()
                }
                for path, methods in regional.routes().items()
            },
        },
        service.log,
    )


class Health:
    """Whether the process lives, and whether it should be sent requests."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def root(self, request: web.Request) -> web.Response:
        return _json({"name": "stanchion", "version": __version__})

    async def live(self, request: web.Request) -> web.Response:
        return _json({"live": True})

    async def ready(self, request: web.Request) -> web.Response:
        """Model calls need no store; `?sessions` asks whether every shard would take a write, too."""
        service = self._service
        body: dict[str, Any] = {"ready": not service.draining, "draining": service.draining}
        if "sessions" in request.query:
            closed = {name: shard.closed_because() for name, shard in service.stores.sessions.shards.items()}
            body["sessions"] = {name: why or "open" for name, why in closed.items()}
            body["ready"] = body["ready"] and not any(closed.values())
        return _json(body, status=200 if body["ready"] else 503)


class Models:
    """`GET /v1/models`: the routes that a caller may use, under their names."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def list(self, request: web.Request) -> web.Response:
        return _json({"object": "list", "data": [_model(name) for name in self._names(request)]})

    async def one(self, request: web.Request) -> web.Response:
        name, names = request.match_info["model"], self._names(request)
        if name not in names:
            raise http_errors.route_unknown(name, names)
        return _json(_model(name))

    def _names(self, request: web.Request) -> Sequence[str]:
        live = self._service.live
        return live.routes_of(live.callers.identify(request.headers))


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "stanchion"}


def _application(routes: Routes, log: Log, bare: Routes = MappingProxyType({})) -> web.Application:
    """The handlers of `bare` answer their own errors."""
    guarded = {
        path: {method: _json_errors(handler, log) for method, handler in methods.items()}
        for path, methods in routes.items()
    }
    app = web.Application(client_max_size=0)
    for path, methods in {**guarded, **bare}.items():
        for method, handler in methods.items():
            app.router.add_route(method, path, handler)
        app.router.add_route("*", path, _json_errors(_wrong_method(sorted(methods)), log))
    app.router.add_route("*", "/{path:.*}", _json_errors(_unknown_path, log))
    return app


async def _unknown_path(request: web.Request) -> web.StreamResponse:
    raise http_errors.unknown_path()


def _wrong_method(allowed: Sequence[str]) -> Handler:
    async def refuse(request: web.Request) -> web.StreamResponse:
        raise http_errors.wrong_method(allowed)

    return refuse


def _json_errors(handler: Handler, log: Log) -> Handler:
    """Errors as the dialect's JSON. Not a middleware: those cost every request, and the hot path has its own net."""

    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except HttpError as error:
            return _error(error)
        except Exception as error:  # noqa: BLE001 - the last net: the caller gets an answer, the operator a line
            log.event("error", "crash", path=request.path, kind=type(error).__name__, where=place_of(error))
            return _error(http_errors.unexpected())

    return answer


def _error(error: HttpError) -> web.Response:
    headers = {"Content-Type": "application/json", "Server": SERVER, **error.header_fields()}
    return web.Response(status=error.status, body=error.body(), headers=headers)


def _json(value: object, status: int = 200) -> web.Response:
    headers = {"Content-Type": "application/json", "Server": SERVER}
    return web.Response(body=orjson.dumps(value), status=status, headers=headers)
