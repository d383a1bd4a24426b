"""Random sequences of operations on a store and on a naive model of it, which have to agree on every answer and refusal."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Awaitable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
import uvloop
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from sessions.errors import Refused
from sessions.limits import Limits
from sessions.model import SessionKey
from tests.sessions.labs import Lab, RedisLab, SqliteLab, events
from tests.sessions.redis_server import RedisServer

T = TypeVar("T")

LIMITS = Limits(session_events=6, state_bytes=40, longest_lease_ms=1000)
KEYS = [SessionKey("shop", "ann", "1"), SessionKey("shop", "ann", "2"), SessionKey("shop", "bob", "1")]
EXAMPLES = int(os.environ.get("STANCHION_MODEL_EXAMPLES", "30"))
STEPS = 30


@dataclass
class ModelSession:
    """A session as the model has it: its appends in order, each (ids, answer)."""

    write_id: str
    made: tuple[int, int]  # gseq, version
    version: int
    seq: int
    updated: int
    appends: list[tuple[tuple[str, ...], dict[str, Any]]] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)

    def ids(self) -> list[str]:
        return [one for ids, _ in self.appends for one in ids]


class Model:
    """The contract in memory, written without a look at the stores."""

    def __init__(self) -> None:
        self.now = 10_000_000  # far from the 0 of a revoked deadline
        self.identity = 0
        self.epoch, self.granted_to, self.deadline, self.revoked, self.high, self.gseq = 0, -1, 0, False, 0, 0
        self.sessions: dict[SessionKey, ModelSession] = {}
        self.gone: dict[SessionKey, tuple[int, int]] = {}
        self.app: dict[str, dict[str, Any]] = {}
        self.user: dict[tuple[str, str], dict[str, Any]] = {}

    def fenced(self, epoch: int) -> str | None:
        if self.granted_to != self.identity:
            return "NOT_GRANTED"
        if self.high - self.now > 50:
            self.deadline, self.revoked = 0, True
            return "CLOCK_BACK"
        self.high = max(self.high, self.now)
        if epoch != self.epoch:
            return "FENCED" if epoch < self.epoch else "STORE_BEHIND"
        return "LEASE_EXPIRED" if self.now >= self.deadline else None

    def grant(self, epoch: int, lease: int) -> str | None:
        if epoch < self.epoch or epoch < 1:
            return "STALE_EPOCH"
        if epoch == self.epoch:
            if self.granted_to != self.identity:
                return "EPOCH_REUSED"
            if self.revoked:
                return "REVOKED"
            if self.high - self.now > 50:
                self.deadline, self.revoked = 0, True
                return "CLOCK_BACK"
        if lease > LIMITS.longest_lease_ms:
            return "DEADLINE_TOO_FAR"
        if epoch == self.epoch:
            self.deadline, self.high = max(self.deadline, self.now + lease), max(self.high, self.now)
        else:
            self.epoch, self.granted_to, self.revoked = epoch, self.identity, False
            self.deadline, self.high = self.now + lease, self.now
        return None

    def revoke(self, epoch: int) -> str | None:
        if epoch < self.epoch or epoch < 1:
            return "STALE_EPOCH"
        if epoch > self.epoch:
            self.epoch, self.granted_to = epoch, self.identity
        self.deadline, self.revoked = 0, True
        return None

    def create(self, key: SessionKey, epoch: int, write_id: str, state: dict[str, Any]) -> str | dict[str, Any]:
        if not self.alone(state):
            return "LIMIT"
        if refusal := self.fenced(epoch):
            return refusal
        if found := self.sessions.get(key):
            if found.write_id != write_id:
                return "EXISTS"
            return {"gseq": found.made[0], "version": found.made[1], "duplicate": True}
        if not self.fits(key, state):
            return "LIMIT"
        version, seq = self.gone.get(key, (-1, 0))
        self.gseq += 1
        self.sessions[key] = ModelSession(write_id, (self.gseq, version + 1), version + 1, seq, self.now)
        self.merge(key, state)
        return {"gseq": self.gseq, "version": version + 1, "duplicate": False}

    def append(
        self, key: SessionKey, epoch: int, ids: tuple[str, ...], expected: int | None, state: dict[str, Any]
    ) -> str | dict[str, Any]:
        if not self.alone(state):
            return "LIMIT"
        if refusal := self.fenced(epoch):
            return refusal
        session = self.sessions.get(key)
        if session is None:
            return "GONE" if key in self.gone else "NO_SESSION"
        if set(ids) & set(session.ids()):
            for before, answer in session.appends:
                if before == ids:
                    return {**answer, "duplicate": True}
            return "MIXED_IDS"
        if expected is not None and expected != session.version:
            return "CONFLICT"
        if len(session.ids()) + len(ids) > LIMITS.session_events or not self.fits(key, state):
            return "LIMIT"
        self.gseq += 1
        answer = {
            "gseq": self.gseq,
            "version": session.version + 1,
            "first": f"{epoch}-{session.seq + 1}",
            "last": f"{epoch}-{session.seq + len(ids)}",
            "duplicate": False,
        }
        session.appends.append((ids, answer))
        session.version, session.seq, session.updated = session.version + 1, session.seq + len(ids), self.now
        self.merge(key, state)
        return answer

    def delete(self, key: SessionKey, epoch: int) -> str | dict[str, Any]:
        if refusal := self.fenced(epoch):
            return refusal
        if key in self.sessions:
            self.remove(key)
            return {"existed": True, "gseq": self.gseq}
        return {"existed": False, "gseq": self.gseq}

    def expire(self, epoch: int, before: int) -> str | set[SessionKey]:
        if refusal := self.fenced(epoch):
            return refusal
        old = {key for key, session in self.sessions.items() if session.updated < before}
        for key in old:
            self.remove(key)
        return old

    def remove(self, key: SessionKey) -> None:
        session = self.sessions.pop(key)
        self.gone[key] = (session.version, session.seq)
        self.gseq += 1

    def scopes(self, key: SessionKey) -> dict[str, dict[str, Any]]:
        own = self.sessions[key].state if key in self.sessions else {}
        return {
            "app": self.app.setdefault(key.app, {}),
            "user": self.user.setdefault((key.app, key.user), {}),
            "session": own,
        }

    def alone(self, state: dict[str, Any]) -> bool:
        """Whether the change fits into an empty store: else it is refused before the store is asked."""
        sizes = dict.fromkeys(("app", "user", "session", "temp"), 0)
        for name, value in state.items():
            sizes[self.scope(name)] += len(name) + len(str(value))
        return max(sizes["app"], sizes["user"], sizes["session"]) <= LIMITS.state_bytes

    def fits(self, key: SessionKey, state: dict[str, Any]) -> bool:
        for scope, now in self.scopes(key).items():
            changed = {name: value for name, value in state.items() if self.scope(name) == scope}
            after = {**now, **changed}
            if changed and sum(len(name) + len(str(value)) for name, value in after.items()) > LIMITS.state_bytes:
                return False
        return True

    def merge(self, key: SessionKey, state: dict[str, Any]) -> None:
        scopes = self.scopes(key)
        for name, value in state.items():
            if self.scope(name) != "temp":
                scopes[self.scope(name)][name] = value

    @staticmethod
    def scope(name: str) -> str:
        prefix = name.split(":")[0] if ":" in name else ""
        return prefix if prefix in {"app", "user", "temp"} else "session"


keys = st.sampled_from(KEYS)
ids = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=3, unique=True).map(tuple)
states = st.dictionaries(
    st.sampled_from(["app:a", "user:u", "temp:t", "own", "odd:x"]), st.sampled_from([1, 22, 10**9, 10**20]), max_size=3
)
drifts = st.sampled_from([0, 0, 0, 0, 0, 1, -1])


def machine(backend: str, server: RedisServer | None) -> type[RuleBasedStateMachine]:
    """The machine for one backend."""
    shards = iter(range(1_000_000))

    class Machine(RuleBasedStateMachine):
        @initialize()
        def begin(self) -> None:
            self.runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
            self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
            self.model = Model()
            self.lab: Lab = self.run(self.open())
            fence = self.run(self.lab.store.fence())
            self.start = fence.now_ms - self.model.now
            self.grant(1, 1000)

        async def open(self) -> Lab:
            if server is None:
                return await SqliteLab.open(Path(self.folder.name), LIMITS)
            return await RedisLab.open(server, f"{backend}-{next(shards)}", LIMITS, functions=backend == "redis")

        def run(self, work: Awaitable[T]) -> T:
            async def awaiting() -> T:
                return await work

            return self.runner.run(awaiting())

        def ask(self, work: Awaitable[Any]) -> Any:
            try:
                return self.run(work)
            except Refused as refused:
                return refused.code

        def same(self, answer: Any, expected: str | dict[str, Any]) -> None:
            if isinstance(expected, dict) and not isinstance(answer, str):
                found = {name: getattr(answer, name) for name in expected}
                assert {
                    name: value if isinstance(value, int) else str(value) for name, value in found.items()
                } == expected
                assert answer.remaining_ms == self.model.deadline - self.model.now
            else:
                assert answer == expected

        def grant(self, epoch: int, lease: int) -> None:
            fence = self.run(self.lab.store.fence())
            answer = self.ask(self.lab.store.grant(epoch, fence.identity, fence.now_ms + lease))
            expected = self.model.grant(epoch, lease)
            if expected is None:
                assert answer.deadline_ms - self.start == self.model.deadline
            else:
                assert answer == expected

        @rule(key=keys, drift=drifts, write_id=st.sampled_from(["w", "w", "v"]), state=states)
        def create(self, key: SessionKey, drift: int, write_id: str, state: dict[str, Any]) -> None:
            epoch = max(self.model.epoch + drift, 0)
            answer = self.ask(self.lab.store.create(key, epoch=epoch, write_id=write_id, state=state))
            self.same(answer, self.model.create(key, epoch, write_id, state))

        @rule(key=keys, drift=drifts, ids=ids, behind=st.sampled_from([0, 0, 0, 1, None]), state=states)
        def append(
            self, key: SessionKey, drift: int, ids: tuple[str, ...], behind: int | None, state: dict[str, Any]
        ) -> None:
            epoch = max(self.model.epoch + drift, 0)
            session = self.model.sessions.get(key)
            expected = None if behind is None else (session.version if session else 0) + behind
            work = self.lab.store.append(key, events(*ids), epoch=epoch, expected_version=expected, state=state)
            self.same(self.ask(work), self.model.append(key, epoch, ids, expected, state))

        @precondition(lambda self: any(session.appends for session in self.model.sessions.values()))
        @rule(data=st.data(), drift=drifts)
        def repeat(self, data: st.DataObject, drift: int) -> None:
            pairs = [(key, done) for key, session in self.model.sessions.items() for done, _ in session.appends]
            key, done = data.draw(st.sampled_from(pairs))
            epoch = self.model.epoch + drift
            work = self.lab.store.append(key, events(*done), epoch=epoch, expected_version=0)
            self.same(self.ask(work), self.model.append(key, epoch, done, 0, {}))

        @rule(key=keys, drift=drifts)
        def delete(self, key: SessionKey, drift: int) -> None:
            epoch = self.model.epoch + drift
            self.same(self.ask(self.lab.store.delete(key, epoch=epoch)), self.model.delete(key, epoch))

        @rule(drift=drifts, idle=st.sampled_from([0, 100, 500]))
        def expire(self, drift: int, idle: int) -> None:
            epoch, before = self.model.epoch + drift, self.model.now - idle
            answer = self.ask(self.lab.store.expire(epoch=epoch, idle_before_ms=self.start + before))
            expected = self.model.expire(epoch, before)
            assert (answer if isinstance(answer, str) else set(answer)) == expected

        @rule(up=st.sampled_from([0, 0, 1, 2, -1]), lease=st.sampled_from([100, 1000, 1000, 1001]))
        def renew(self, up: int, lease: int) -> None:
            self.grant(max(self.model.epoch + up, 0), lease)

        @rule(up=st.sampled_from([0, 1, -1]))
        def revoke(self, up: int) -> None:
            epoch = max(self.model.epoch + up, 0)
            answer = self.ask(self.lab.store.revoke(epoch))
            assert answer == (self.model.revoke(epoch) or self.model.gseq)
            self.grant(self.model.epoch + 1, 1000)  # else most of what follows would be refused

        @rule(ms=st.sampled_from([1, 60, 400, 400, 1100, -30, -30, -60, -300]))
        def clock(self, ms: int) -> None:
            self.run(self.lab.move(ms))
            self.model.now += ms

        @rule()
        def another_identity(self) -> None:
            self.run(self.lab.new_identity())
            self.model.identity += 1

        @precondition(
            lambda self: self.model.granted_to != self.model.identity or self.model.now >= self.model.deadline
        )
        @rule()
        def promote(self) -> None:
            self.grant(self.model.epoch + 1, 1000)

        @invariant()
        def the_fence_is_the_models(self) -> None:
            if not hasattr(self, "lab"):
                return
            fence = self.run(self.lab.store.fence())
            model = self.model
            assert (fence.epoch, fence.gseq, fence.revoked) == (model.epoch, model.gseq, model.revoked)
            assert fence.deadline_ms == (model.deadline + self.start if model.deadline else 0)
            assert fence.high_water_ms == self.start + model.high

        @invariant()
        def the_sessions_are_the_models(self) -> None:
            if not hasattr(self, "lab"):
                return
            for key, session in self.model.sessions.items():
                page = self.run(self.lab.store.read(key))
                assert [stored.event.event_id for stored in page.events] == session.ids()
                assert page.info.version == session.version
                positions = [str(stored.position) for stored in page.events]
                assert [positions[-1:]] == [[answer["last"] for _, answer in session.appends][-1:]]
                state = self.run(self.lab.store.state(key))
                assert {"app": state.app, "user": state.user, "session": state.session} == self.model.scopes(key)
            listed = self.run(self.lab.store.list_sessions("shop")).sessions
            assert {info.key for info in listed} == set(self.model.sessions)

        def teardown(self) -> None:
            if hasattr(self, "lab"):
                self.run(self.lab.close())
                self.runner.close()
                self.folder.cleanup()

    return Machine


@pytest.mark.timeout(60 + 4 * EXAMPLES)
def test_a_store_answers_as_its_model_does(backend: str, request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue("redis_server") if backend != "sqlite" else None
    run_state_machine_as_test(
        machine(backend, server),
        settings=settings(
            max_examples=EXAMPLES, stateful_step_count=STEPS, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
