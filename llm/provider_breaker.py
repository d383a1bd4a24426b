"""When a whole provider is left alone: its connections fail, or two or more of its models do.

One bad model is no reason to leave the others (their breakers are their own).
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from llm.breaker import CircuitBreaker
from llm.classes import RULES, ErrorClass, Verdict
from llm.policy import BreakerPolicy

_MODELS = 2
_SILENT = frozenset(
    {
        ErrorClass.LOCAL_CAPACITY,
        ErrorClass.DEADLINE,
        ErrorClass.CANCELLED,
        ErrorClass.TIMEOUT_FIRST_TOKEN,
        ErrorClass.TIMEOUT_IDLE,
        ErrorClass.TIMEOUT_TOTAL,
    }
)
"""Classes that say nothing of the connection."""


def target_verdict(error_class: ErrorClass) -> Verdict:
    """What a target's breaker samples."""
    return RULES[error_class].verdict


def connection_verdict(error_class: ErrorClass) -> Verdict:
    """What a provider's breaker samples: whether it can be reached, an error answer being an answer."""
    if error_class is ErrorClass.CONNECT:
        return Verdict.FAILURE
    return Verdict.NEUTRAL if error_class in _SILENT else Verdict.SUCCESS


class ProviderBreaker:
    """The breaker of one provider, and the watch over those of its targets.

    `told` is called when one of them has opened or closed, with the name of a target or of the provider, and `open` or
    `closed`. For a change of settings there are `target` (a new one), `forget` (one that is gone), `retune` (the
    provider's own numbers) and `CircuitBreaker.retune` (a target's).
    """

    def __init__(
        self,
        provider: str,
        policy: BreakerPolicy,
        now: Callable[[], float],
        random: Random,
        told: Callable[[str, str], None] | None = None,
    ) -> None:
        self._told = told
        self.breaker = CircuitBreaker(f"provider {provider}", policy, now, random, self._changed)
        self._now, self._random = now, random
        self._models: dict[str, str] = {}
        self._targets: dict[str, CircuitBreaker] = {}

    def target(self, name: str, model: str, policy: BreakerPolicy) -> CircuitBreaker:
        """A new breaker for a target of this provider, in the place of one of that name."""
        breaker = CircuitBreaker(name, policy, self._now, self._random, self._changed)
        self._targets[name], self._models[name] = breaker, model
        return breaker

    def forget(self, name: str) -> None:
        """The target is no longer one of this provider's; attempts on it that are under way settle without being heard."""
        self._targets.pop(name, None)
        self._models.pop(name, None)

    def retune(self, policy: BreakerPolicy) -> None:
        """Other numbers for the provider's own breaker; its state stays. See `CircuitBreaker.retune`."""
        self.breaker.retune(policy)

    def _changed(self, breaker: CircuitBreaker) -> None:
        if breaker is not self.breaker:
            if self._targets.get(breaker.name) is not breaker:
                return  # it was forgotten, or is another one now
            if breaker.settled == "open" and not breaker.learned:  # who saw an attempt fail decides for the provider
                failing = {self._models[name] for name, other in self._targets.items() if other.is_failing}
                if len(failing) >= _MODELS:
                    self.breaker.trip()
        if self._told is not None:
            self._told(breaker.name, breaker.settled)
