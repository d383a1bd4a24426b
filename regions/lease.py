"""How long a writer may pass acknowledgements on, by its own clock.

A store checks its lease by its own clock, which may be set back while nobody writes; then it takes writes for longer than
whoever promotes waits. So a writer holds a second lease, which no clock of a store can lengthen:

- A renewal that a read of the register showed was done after every read that did not show it yet had begun. With the register
  at `renew_n` n in a read that began at t0, and at a later n in another one, that renewal came after t0.
- Whoever promotes waits, from a moment at which that renewal had been done, for the lease and more (`fence_wait_s`), on a clock
  that runs no more than `DRIFT_BOUND` faster.

So until t0 + lease, on a clock that is not set and counts while the machine sleeps, no other store has been opened. The same
holds for a renewal that this process did itself, from before it began.
"""

from __future__ import annotations

from dataclasses import dataclass

from sessions.store import DRIFT_BOUND

MARGIN_S = 0.5
"""Added to the wait for a lease: the time between reading a store's clock and its script, and roundings."""


def fence_wait_s(lease_s: float) -> float:
    """How long a lease has to be waited for, by a clock that may run fast by `DRIFT_BOUND` where the store's runs slow."""
    return lease_s * (1 + DRIFT_BOUND) + MARGIN_S


@dataclass(frozen=True, slots=True)
class LeaseView:
    """What a writer knows of an epoch's lease. `renew_n`: the newest renewal it has seen. `read_at`: when the newest read
    that showed it began. `until`: it may acknowledge before this, by its own clock."""

    epoch: int = 0
    renew_n: int = -1
    read_at: float = 0.0
    until: float = 0.0

    def seen(self, epoch: int, renew_n: int, began: float, lease_s: float) -> LeaseView:
        """After a read of the register that began at `began`."""
        if epoch < self.epoch or (epoch == self.epoch and renew_n < self.renew_n):
            return self  # an answer that was overtaken
        if epoch != self.epoch:
            # The new epoch was not there when the read before began, so its first renewal is younger than that.
            until = self.read_at + lease_s if self.epoch else 0.0
            return LeaseView(epoch, renew_n, began, until)
        until = self.until if renew_n == self.renew_n else max(self.until, self.read_at + lease_s)
        return LeaseView(epoch, renew_n, max(began, self.read_at), until)

    def renewed(self, epoch: int, renew_n: int, began: float, lease_s: float) -> LeaseView:
        """After a renewal that this process did itself and began at `began`."""
        if epoch < self.epoch:
            return self
        before = self.until if epoch == self.epoch else 0.0
        return LeaseView(epoch, max(renew_n, self.renew_n), max(began, self.read_at), max(before, began + lease_s))

    def holds(self, epoch: int, now: float) -> bool:
        """Whether a write of `epoch` may be acknowledged now."""
        return epoch == self.epoch and now < self.until
