"""A turn as it goes, and the one outcome record that is written of it."""

from __future__ import annotations

from availability.outcome import Outcome
from gateway import turn
from gateway.http_errors import HttpError
from gateway.service import Service
from gateway.turn import OutcomeRecord
from llm.answer import Usage
from llm.attempt import Trail
from llm.fallback import CommittedStream


class TurnRecorder:
    """What becomes known of a turn, noted by whoever learns it. The first ending is the record; later ones say nothing.

    `trail`: of the attempts, once a route is asked. `waited_s`: seconds for which the caller was waited for.
    """

    __slots__ = ("_began", "_done", "_service", "caller", "request_id", "route", "stream", "trail", "waited_s")

    def __init__(self, service: Service) -> None:
        self._service = service
        self.request_id, self._began = service.new_id(), service.clock.now()
        self.caller: str | None = None
        self.route: str | None = None
        self.stream = False
        self.trail: Trail | None = None
        self.waited_s = 0.0
        self._done = False

    def answered(self, answer: CommittedStream) -> None:
        """The caller has the whole answer."""
        self._record(
            turn.answered(answer.trail.records),
            200,
            target=answer.target,
            model=answer.progress.model or answer.model,
            usage=answer.progress.usage,
        )

    def ended(self, outcome: Outcome, status: int, error: HttpError | None = None) -> None:
        """The turn is over without an answer. `status`: the one that the caller saw."""
        self._record(outcome, status, error_class=error.error_class if error else None)

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
        duration = self._service.clock.now() - self._began
        trail = self.trail
        records = () if trail is None else tuple(trail.records)
        overhead = None
        if trail is not None and not self._cut_short(outcome):
            overhead = turn.overhead(duration, trail.busy_s, self.waited_s)
        self._service.turn_ended(
            OutcomeRecord(
                request_id=self.request_id,
                caller=self.caller,
                route=self.route,
                stream=self.stream,
                outcome=outcome,
                status=status,
                duration_s=duration,
                overhead_s=overhead,
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
