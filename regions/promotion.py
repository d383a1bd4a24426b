"""Promotions, acted out: each step can be done again, and whoever finds one that was left goes on with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from regions.crash import CrashPoint, nowhere
from regions.errors import AuthorityError, NodeError, PromotionRefused, PromotionStopped, SwapConflict
from regions.journal import Entry, Journal, Kind
from regions.lease import fence_wait_s
from regions.node import Node
from regions.observer import Observer
from regions.plan import Plan, failed_over, opening_mode, plan_failover, plan_switchover, switching
from regions.record import Mode, ShardRecord
from regions.renewal import next_epoch, open_store
from regions.topology import ShardSpec
from regions.views import RegisterView, Snapshot
from sessions.errors import SessionsError, StaleEpoch, StoreUnavailable
from stanchion.clock import Clock

Say = Callable[[str, str], None]
"""Hears of each step: its name, and a sentence."""

CATCH_UP_S = 5.0
"""How long a switchover waits for the target, while nobody can write."""

_POLL_S = 0.002


def silent(step: str, sentence: str) -> None:
    """Hears nothing."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Seconds that each step took."""

    clock: Clock
    took: dict[str, float]

    def done(self, name: str, began: float) -> float:
        now = self.clock.now()
        self.took[name] = round(now - began, 4)
        return now


class Promoter:
    """Runs promotions of one shard. `now` is the clock of leases; `by` says who acts, for the record."""

    def __init__(
        self,
        observer: Observer,
        journal: Journal,
        clock: Clock,
        now: Callable[[], float],
        crash: CrashPoint = nowhere,
    ) -> None:
        self._observer, self._journal, self._clock, self._now, self._crash = observer, journal, clock, now, crash
        self._watch = observer.watch
        self._spec: ShardSpec = observer.spec
        self._nodes: Mapping[str, Node] = observer.nodes

    async def plan(self, kind: Kind, to: str, *, force: bool = False) -> Plan:
        """What would be done now. Raises PromotionRefused, UnknownRegion or AuthorityError."""
        snapshot = await self._observer.look_now()
        return plan_switchover(snapshot, to) if kind == "switchover" else plan_failover(snapshot, to, force=force)

    async def failover(
        self,
        to: str,
        *,
        by: str,
        reason: str,
        force: bool = False,
        decided: RegisterView | None = None,
        say: Say = silent,
    ) -> Entry:
        """Promote the store of `to`. `decided`: what a keeper decided it from; then a primary elsewhere is not asked any more.

        Raises PromotionRefused before anything is changed, PromotionStopped after."""
        steps = Steps(self._clock, {"detect": round(decided.unchanged_s if decided is not None else 0.0, 4)})
        began = self._clock.now()
        record = None if decided is None else decided.record
        lost = record.holder if record is not None and record.holder != to else ""
        snapshot = await self._observer.look_now(without=lost)
        view, record = self._still(decided, snapshot)
        plan = plan_failover(snapshot, to, force=force, lost=lost)
        say("decide", f"{to} is at {snapshot.node(to).gseq} of {record.gseq}; at most {plan.loss} writes may be lost")
        self._crash("failover:record")
        after = failed_over(snapshot, record, plan, by=by, reason=reason, wall=self._clock.wall())
        view = await self._begin(view, after)
        steps.done("decide", began)
        entry = Entry(
            self._spec.name, after.epoch, "failover", record.holder, to, by, reason, self._clock.wall(),
            forced=force, loss_bound=plan.loss,
        )  # fmt: skip
        say("record", f"epoch {after.epoch} belongs to {to}")
        return await self._open(view, entry, steps, plan.wait_s, say)

    async def switchover(self, to: str, *, by: str, reason: str, say: Say = silent) -> Entry:
        """Move the shard to `to` without a loss. Raises PromotionRefused before anything is changed, PromotionStopped after."""
        steps = Steps(self._clock, {})
        began = self._clock.now()
        snapshot = await self._observer.look_now()
        plan_switchover(snapshot, to)
        view, record = _present(snapshot)
        self._crash("switchover:record")
        view = await self._begin(view, switching(record, to, by, reason, self._clock.wall()))
        steps.done("decide", began)
        say("record", f"the shard is switching from {record.holder} to {to}")
        return await self._switch(view, steps, say)

    async def reopen(self, mode: Mode, *, decided: RegisterView, by: str, reason: str) -> Entry:
        """A new epoch for the same store: its old one was revoked, or writers have to change their ways.

        `decided`: what it was decided from. Raises as `failover` does, and SwapConflict where that is over."""
        snapshot = await self._observer.look_now()
        view, record = self._still(decided, snapshot)
        node, identity = self._nodes[record.holder], record.store_identity
        steps, began = Steps(self._clock, {}), self._clock.now()
        _, peers = opening_mode(self._spec, record.holder, lost=False)
        after = next_epoch(
            record, record.holder, by=by, reason=reason, at=self._clock.wall(), mode=mode, sync_peers=peers,
            store_identity=identity, source=record.source, source_identity=record.source_identity,
        )  # fmt: skip
        sealed = await node.store.revoke(record.epoch)  # nothing of the epoch before is taken any more
        view = await self._begin(view, replace(after, sealed_gseq=sealed))
        steps.done("decide", began)
        entry = Entry(
            self._spec.name, after.epoch, "reopen", record.holder, record.holder, by, reason, self._clock.wall()
        )
        return await self._open(view, entry, steps, 0.0, silent)

    async def resume(self, *, decided: RegisterView, by: str) -> Entry:
        """Go on with what somebody has left, as it was when that was `decided`. Raises as `failover` does."""
        view, record = self._still(decided, await self._observer.look_now())
        steps = Steps(self._clock, {})
        if record.stage == "switching":
            return await self._switch(view, steps, silent)
        if record.stage != "opening":
            raise PromotionRefused("done", f"the shard {self._spec.name} is open in epoch {record.epoch} already")
        kind: Kind = "reopen" if record.source == record.holder else "failover"
        reason = f"{record.reason} (begun by {record.by}, ended by {by})"
        entry = Entry(
            self._spec.name,
            record.epoch,
            kind,
            record.source,
            record.holder,
            record.by,
            reason,
            record.at,
            loss_bound=None,
        )
        # Nobody knows how long it was waited for before: the wait begins anew.
        wait_s = 0.0 if record.sealed_gseq is not None else fence_wait_s(self._spec.lease_s)
        return await self._open(view, entry, steps, wait_s, silent)

    def _still(self, decided: RegisterView | None, snapshot: Snapshot) -> tuple[RegisterView, ShardRecord]:
        """The register as it is now, if it still is what was decided from.

        A keeper looks at a register and at stores in turn, so what it saw may be of two moments: a store that was just revoked
        for a switchover, under a record that does not say so yet. So only the record that was decided from is acted on.
        Renewals alone do not count where the holder itself acts; where it is given up, one is all that matters.

        Raises SwapConflict.
        """
        view, record = _present(snapshot)
        if decided is None or decided.record is None or view.revision == decided.revision:
            return view, record
        before, own = decided.record, record.holder == self._observer.own
        if (
            own
            and before.stage == "open"
            and replace(record, renew_n=0, gseq=0, writes_s=0) == replace(before, renew_n=0, gseq=0, writes_s=0)
        ):
            return view, record
        raise SwapConflict(self._watch.name)

    async def _begin(self, expected: RegisterView, record: ShardRecord) -> RegisterView:
        """The compare-and-set that decides. Who comes second changes nothing, and is told who was first."""
        try:
            return await self._watch.swap(expected, record)
        except SwapConflict:
            with suppress(AuthorityError):
                present = (await self._watch.refresh()).record
                if present is not None and expected.record is not None and present.epoch == expected.record.epoch:
                    raise PromotionRefused(
                        "changed", "the primary renewed its lease, or another step was recorded, meanwhile: look again"
                    ) from None
                if present is not None:
                    raise PromotionRefused(
                        "second",
                        f"epoch {present.epoch} was taken by {present.by or 'somebody else'} for {present.holder} meanwhile "
                        f"({present.reason}): nothing was changed here",
                    ) from None
            raise

    async def _open(self, view: RegisterView, entry: Entry, steps: Steps, wait_s: float, say: Say) -> Entry:
        """From the recorded epoch to an open shard."""
        node = self._nodes[entry.to]
        await self._journal.write(replace(entry, steps_s=steps.took))
        began = self._clock.now()
        if wait_s > 0:
            say("fence_wait", f"waiting {wait_s:.1f} s, until the lease of {entry.source} is over by any clock")
            until = self._now() + wait_s
            while (left := until - self._now()) > 0:
                await self._clock.sleep(left)
        began = steps.done("fence_wait", began)
        self._crash("failover:promote")
        try:
            await node.promote()
            say("promote", f"the store in {entry.to} is a primary")
            began = steps.done("promote", began)
            opened = await open_store(self._watch, node, self._spec, view, self._now, self._clock.wall, self._crash)
        except (SessionsError, NodeError) as error:
            raise PromotionStopped(
                f"epoch {entry.epoch} is recorded for {entry.to}, and its store cannot be opened yet ({error}): the gateways "
                "there go on with it when it can be asked; promote again to choose another store"
            ) from error
        except SwapConflict as error:
            raise PromotionStopped(
                f"somebody else went on with epoch {entry.epoch} meanwhile: see `stanchion status`"
            ) from error
        steps.done("open", began)
        say("open", f"epoch {entry.epoch} is open in {entry.to}")
        done = replace(entry, fork_gseq=opened.fork_gseq, steps_s=steps.took, done=True)
        await self._journal.write(done)
        return done

    async def _switch(self, view: RegisterView, steps: Steps, say: Say) -> Entry:
        record = view.record
        assert record is not None  # noqa: S101 - it is switching
        source, target = self._nodes[record.holder], self._nodes[record.target]
        began = self._clock.now()
        self._crash("switchover:revoke")
        try:
            sealed = await source.store.revoke(record.epoch)
        except StaleEpoch:
            raise PromotionStopped("another promotion came first: see `stanchion status`") from None
        except SessionsError as error:
            return await self._back(
                view, steps, f"the store in {record.holder} could not be asked ({error})", sealed=None
            )
        say("revoke", f"epoch {record.epoch} is over at {record.holder}, at {sealed}")
        began = steps.done("revoke", began)
        self._crash("switchover:catch_up")
        if not await self._caught_up(target, sealed):
            return await self._back(
                view, steps, f"the store in {record.target} did not catch up within {CATCH_UP_S:g} s", sealed=sealed
            )
        began = steps.done("catch_up", began)
        mode, peers = opening_mode(self._spec, record.target, lost=False)
        after = next_epoch(
            record, record.target, by=record.by, reason=record.reason, at=self._clock.wall(), mode=mode, sync_peers=peers,
            sealed_gseq=sealed,
        )  # fmt: skip
        self._crash("switchover:epoch")
        view = await self._begin(view, after)
        entry = Entry(
            self._spec.name, after.epoch, "switchover", record.holder, record.target, record.by, record.reason,
            self._clock.wall(), loss_bound=0,
        )  # fmt: skip
        done = await self._open(view, entry, steps, 0.0, say)
        self._crash("switchover:follow")
        with suppress(NodeError, SessionsError):  # else its keeper does
            await source.follow(target.spec)
            say("follow", f"the store in {record.holder} follows {record.target}")
        return done

    async def _caught_up(self, target: Node, gseq: int) -> bool:
        until = self._clock.now() + CATCH_UP_S
        while self._clock.now() < until:
            with suppress(StoreUnavailable):
                if (await target.store.fence()).gseq >= gseq:
                    return True
            await self._clock.sleep(_POLL_S)
        return False

    async def _back(self, view: RegisterView, steps: Steps, why: str, *, sealed: int | None) -> Entry:
        """The holder goes on, in a new epoch: its old one is revoked, or may be at any moment."""
        record = view.record
        assert record is not None  # noqa: S101 - it is switching
        mode, peers = opening_mode(self._spec, record.holder, lost=False)
        after = next_epoch(
            record, record.holder, by=record.by, reason=f"switchover to {record.target} called off: {why}",
            at=self._clock.wall(), mode=mode, sync_peers=peers, store_identity=record.store_identity,
            source=record.source, source_identity=record.source_identity, sealed_gseq=sealed,
        )  # fmt: skip
        view = await self._begin(view, after)
        entry = Entry(
            self._spec.name,
            after.epoch,
            "reopen",
            record.holder,
            record.holder,
            record.by,
            after.reason,
            self._clock.wall(),
        )
        await self._open(view, entry, steps, 0.0, silent)
        raise PromotionStopped(f"{why}: {record.holder} goes on as the primary, in epoch {after.epoch}")


def _present(snapshot: Snapshot) -> tuple[RegisterView, ShardRecord]:
    if snapshot.register is None or snapshot.register.record is None:
        raise PromotionRefused(
            "authority", f"the authority cannot be asked, or has no record of the shard ({snapshot.authority_error})"
        )
    return snapshot.register, snapshot.register.record
