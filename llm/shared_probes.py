"""Which replica of a region probes a target whose breaker is open: one at a time, settled ahead of the requests.

A request cannot wait for a store to say who probes. So a lease is taken before it is needed, by the task that syncs: when a
cool-down is about to end, the first replica to say so gets the lease of that breaker, and renews it with each sync for as long
as its breaker is open. Only its breaker lets a probe through; the others turn their requests away, as they do while a probe of
their own is in flight.

The holder may be one that nobody asks for the target. Then a replica that has turned a request away says that it wants the
lease, and the holder gives it up at its next sync, unless its own probe is in flight: the first time to the one that wants it,
and if that one has no use for it either, to everybody. A target that is asked for once in a while therefore costs at most two
requests that were turned away, however they fall on the replicas; where it is everybody's, the first to probe takes it back.

While the board is lost, and when a replica has not heard of it for longer than a lease lasts, it probes by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, Protocol

from llm.breaker import CircuitBreaker, anyone

Phase = Literal["near", "probing", "idle", "wanted"]
"""What a replica's open breaker is up to: close to the end of its cool-down, under probe, past it with nothing in flight, or
past it with requests turned away for want of the lease."""

ANYONE = "*"
"""The holder of a lease that everybody has."""

LEASE_S = 5.0
"""How long a lease lasts without being renewed. Syncs are a second or so apart."""

_MARGIN_S = 1.0
"""So much earlier a replica that has lost the board goes on by itself: its own clock may be the slower one."""

_AHEAD_S = 2.5
"""So long before the end of a cool-down a lease is asked for: two syncs, should one be slow."""


class Lease(NamedTuple):
    """`passed`: it was given up once already, without a probe. `wanted_by`: who asked for it since it was last used."""

    holder: str
    passed: bool = False
    wanted_by: str = ""


def decide(lease: Lease | None, who: str, phase: Phase) -> Lease:
    """The lease after `who` has said what its breaker is up to. None: there was none, or it had run out."""
    if lease is None:
        return Lease(who)
    if lease.holder == who or lease.holder == ANYONE:
        if phase in ("near", "probing"):
            return Lease(who)
        if lease.holder == who and lease.wanted_by:
            return Lease(ANYONE if lease.passed else lease.wanted_by, passed=True)
        return lease
    if phase == "wanted" and not lease.wanted_by:
        return lease._replace(wanted_by=who)
    return lease


def renews(lease: Lease | None, who: str) -> bool:
    """Whether what `who` said begins the lease's time anew. Another replica's runs on."""
    return lease is None or lease.holder in (who, ANYONE)


class ProbeBoard(Protocol):
    """Where the leases are. May raise OSError, and must come to an end by itself."""

    async def lease(self, who: str, phases: Mapping[str, Phase], ttl_s: float) -> Mapping[str, str]:
        """`decide` for each name, and its holder then. Each name's is one atomic step; `ttl_s` counts by the board's clock."""


class SharedProbes:
    """The probes of one process. `me` is its name among the replicas, `now` monotonic seconds.

    A breaker that has joined asks here before it lets a probe through. Nothing waits in that.
    """

    def __init__(self, board: ProbeBoard, me: str, now: Callable[[], float]) -> None:
        self._board, self._me, self._now = board, me, now
        self._breakers: dict[str, tuple[str, CircuitBreaker]] = {}
        self._holders: Mapping[str, str] = {}
        self._wanted: set[str] = set()
        self._heard_until = float("-inf")

    def join(
        self, breaker: CircuitBreaker, board_name: str | None = None, behind: CircuitBreaker | None = None
    ) -> None:
        """Have the breaker ask from now on. `behind`: the provider's, whose lease is enough while it is open: whoever has that
        one must not wait for another replica that has this one."""
        name = board_name or breaker.name

        def may_probe() -> bool:
            return (behind is not None and behind.settled == "open") or self._may_probe(name)

        self._breakers[breaker.name] = (name, breaker)
        breaker.may_probe = may_probe

    def leave(self, name: str) -> None:
        """The breaker of that name goes by itself from now on."""
        if (left := self._breakers.pop(name, None)) is not None:
            left[1].may_probe = anyone

    def lost(self) -> None:
        """The board cannot be reached: probe by oneself until the next `sync` that succeeds."""
        self._heard_until = float("-inf")

    async def sync(self) -> None:
        """Take, renew, want and give up leases. Raises what the board raises."""
        sent = self._now()
        phases = {name: phase for name, breaker in self._breakers.values() if (phase := self._phase(name, breaker))}
        self._wanted.clear()
        self._holders = await self._board.lease(self._me, phases, LEASE_S) if phases else {}
        self._heard_until = sent + LEASE_S - _MARGIN_S

    def _phase(self, name: str, breaker: CircuitBreaker) -> Phase | None:
        view = breaker.view()
        if view.state == "closed" or view.retry_in_s > _AHEAD_S:
            return None
        if view.state == "half_open":
            return "probing"
        if view.retry_in_s > 0:
            return "near"
        return "wanted" if name in self._wanted else "idle"

    def _may_probe(self, name: str) -> bool:
        if self._now() >= self._heard_until or self._holders.get(name) in (self._me, ANYONE):
            return True
        self._wanted.add(name)
        return False
