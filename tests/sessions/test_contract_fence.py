"""The fence: grants, epochs, and the order in which a write is checked."""

from __future__ import annotations

import pytest

from sessions import errors
from sessions.checks import MAX_INTEGER
from sessions.limits import Limits
from sessions.model import Position
from tests.sessions.conftest import OpenLab
from tests.sessions.labs import KEY, LEASE_MS, Lab, append, create, events, granted, stored_ids


async def test_a_store_takes_nothing_before_it_is_granted(open_lab: OpenLab) -> None:
    lab = await open_lab()
    with pytest.raises(errors.NotGranted) as refused:
        await create(lab.store)
    assert refused.value.epoch == 0
    fence = await lab.store.fence()
    assert (fence.epoch, fence.granted_to, fence.gseq) == (0, "", 0)


async def test_an_answer_has_position_gseq_and_the_remaining_lease(lab: Lab) -> None:
    created = await create(lab.store)
    await lab.move(1000)
    answer = await append(lab.store, "a", "b", expected=created.version)
    assert (created.gseq, answer.gseq) == (1, 2)
    assert answer.version == created.version + 1
    assert (str(answer.first), str(answer.last)) == ("1-1", "1-2")
    assert not answer.duplicate
    assert created.remaining_ms == LEASE_MS
    assert answer.remaining_ms == LEASE_MS - 1000


async def test_a_lower_epoch_is_fenced_and_a_higher_one_is_not_adopted(lab: Lab) -> None:
    await create(lab.store)
    await granted(lab.store, epoch=2)
    with pytest.raises(errors.Fenced) as fenced:
        await append(lab.store, "a", epoch=1)
    assert (fenced.value.epoch, fenced.value.asked) == (2, 1)
    with pytest.raises(errors.StoreBehind) as behind:
        await append(lab.store, "a", epoch=3)
    assert (behind.value.epoch, behind.value.asked) == (2, 3)
    assert (await lab.store.fence()).epoch == 2
    assert str((await append(lab.store, "a", epoch=2)).last) == "2-1"


async def test_a_lease_ends_at_its_deadline_and_can_be_renewed(lab: Lab) -> None:
    await create(lab.store)
    await lab.move(LEASE_MS - 1)
    assert (await append(lab.store, "a")).remaining_ms == 1
    await lab.move(1)
    with pytest.raises(errors.LeaseExpired):
        await append(lab.store, "b")
    await granted(lab.store)
    await append(lab.store, "b")
    assert await stored_ids(lab.store) == ["a", "b"]


async def test_an_early_renewal_that_comes_late_shortens_nothing(lab: Lab) -> None:
    fence = await lab.store.fence()
    again = await lab.store.grant(1, fence.identity, fence.now_ms + 10)
    assert again.deadline_ms == fence.deadline_ms


async def test_a_clock_that_went_back_revokes_the_grant_for_good(lab: Lab) -> None:
    await create(lab.store)
    await lab.move(-50)
    await append(lab.store, "a")
    await lab.move(-1)
    with pytest.raises(errors.ClockBack) as back:
        await append(lab.store, "b")
    assert back.value.behind_ms == 51
    await lab.move(51)
    with pytest.raises(errors.LeaseExpired):
        await append(lab.store, "b")
    with pytest.raises(errors.EpochRevoked):
        await granted(lab.store, epoch=1)
    await granted(lab.store, epoch=2)
    await append(lab.store, "b", epoch=2)
    assert await stored_ids(lab.store) == ["a", "b"]


async def test_a_new_epoch_starts_with_the_clock_as_it_is(lab: Lab) -> None:
    await lab.move(-60_000)
    with pytest.raises(errors.ClockBack):
        await granted(lab.store, epoch=1)
    await granted(lab.store, epoch=2)
    await create(lab.store, epoch=2)


@pytest.mark.parametrize("refused_by", [errors.LeaseExpired, errors.Fenced])
async def test_a_refused_write_moves_the_high_water_mark_too(lab: Lab, refused_by: type[errors.FenceRefused]) -> None:
    """An idle shard whose clock ran ahead and is put back must not come to life again within the old deadline."""
    await create(lab.store)
    if refused_by is errors.LeaseExpired:
        await lab.move(LEASE_MS + 10_000)
    else:
        await granted(lab.store, epoch=2)
        await lab.move(1000)
    with pytest.raises(refused_by):
        await append(lab.store, "a", epoch=1)
    await lab.move(-900)
    with pytest.raises(errors.ClockBack):
        await append(lab.store, "a", epoch=1)


async def test_a_store_with_another_identity_is_not_granted(lab: Lab) -> None:
    await create(lab.store)
    before = await lab.store.fence()
    await lab.new_identity()
    after = await lab.store.fence()
    assert after.identity != before.identity
    assert after.granted_to == before.identity
    with pytest.raises(errors.NotGranted) as refused:
        await append(lab.store, "a")
    assert refused.value.epoch == 1
    with pytest.raises(errors.EpochReused):
        await granted(lab.store, epoch=1)
    with pytest.raises(errors.WrongStore):
        await lab.store.grant(2, before.identity, after.now_ms + 1000)
    await granted(lab.store, epoch=2)
    assert str((await append(lab.store, "a", epoch=2)).last) == "2-1"


async def test_grants_that_are_refused(lab: Lab) -> None:
    await granted(lab.store, epoch=5)
    fence = await lab.store.fence()
    with pytest.raises(errors.StaleEpoch) as stale:
        await granted(lab.store, epoch=4)
    assert (stale.value.epoch, stale.value.asked) == (5, 4)
    with pytest.raises(errors.StaleEpoch):
        await granted(lab.store, epoch=0)
    longest = lab.store.limits.longest_lease_ms
    with pytest.raises(errors.DeadlineTooFar) as far:
        await granted(lab.store, epoch=6, lease_ms=longest + 1)
    assert (far.value.ahead_ms, far.value.limit_ms) == (longest + 1, longest)
    assert await lab.store.fence() == fence
    await granted(lab.store, epoch=6, lease_ms=longest)


async def test_a_revoked_epoch_takes_nothing_and_cannot_be_granted_again(lab: Lab) -> None:
    await create(lab.store)
    await append(lab.store, "a")
    assert await lab.store.revoke(1) == 2
    assert await lab.store.revoke(1) == 2
    with pytest.raises(errors.LeaseExpired):
        await append(lab.store, "b")
    with pytest.raises(errors.EpochRevoked):
        await granted(lab.store, epoch=1)
    await granted(lab.store, epoch=2)
    with pytest.raises(errors.StaleEpoch):
        await lab.store.revoke(1)


async def test_a_revocation_overtakes_the_grant_that_it_is_for(lab: Lab) -> None:
    await lab.store.revoke(2)
    with pytest.raises(errors.EpochRevoked):
        await granted(lab.store, epoch=2)
    with pytest.raises(errors.Fenced):
        await create(lab.store, epoch=1)
    await granted(lab.store, epoch=3)
    await create(lab.store, epoch=3)


async def test_a_new_epoch_notes_where_it_forked(lab: Lab) -> None:
    await create(lab.store)
    await append(lab.store, "a")
    await granted(lab.store, epoch=2)
    await append(lab.store, "b", epoch=2)
    await granted(lab.store, epoch=2)
    fence = await lab.store.fence()
    assert (fence.fork_gseq, fence.gseq) == (2, 3)


async def test_a_duplicate_is_answered_with_its_first_answer_even_past_other_writes(lab: Lab) -> None:
    created = await create(lab.store)
    first = await append(lab.store, "a", "b", expected=created.version)
    await append(lab.store, "c")
    await granted(lab.store, epoch=2)
    again = await append(lab.store, "a", "b", expected=created.version, epoch=2)
    assert again.duplicate
    assert (again.first, again.last, again.version, again.gseq) == (first.first, first.last, first.version, first.gseq)
    assert await stored_ids(lab.store) == ["a", "b", "c"]
    assert (await lab.store.fence()).gseq == 3


async def test_a_duplicate_is_fenced_like_any_write(lab: Lab) -> None:
    await create(lab.store)
    await append(lab.store, "a")
    await granted(lab.store, epoch=2)
    with pytest.raises(errors.Fenced):
        await append(lab.store, "a", epoch=1)


async def test_every_refusal_comes_before_all_later_ones(lab: Lab) -> None:
    """Each step makes the write pass one more check, and the next refusal shows."""
    created = await create(lab.store)
    await append(lab.store, "a", expected=created.version)
    await lab.new_identity()
    store = lab.store

    async def write(*ids: str, epoch: int) -> None:
        await store.append(KEY, events(*ids), epoch=epoch, expected_version=999)

    await lab.move(-500_000)
    with pytest.raises(errors.NotGranted):  # and its clock is back, its epoch another, its lease over
        await write("a", epoch=3)
    await granted(store, epoch=2)
    await lab.move(-1000)
    with pytest.raises(errors.ClockBack):  # and the epoch another
        await write("a", epoch=3)
    await granted(store, epoch=3)
    await lab.move(LEASE_MS)
    with pytest.raises(errors.Fenced):  # and the lease over
        await write("a", epoch=2)
    with pytest.raises(errors.StoreBehind):
        await write("a", epoch=4)
    with pytest.raises(errors.LeaseExpired):  # and a duplicate
        await write("a", epoch=3)
    await granted(store, epoch=3)
    await write("a", epoch=3)  # a duplicate, whose version is another
    with pytest.raises(errors.VersionConflict) as conflict:
        await write("b", epoch=3)
    assert (conflict.value.version, conflict.value.expected) == (created.version + 1, 999)


async def test_the_conflict_is_told_before_a_limit(open_lab: OpenLab) -> None:
    lab = await open_lab(limits=Limits(session_events=1))
    await granted(lab.store)
    await create(lab.store)
    with pytest.raises(errors.VersionConflict):
        await append(lab.store, "a", "b", expected=7)
    with pytest.raises(errors.LimitExceeded):
        await append(lab.store, "a", "b", expected=0)


@pytest.mark.parametrize("what", ["create", "delete", "expire", "counts", "drop"])
async def test_every_write_is_fenced(lab: Lab, what: str) -> None:
    store = lab.store
    await create(store)
    await granted(store, epoch=2)
    with pytest.raises(errors.Fenced):
        match what:
            case "create":
                await create(store)
            case "delete":
                await store.delete(KEY, epoch=1)
            case "expire":
                await store.expire(epoch=1, idle_before_ms=MAX_INTEGER)
            case "counts":
                await store.add_counts([], epoch=1)
            case _:
                await store.drop_counts(0, epoch=1)
    assert (await store.info(KEY)).version == 0


async def test_an_answer_that_came_after_the_lease_is_in_doubt(lab: Lab) -> None:
    await create(lab.store)
    left_s = LEASE_MS / 1000
    slow = _SlowReads(lab, left_s / 1.02 + 0.001)
    with pytest.raises(errors.InDoubt) as doubt:
        await append(lab.store, "a", expected=0)
    assert doubt.value.event_id == "a"
    slow.seconds = left_s / 1.02 - 0.001
    assert (await append(lab.store, "a", expected=0)).duplicate
    found = await lab.store.lookup(KEY, "a")
    assert found is not None
    assert found.position == Position(1, 1)


class _SlowReads:
    """The writer's clock jumps between the two readings of a write, as if the answer had taken so long."""

    def __init__(self, lab: Lab, seconds: float) -> None:
        self.seconds = seconds
        self._clock, self._now, self._calls = lab.clock, lab.clock.now, 0
        lab.clock.now = self._read  # type: ignore[method-assign]

    def _read(self) -> float:
        self._calls += 1
        return self._now() + (self.seconds if self._calls % 2 == 0 else 0.0)


async def test_g02_the_old_store_is_refused_after_its_lease_and_the_new_one_always(open_lab: OpenLab) -> None:
    """Two stores of one shard, whose writers still know the old epoch."""
    old, new = await open_lab(), await open_lab()
    await granted(old.store, epoch=1)
    await create(old.store, epoch=1)
    await append(old.store, "a", epoch=1)
    await old.move(LEASE_MS)
    await new.move(LEASE_MS)
    await granted(new.store, epoch=2)
    with pytest.raises(errors.LeaseExpired):
        await append(old.store, "b", epoch=1)
    with pytest.raises(errors.Fenced):
        await create(new.store, epoch=1)
    created = await create(new.store, epoch=2)
    answer = await append(new.store, "b", epoch=2, expected=created.version)
    again = await append(new.store, "b", epoch=2, expected=created.version)
    assert (answer.duplicate, again.duplicate) == (False, True)
    with pytest.raises(errors.StoreBehind):  # the old one takes no writes of the new epoch either
        await append(old.store, "b", epoch=2)
