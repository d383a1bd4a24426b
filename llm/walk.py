"""The way of one request along the targets of its route: who is next, who was passed over, what is still ahead."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from llm import plan
from llm.attempt import Trail
from llm.classes import RULES, Skip
from llm.errors import Failure, NotAdmitted, QuotaShort, RouteFailed
from llm.plan import Blocked
from llm.request import LlmRequest
from llm.spec import RouteSpec, Stop
from llm.target import Target


class Walk:
    """One walk. Several attempts may be under way on it at once; each target is given out once.

    A canary's target is given out before the others and again in its place: it must cost the caller nothing, not even the
    rescue that it may be later.
    """

    def __init__(
        self,
        route: RouteSpec,
        stops: Sequence[Stop],
        targets: Mapping[str, Target],
        request: LlmRequest,
        now: Callable[[], float],
    ) -> None:
        self.request, self.trail = request, Trail()
        self._now = now
        self._route, self._targets = route, targets
        self._ahead = list(stops)
        self._last: Failure | None = None
        self.told = False
        self._met: set[str] = set()
        self._short: dict[str, Blocked] = {}

    def next(self) -> Stop | None:
        """The next target that may be tried; those passed over on the way are in the trail."""
        while self._ahead:
            stop = self._ahead.pop(0)
            name = stop.target.name
            if not stop.canary:
                self._met.add(name)
            unfit = plan.unfit(stop.target, self.request)
            blocked = self._targets[name].blocked() if unfit is None else None
            if unfit is None and blocked is None:
                return stop
            if blocked is not None:
                self.passed_over(stop, blocked)
            elif unfit is not None and not stop.canary:
                self._skip(name, *unfit)
        return None

    def passed_over(self, stop: Stop, blocked: Blocked) -> None:
        """Something stands in the target's way now. A canary is left out without a word."""
        if not stop.canary:
            self._skip(stop.target.name, blocked.skip, blocked.message)

    def others_left(self) -> bool:
        """Whether another target could be tried after this one, as things stand."""
        return any(
            plan.unfit(stop.target, self.request) is None and self._targets[stop.target.name].blocked() is None
            for stop in self._ahead
        )

    def refused(self, stop: Stop, refused: NotAdmitted) -> None:
        """The target was not admitted: by its bucket, or by a breaker whose probe another request is."""
        if stop.canary:
            return
        name = stop.target.name
        self._skip(name, refused.skip, refused.message)
        never = isinstance(refused, QuotaShort) and refused.never
        self._short[name] = Blocked(refused.skip, f"{name}: {refused.message}", refused.retry_after_s, never=never)

    def note(self, stop: Stop, failure: Failure) -> None:
        """An attempt failed. The last failure is what the caller is told; a final one of a hedge stays."""
        if not stop.canary and not self.told:
            self._last = failure

    def after(self, stop: Stop, failure: Failure) -> None:
        """This target is left for good: keep those ahead that can cure the failure."""
        if stop.canary:
            return  # the others owe it nothing
        onward = RULES[failure.error_class].onward
        if onward == "nowhere":
            self._ahead, self.told = [], True
        elif onward == "content_policy":
            self._ahead = [other for other in self._route.on_content_policy if other.target.name not in self._met]
        elif onward != "any":
            self._keep_cures(stop, failure)

    def failed(self, *, deadline: bool) -> RouteFailed:
        """What to tell the caller now that nothing answered."""
        return plan.conclude(self.trail, self._last, self._blocked(), deadline=deadline)

    def _skip(self, target: str, skip: Skip, message: str) -> None:
        self.trail.add(plan.passed_over(target, skip, message, self._now()))

    def _keep_cures(self, stop: Stop, failure: Failure) -> None:
        kept = []
        for other in self._ahead:
            skip = plan.cures(RULES[failure.error_class].onward, stop.target, other.target, self.request.call)
            if skip is None:
                kept.append(other)
            else:
                self._met.add(other.target.name)
                message = f"no larger than what {stop.target.name} refused"
                self._skip(other.target.name, skip, message)
        self._ahead = kept

    def _blocked(self) -> list[Blocked]:
        """Why no target that fits the request can be tried now; empty when one could."""
        blocks = []
        for stop in self._route.stops:
            if plan.unfit(stop.target, self.request) is not None:
                continue
            name = stop.target.name
            block = self._targets[name].blocked() or self._short.get(name)
            if block is None:
                return []
            blocks.append(block)
        return blocks
