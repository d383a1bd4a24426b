"""One shard's register as this process sees it: the newest reading, how long it has not changed, and the writer's lease."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from regions.authority.base import Authority, settled_swap
from regions.errors import AuthorityError, AuthorityNonsense, SwapConflict
from regions.lease import LeaseView
from regions.record import ShardRecord, decode
from regions.topology import ShardSpec
from regions.views import RegisterView
from stanchion.faults import place_of

GAP_FACTOR = 3.0
"""A reading that is further than so many intervals from the one before says nothing of the time between."""


def register_name(shard: str) -> str:
    return f"shards/{shard}"


class ShardWatch:
    """Reads and writes one shard's register; everything in this process that needs the record has it from here.

    `now` is a clock that is not set and counts while the machine sleeps. `interval_s`: how often somebody reads at least.
    """

    def __init__(self, spec: ShardSpec, authority: Authority, now: Callable[[], float], interval_s: float) -> None:
        self.spec = spec
        self.name = register_name(spec.name)
        self.authority = authority
        self.lease = LeaseView()
        self.error = "it has not been asked yet"
        self.asked = False
        self._now = now
        self._gap_s = interval_s * GAP_FACTOR
        self._view: RegisterView | None = None
        self._since = 0.0  # the end of the first reading of this revision, of those without a gap
        self._read_at = float("-inf")  # the end of the newest
        self._known_at = float("-inf")  # the moment of which the view is, at least
        self._reading: asyncio.Task[RegisterView] | None = None
        self._changed = asyncio.Event()

    @property
    def view(self) -> RegisterView | None:
        """The newest reading, None before the first."""
        return self._view

    @property
    def record(self) -> ShardRecord | None:
        return None if self._view is None else self._view.record

    def since_change(self) -> float:
        """Seconds since the register is known to have its present revision."""
        return self._now() - self._since

    async def read(self) -> RegisterView:
        """Read the register now. Who asks while another reading is under way waits for the next one, and shares it.

        Raises AuthorityError."""
        began = self._now()
        try:
            found = await self.authority.read(self.name)
            record = None if found is None else decode(self.name, found.value)
        except AuthorityError as error:
            self.error, self.asked = str(error), True
            raise
        except Exception as error:
            self.error, self.asked = f"a fault: {type(error).__name__} at {place_of(error)}", True
            raise AuthorityNonsense(self.error) from error
        self.error, self.asked = "", True
        ended = self._now()
        self.lease = self._leased(record, began)
        return self._take(record, None if found is None else found.revision, began, began, ended)

    async def refresh(self) -> RegisterView:
        """A reading that begins after this call; many who ask at once share one. Raises AuthorityError."""
        task = self._reading
        if task is not None and not task.done():  # it may have begun before what the caller has seen
            await asyncio.wait({task})
        if self._reading is task or self._reading is None:
            self._reading = asyncio.ensure_future(self.read())
            self._reading.add_done_callback(_seen)
        return await asyncio.shield(self._reading)

    async def swap(self, expected: RegisterView, record: ShardRecord, began: float | None = None) -> RegisterView:
        """Write `record` in place of what `expected` shows. Raises SwapConflict and what the authority raises.

        `began`: when the reading of the store's time began, for a renewal by this process.
        """
        started = self._now()
        try:
            revision = await settled_swap(self.authority, self.name, expected.revision, record.encode())
        except SwapConflict:
            self._since = self._now()
            raise
        ended = self._now()
        self.lease = self._leased(record, started)
        if began is not None:
            self.lease = self.lease.renewed(record.epoch, record.renew_n, began, self.spec.lease_s)
        # It was written at some moment before `ended`: what a reading that began earlier found may be from before that.
        return self._take(record, revision, started, ended, ended)

    async def changed(self, timeout_s: float) -> None:
        """Wait until another record is known, at most so long."""
        event = self._changed
        try:
            async with asyncio.timeout(timeout_s):
                await event.wait()
        except TimeoutError:
            return

    def _leased(self, record: ShardRecord | None, began: float) -> LeaseView:
        return self.lease if record is None else self.lease.seen(record.epoch, record.renew_n, began, self.spec.lease_s)

    def _take(
        self, record: ShardRecord | None, revision: str | None, began: float, known_at: float, ended: float
    ) -> RegisterView:
        """Take what is known of `known_at`, from a reading or a write, as the present view, unless a later one is there. What
        was found is returned in any case: whoever acts on it is told by compare-and-set where it is over."""
        before = self._view
        other = before is None or before.revision != revision
        if before is not None and known_at < self._known_at:  # overtaken by one that knows of a later moment
            return before if not other else RegisterView(record, revision, began)
        if other or began - self._read_at > self._gap_s:
            self._since = ended
        self._read_at, self._known_at = max(ended, self._read_at), known_at
        view = self._view = RegisterView(record, revision, began, max(0.0, began - self._since))
        if other:
            self._changed.set()
            self._changed = asyncio.Event()
        return view


def _seen(task: asyncio.Task[RegisterView]) -> None:
    """An error that nobody waits for any more is one that was looked at: `error` has its text."""
    if not task.cancelled():
        task.exception()
