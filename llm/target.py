"""A target at run time: its chain of decorators, and what stands in its way now."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from llm.breaker import BreakerView, CircuitBreaker, Guarded
from llm.classes import Skip
from llm.dialects.base import Dialect
from llm.holds import Hold, Holds
from llm.plan import Blocked
from llm.provider import Provider
from llm.provider_breaker import ProviderBreaker, connection_verdict, target_verdict
from llm.quota_gate import Metered
from llm.spec import TargetSpec
from llm.stream_guard import StreamGuard
from llm.timeouts import Timeouts
from llm.transport.base import Transport
from quota.estimate import OutputEstimate
from quota.target_quota import TargetQuota
from stanchion.clock import Clock


class Target:
    """`llm` is the target as a model; the rest is read for decisions and for the status pages.

    `before`: the same target under the settings before. What was learned of it goes on: its breaker, buckets with what is
    in flight, and estimate are taken over, with the numbers of the new `spec`; not the breaker where `provider` is another
    one, at another address.
    """

    def __init__(
        self,
        spec: TargetSpec,
        dialect: Dialect,
        transport: Transport,
        provider: ProviderBreaker,
        holds: Holds,
        clock: Clock,
        before: Target | None = None,
    ) -> None:
        self.spec = spec
        self.provider_breaker = provider.breaker
        self._holds = holds
        if before is None:
            self.quota = TargetQuota(spec.quota, clock.now)
            self.breaker = provider.target(spec.name, spec.model, spec.breaker)
            self.estimate = OutputEstimate(context_window=spec.context_window)
        else:
            self.quota, self.estimate = before.quota, before.estimate
            self.quota.retune(spec.quota)
            if before.provider_breaker is provider.breaker:
                self.breaker = before.breaker
                self.breaker.retune(spec.breaker)
            else:
                self.breaker = provider.target(spec.name, spec.model, spec.breaker)
            self.estimate.context_window = spec.context_window
        asked = Timeouts(Provider(spec, dialect, transport, clock.wall), clock)
        metered = Metered(asked, self.quota, self.estimate)
        guarded = Guarded(metered, (self.provider_breaker, connection_verdict), (self.breaker, target_verdict))
        self.llm = StreamGuard(guarded, clock)

    def hold(self) -> Hold | None:
        return self._holds.of(self.spec)

    def blocked(self) -> Blocked | None:
        """The hold or breaker that stands in the way now; a bucket is only known when it is asked."""
        name = self.spec.name
        if (hold := self.hold()) is not None:
            left = self._holds.seconds_left(hold)
            return Blocked(Skip.HOLD, f"{name} is on hold ({hold.reason})", left, hold.reason)
        breaker = self._worst()
        if breaker.is_open:
            return Blocked(Skip.BREAKER, f"the breaker of {breaker.name} is open", breaker.view().retry_in_s)
        return None

    def breaker_view(self) -> BreakerView:
        """The breaker's state as a caller meets it: the provider's where that is the one that is not closed."""
        return self._worst().view()

    def _worst(self) -> CircuitBreaker:
        provider, own = self.provider_breaker, self.breaker
        if provider.state == "closed":
            return own
        return own if own.view().retry_in_s > provider.view().retry_in_s else provider


def provider_breaker(
    spec: TargetSpec, clock: Clock, random: Random, told: Callable[[str, str], None] | None = None
) -> ProviderBreaker:
    """The breaker of a target's provider, under the policy of the first target that uses it."""
    return ProviderBreaker(spec.provider.name, spec.breaker, clock.now, random, told)
