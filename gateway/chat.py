"""`POST /v1/chat/completions`: from the caller's bytes to the route, and back."""

from __future__ import annotations

import asyncio

from aiohttp import web

from availability.outcome import Outcome
from gateway import http_errors, turn
from gateway.body import read_body
from gateway.caller_stream import CallerStream
from gateway.http_errors import HttpError
from gateway.log import place_of
from gateway.request_headers import commit_of, deadline_of, priority_of, traceparent_of
from gateway.server import SERVER
from gateway.service import Service
from gateway.settings.model import Caller
from gateway.turn import OutcomeRecord, Turn
from llm.answer import Usage
from llm.attempt import Trail, trail_header
from llm.dialects import openai_request
from llm.dialects.openai_request import ChatCall
from llm.errors import InvalidRequest, RouteFailed, StreamInterrupted
from llm.fallback import Answering, CommittedStream
from llm.plan import allowed
from llm.request import LlmRequest
from llm.spec import RouteSpec
from stanchion.clock import Timer

_JSON = "application/json"


class ChatCompletions:
    """The handler. One instance serves all requests."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """One turn. Exactly one outcome record is written for it, whatever happens."""
        service = self._service
        one = _Exchange(service, request, Turn(service.new_id(), service.clock.now()))
        service.running.add(one)
        try:
            call, route, llm_request = await one.read()
            service.metrics.turn_began(route.name)
            try:
                return await (one.stream(route, llm_request) if call.stream else one.plain(route, llm_request))
            finally:
                service.metrics.turn_left(route.name)
        except HttpError as error:
            one.ended(Outcome.REJECTED if error.status < 500 else Outcome.NO_TARGET, error.status, error)
            return one.error_response(error)
        except (asyncio.CancelledError, ConnectionError):
            if one.stopped:
                return one.error_response(http_errors.draining())
            one.ended(Outcome.CLIENT_CLOSED, 499)
            raise
        except Exception as error:  # noqa: BLE001 - the last net: the caller gets an answer, the operator a line
            service.log.event(
                "error", "crash", request_id=one.turn.request_id, kind=type(error).__name__, where=place_of(error)
            )
            return await one.crashed()
        finally:
            service.running.discard(one)
            one.release()


_SLOW_CALLER_S = 5.0
"""How long after the deadline a caller may still take to read what is ready."""

_SOCKET_TAKES = 32_768
"""Bytes that are written at once, whether the caller reads or not."""


class _Exchange:
    """One request and what is written to it."""

    def __init__(self, service: Service, request: web.Request, one: Turn) -> None:
        self._service, self._request, self.turn = service, request, one
        self._waited_s = 0.0
        self._done = False
        self._out: CallerStream | None = None
        self._timer: Timer | None = None
        self._trail: Trail | None = None
        self._task, self._sending = asyncio.current_task(), False
        self.stopped = False

    async def read(self) -> tuple[ChatCall, RouteSpec, LlmRequest]:
        """Everything that is checked before a target is asked. Raises HttpError."""
        service, request, headers = self._service, self._request, self._request.headers
        caller = service.callers.identify(headers)
        self.turn.caller = caller.name
        if service.draining:
            raise http_errors.draining()
        limits = service.settings.gateway
        began = service.clock.now()
        body = await read_body(request, limits.max_body, limits.body_timeout)
        self._waited_s = service.clock.now() - began
        try:
            call = openai_request.read(body)
        except InvalidRequest as error:
            raise http_errors.invalid(error) from None
        self.turn.stream = call.stream
        route = self._route(call.model, caller)
        self.turn.route = route.name
        commit = commit_of(headers, route.stream.commit)
        deadline_s = deadline_of(headers, route.deadline_s)
        return (
            call,
            route,
            LlmRequest(
                id=self.turn.request_id,
                call=call,
                deadline_at=service.clock.now() + deadline_s,
                priority=priority_of(headers, caller.priority),
                traceparent=traceparent_of(headers),
                commit=commit,
                residency=allowed(caller.residency, route.residency),
            ),
        )

    async def plain(self, route: RouteSpec, llm_request: LlmRequest) -> web.StreamResponse:
        try:
            async with self._ask(route, llm_request) as answer:
                parts = []
                while (batch := await answer.read()) is not None:
                    parts.append(batch.data)
        except RouteFailed as error:
            return self._route_failed(error)
        except StreamInterrupted as error:
            failure = http_errors.interrupted(error)
            self.ended(Outcome.FAILED, failure.status, failure)
            return self.error_response(failure)
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        if len(body) > _SOCKET_TAKES:
            self._guard(llm_request)
        response = web.Response(body=body, headers=self._answer_headers(answer))
        response.content_type = _JSON
        self._sending = True
        began = self._service.clock.now()
        await response.prepare(self._request)
        await response.write_eof()
        self._waited_s += self._service.clock.now() - began
        self._answered(answer)
        return response

    async def stream(self, route: RouteSpec, llm_request: LlmRequest) -> web.StreamResponse:
        service = self._service
        self._guard(llm_request)
        out = self._out = CallerStream(self._request, service.clock, route.stream.heartbeat, self._own_headers)
        async with out:
            try:
                async with self._ask(route, llm_request) as answer:
                    await out.begin(self._answer_headers(answer))
                    if out.early:
                        await out.write(_trail_comment(trail_header(answer.records)))
                    while (batch := await answer.read()) is not None:
                        if batch.data:
                            await out.write(batch.data)
            except RouteFailed as error:
                if not out.begun:
                    return self._route_failed(error)
                failure = http_errors.route_failed(error)
                self.ended(turn.failed(error), 200, failure)
                await out.write(_trail_comment(failure.trail))
                return await out.break_off(failure.event())
            except StreamInterrupted as error:
                failure = http_errors.interrupted(error)
                self.ended(Outcome.STREAM_INTERRUPTED, 200, failure)
                return await out.break_off(failure.event())
            response = await out.end()
            self._answered(answer)
            return response

    def _ask(self, route: RouteSpec, llm_request: LlmRequest) -> Answering:
        answering = self._service.engine.routes[route.name].generate(llm_request)
        self._trail = answering.trail
        return answering

    async def crashed(self) -> web.StreamResponse:
        """A fault of the gateway's own: an error answer, or an error event where an answer has begun; never both."""
        error = http_errors.unexpected()
        self.ended(Outcome.FAILED, 500, error)
        if self._out is not None and self._out.begun:
            return await self._out.break_off(error.event())
        if self._sending and self._request.transport is not None:
            self._request.transport.abort()
        return self.error_response(error)

    def release(self) -> None:
        """The turn is over: nothing of it stays behind."""
        if self._timer is not None:
            self._timer.cancel()

    def _guard(self, llm_request: LlmRequest) -> None:
        """A caller who does not read what is ready is let go some time after the deadline."""
        self._timer = self._service.clock.call_at(llm_request.deadline_at + _SLOW_CALLER_S, self._abandon)

    def _abandon(self) -> None:
        if self._request.transport is not None:
            self._request.transport.abort()

    async def break_off(self) -> None:
        """The replica stops now: a stream that has begun gets its error event, who waits for an answer gets 503."""
        error = http_errors.stopped()
        if self._out is not None and self._out.begun:
            self.ended(Outcome.STREAM_INTERRUPTED, 200, error)
            await self._out.break_off(error.event())
            return
        self.ended(Outcome.FAILED, error.status, error)
        if self._task is not None and not self._sending:
            self.stopped = self._task.cancel()
            await asyncio.wait({self._task})
        elif self._request.transport is not None:
            self._request.transport.close()

    def ended(self, outcome: Outcome, status: int, error: HttpError | None = None) -> None:
        """Write the outcome record of a turn that was not answered, once."""
        self._record(outcome, status, error_class=error.error_class if error else None)

    def error_response(self, error: HttpError) -> web.Response:
        response = web.Response(
            status=error.status, body=error.body(), headers={**self._own_headers(), **error.header_fields()}
        )
        response.content_type = _JSON
        if error.close:
            response.force_close()
        return response

    def _route(self, model: str, caller: Caller) -> RouteSpec:
        route = self._service.routes.get(model)
        if route is None:
            raise http_errors.route_unknown(model, self._service.routes_of(caller))
        if not caller.may_use(model):
            raise http_errors.route_forbidden(model)
        return route

    def _route_failed(self, error: RouteFailed) -> web.Response:
        failure = http_errors.route_failed(error)
        self.ended(turn.failed(error), failure.status, failure)
        return self.error_response(failure)

    def _answered(self, answer: CommittedStream) -> None:
        self._record(
            turn.answered(answer.trail.records),
            200,
            target=answer.target,
            model=answer.progress.model or answer.model,
            usage=answer.progress.usage,
        )

    def _record(
        self,
        outcome: Outcome,
        status: int,
        *,
        target: str | None = None,
        model: str | None = None,
        usage: Usage | None = None,
        error_class: str | None = None,
    ) -> None:
        if self._done:
            return
        self._done = True
        one = self.turn
        duration = self._service.clock.now() - one.began
        trail = self._trail
        records = tuple(trail.records) if trail is not None else ()
        waited = self._waited_s + (trail.waited_s if trail is not None else 0.0)
        self._service.turn_ended(
            OutcomeRecord(
                request_id=one.request_id,
                caller=one.caller,
                route=one.route,
                stream=one.stream,
                outcome=outcome,
                status=status,
                duration_s=duration,
                overhead_s=None
                if trail is None or self._cut_short(outcome)
                else turn.overhead(duration, records, waited),
                target=target,
                model=model,
                usage=usage,
                error_class=error_class,
                records=records,
            )
        )

    def _cut_short(self, outcome: Outcome) -> bool:
        """Whether the last attempt's time is not known in full, and so not the gateway's own either."""
        return outcome is Outcome.CLIENT_CLOSED or self._service.draining

    def _own_headers(self) -> dict[str, str]:
        request_id = self.turn.request_id
        return {"x-stanchion-request-id": request_id, "x-request-id": request_id, "Server": SERVER}

    def _answer_headers(self, answer: CommittedStream) -> dict[str, str]:
        return {
            **self._own_headers(),
            "x-stanchion-target": answer.target,
            "x-stanchion-model": answer.model,
            "x-stanchion-attempts": trail_header(answer.records),
        }


def _trail_comment(trail: str) -> bytes:
    return f": stanchion-attempts {trail}\n\n".encode()
