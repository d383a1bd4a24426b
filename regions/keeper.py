"""The keeper of a shard in one region: looks, decides, acts, again and again.

Each gateway runs one for each shard. It renews the lease while its region holds the shard, takes over when the holder does not
renew any more, goes on with what others have left, and brings an old primary back: exports what only that has, then has it
follow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from regions.decide import Decision, decide
from regions.errors import RegionsError, SwapConflict
from regions.export import export
from regions.journal import Journal
from regions.node import Node
from regions.observer import Observer
from regions.plan import first_record
from regions.promotion import Promoter
from regions.record import Loss, ShardRecord
from regions.renewal import Pace, renew
from regions.views import RegisterView
from sessions.errors import SessionsError
from sessions.model import SessionKey
from sessions.tail import LostSession
from stanchion.clock import Clock
from stanchion.faults import place_of

Tell = Callable[[str, str, str], None]
"""Hears of the shard, the action, and a sentence; the same again and again is told once."""

_EXPORTED_KEPT = 20
_TRIES = 10


class Keeper:
    """`name`: this gateway, for the record. `exports`: the folder for what promotions lost. `told` hears of decisions."""

    def __init__(
        self,
        observer: Observer,
        promoter: Promoter,
        journal: Journal,
        clock: Clock,
        now: Callable[[], float],
        *,
        name: str,
        exports: Path,
        interval_s: float,
        told: Tell,
    ) -> None:
        self.observer, self.promoter = observer, promoter
        self.decision = Decision("wait", "it has just started")
        self._journal, self._clock, self._now = journal, clock, now
        self._name, self._exports, self._interval_s, self._told = name, exports, interval_s, told
        self._spec, self._watch = observer.spec, observer.watch
        self._nodes: Mapping[str, Node] = observer.nodes
        self._pace = Pace()
        self._task: asyncio.Task[None] | None = None
        self._said = ("", "")

    def start(self) -> None:
        self.observer.start()
        self._task = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        """Stop. A lease that is held runs out by itself."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self.observer.close()

    async def _run(self) -> None:
        while True:
            await self.step()
            await self._clock.sleep(self._interval_s)

    async def step(self) -> Decision:
        """Decide once, and act. What goes wrong is told, and tried again at the next step."""
        snapshot = self.observer.snapshot()
        decision = decide(snapshot, self._watch.since_change())
        self.decision = decision
        if decision.action not in ("nothing", "renew") and self._watch.asked:
            self._tell(decision.action, decision.why)
        try:
            await self._act(decision, snapshot.register)
        except SwapConflict:
            pass  # somebody else was first: the next step sees it
        except (RegionsError, SessionsError, OSError) as error:
            self._tell(f"{decision.action} failed", str(error))
        except Exception as error:  # noqa: BLE001 - a fault of the keeper's own must not end it: the lease hangs on it
            self._tell(f"{decision.action} failed", f"a fault: {type(error).__name__} at {place_of(error)}")
        else:
            if decision.action in ("nothing", "renew"):
                self._said = ("", "")
        return decision

    def _tell(self, action: str, sentence: str) -> None:
        """A sentence that only differs in its numbers is the same one."""
        kind = (action, "".join(letter for letter in sentence if not letter.isdigit()))
        if kind != self._said:
            self._said = kind
            self._told(self._spec.name, action, sentence)

    async def _act(self, decision: Decision, register: RegisterView | None) -> None:
        if register is None or decision.action in ("nothing", "wait", "refuse"):
            return
        match decision.action:
            case "bootstrap":
                await self._bootstrap(register)
            case "renew":
                await renew(self._watch, self._own, self._spec, register, self._pace, self._now)
            case "mode":
                await self._mode(register, decision)
            case "reopen":
                await self.promoter.reopen(
                    decision.mode,  # type: ignore[arg-type]
                    decided=register,
                    by=self._name,
                    reason=decision.why,
                )
            case "failover":
                await self._failover(register, decision)
            case "resume":
                await self.promoter.resume(decided=register, by=self._name)
            case "export":
                await self._export(register)
            case "follow":
                await self._follow(register)
            case "detach":
                await self._own.promote()  # without a grant it takes no writes

    @property
    def _own(self) -> Node:
        return self._nodes[self.observer.own]

    async def _bootstrap(self, register: RegisterView) -> None:
        wall = self._clock.wall()
        await self._own.promote()  # where it waits for that; its identity is another one then
        fence = await self._own.store.fence()
        record = first_record(self._spec, self.observer.own, fence.identity, fence.gseq, self._name, wall)
        view = await self._watch.swap(register, record)
        await renew(self._watch, self._own, self._spec, view, self._pace, self._now)

    async def _mode(self, register: RegisterView, decision: Decision) -> None:
        record = _record(register)
        wall = self._clock.wall()
        await self._watch.swap(
            register,
            replace(record, mode=decision.mode, by=self._name, reason=decision.why, at=wall),  # type: ignore[arg-type]
        )

    async def _failover(self, register: RegisterView, decision: Decision) -> None:
        assert decision.candidate is not None  # noqa: S101 - decided with it
        await self.promoter.failover(decision.candidate.region, by=self._name, reason=decision.why, decided=register)

    async def _export(self, register: RegisterView) -> None:
        """Write the tail out, mark its sessions where the shard goes on, and only then record that this is done."""
        record = _record(register)
        loss = next(one for one in record.losses if one.region == self.observer.own and not one.exported)
        exported = await export(self._own.tail(loss.fork_gseq or 0), self._exports, self._spec.name, loss)
        await self._mark(record, loss, exported.sessions)
        done = replace(loss, exported=True, events=exported.events, turns=exported.turns)
        losses = tuple(done if one == loss else one for one in record.losses)
        kept = [one for one in losses if not one.exported] + [one for one in losses if one.exported][-_EXPORTED_KEPT:]
        if not await self._record_losses(record, tuple(kept)):
            return  # it was changed meanwhile: done again from there
        await self._journal.exported(self._spec.name, loss.epoch + 1, exported.as_dict())
        self._tell(
            "exported", f"{exported.events} events in {exported.turns} turns of epoch {loss.epoch}: {exported.file}"
        )

    async def _record_losses(self, before: ShardRecord, losses: tuple[Loss, ...]) -> bool:
        """Against renewals, which change the record all the time; False where its losses are others by now."""
        for _ in range(_TRIES):
            present = await self._watch.refresh()
            if _record(present).losses != before.losses:
                return False
            with suppress(SwapConflict):
                await self._watch.swap(present, replace(_record(present), losses=losses))
                return True
        return False

    async def _mark(self, record: ShardRecord, loss: Loss, sessions: Mapping[SessionKey, LostSession]) -> None:
        store = self._nodes[record.holder].store
        for key, lost in sessions.items():
            await store.mark_lost(key, lost, epoch=record.epoch, lost_epoch=loss.epoch)

    async def _follow(self, register: RegisterView) -> None:
        """The record is read once more: a store that follows gives up all that it holds."""
        before, present = _record(register), _record(await self._watch.refresh())
        if (present.epoch, present.holder, present.stage) == (before.epoch, before.holder, "open"):
            await self._own.follow(self._nodes[present.holder].spec)


def _record(register: RegisterView) -> ShardRecord:
    assert register.record is not None  # noqa: S101 - decided from it
    return register.record
