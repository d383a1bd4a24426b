"""A model call from the caller's bytes to the route, and back: read, ask, answer plain or as a stream, record."""

from __future__ import annotations

import asyncio

from aiohttp import web

from availability.outcome import Outcome
from gateway import http_errors
from gateway.body import LARGE, read_body
from gateway.caller_dialect import CallerDialect, OpenAiCaller
from gateway.http_errors import HttpError
from gateway.live import Live
from gateway.reply import Reply
from gateway.request_headers import commit_of, deadline_of, priority_of, traceparent_of
from gateway.service import Service
from gateway.settings.model import Caller
from gateway.turn_recorder import TurnRecorder
from llm.attempt import trail_header
from llm.commit import COMPLETE
from llm.errors import InvalidRequest, RouteFailed, StreamInterrupted
from llm.fallback import Answering
from llm.plan import allowed
from llm.request import LlmRequest
from llm.spec import RouteSpec
from stanchion.faults import place_of


class ChatCompletions:
    """The handler of `POST /v1/chat/completions`. One instance serves all requests.

    Nothing here depends on the caller's wire format: that is the dialect's.
    """

    def __init__(self, service: Service, dialect: CallerDialect | None = None) -> None:
        self._service, self._dialect = service, dialect or OpenAiCaller()

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """One turn, from beginning to end under the settings that hold as it begins. Exactly one outcome record is written
        for it, whatever happens."""
        service, live = self._service, self._service.live
        turn = TurnRecorder(service)
        reply = Reply(request, service.clock, self._dialect, turn)
        service.running.add(reply)
        try:
            route, asked = await self._read(request, turn, live)
            service.metrics.turn_began(route.name)
            try:
                respond = self._stream if turn.stream else self._plain
                return await respond(live, route, asked, turn, reply)
            finally:
                service.metrics.turn_left(route.name)
        except HttpError as error:
            return await reply.fail(Outcome.REJECTED if error.status < 500 else Outcome.NO_TARGET, error)
        except (asyncio.CancelledError, ConnectionError):
            if reply.stopped:
                return reply.error_response(http_errors.draining())
            turn.ended(Outcome.CLIENT_CLOSED, 499)
            raise
        except Exception as error:  # noqa: BLE001 - the last net: the caller gets an answer, the operator a line
            service.log.event(
                "error", "crash", request_id=turn.request_id, kind=type(error).__name__, where=place_of(error)
            )
            return await reply.crashed()
        finally:
            service.running.discard(reply)
            reply.release()

    async def _read(self, request: web.Request, turn: TurnRecorder, live: Live) -> tuple[RouteSpec, LlmRequest]:
        """Everything that is checked before a target is asked. Raises HttpError."""
        service, headers = self._service, request.headers
        caller = live.callers.identify(headers)
        turn.caller = caller.name
        if service.draining:
            raise http_errors.draining()
        limits = live.settings.gateway
        began = service.clock.now()
        body = await read_body(request, limits.max_body, limits.body_timeout)
        arrived = service.clock.now()
        turn.waited_s = arrived - began
        try:
            call = (
                self._dialect.read(body) if len(body) <= LARGE else await service.bodies.parse(body, self._dialect.read)
            )
        except InvalidRequest as error:
            raise http_errors.invalid(error) from None
        turn.stream = call.stream
        route = _route(call.model, caller, live)
        turn.route = route.name
        commit = commit_of(headers, route.stream.commit)
        if route.stream.upstream == "always" and not call.stream:
            call, commit = self._dialect.streamed(call), COMPLETE
        deadline_s = deadline_of(headers, route.deadline_s)
        return route, LlmRequest(
            id=turn.request_id,
            call=call,
            deadline_at=arrived + deadline_s,
            priority=priority_of(headers, caller.priority),
            traceparent=traceparent_of(headers),
            commit=commit,
            residency=allowed(caller.residency, route.residency),
        )

    def _ask(self, live: Live, route: RouteSpec, asked: LlmRequest, turn: TurnRecorder) -> Answering:
        answering = live.engine.routes[route.name].generate(asked)
        turn.trail = answering.trail
        return answering

    async def _plain(
        self, live: Live, route: RouteSpec, asked: LlmRequest, turn: TurnRecorder, reply: Reply
    ) -> web.StreamResponse:
        try:
            async with self._ask(live, route, asked, turn) as answer:
                parts = []
                while (batch := await answer.read()) is not None:
                    parts.append(batch.data)
        except (RouteFailed, StreamInterrupted) as error:
            return await reply.failed(error)
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        if asked.call.stream:  # the provider's stream, for a caller who wants none
            try:
                body = await self._service.bodies.beside(body, self._dialect.assembled)
            except ValueError:
                return await reply.fail(Outcome.FAILED, http_errors.unwritable())
        response = await reply.plain(body, answer, asked.deadline_at)
        turn.answered(answer)
        return response

    async def _stream(
        self, live: Live, route: RouteSpec, asked: LlmRequest, turn: TurnRecorder, reply: Reply
    ) -> web.StreamResponse:
        async with reply.stream(route.stream.heartbeat, asked.deadline_at) as out:
            try:
                async with self._ask(live, route, asked, turn) as answer:
                    await out.begin(reply.headers_of(answer))
                    if out.early:
                        await out.write(self._dialect.trail_comment(trail_header(answer.records)))
                    while (batch := await answer.read()) is not None:
                        if batch.data:
                            await out.write(batch.data)
            except (RouteFailed, StreamInterrupted) as error:
                return await reply.failed(error)
            response = await out.end()
            turn.answered(answer)
            return response


def _route(model: str, caller: Caller, live: Live) -> RouteSpec:
    route = live.routes.get(model)
    if route is None:
        raise http_errors.route_unknown(model, live.routes_of(caller))
    if not caller.may_use(model):
        raise http_errors.route_forbidden(model)
    return route
