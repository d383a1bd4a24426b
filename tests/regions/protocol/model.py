"""A model of the protocol: two stores, a register, two gateways that write, one clock for each machine.

Time is real seconds; each machine's clock runs at a rate of its own, and a store's may be set. Every message can be delayed for
ever, since each of its halves is a step of its own. The writer's lease and the wait are those of `regions.lease`.

`Faults` takes a rule away. What must never be is raised as Broken by the step that makes it so.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from regions.lease import LeaseView, fence_wait_s

LEASE_S = 6.0
BACK_MS = 0.05
"""By so many seconds a store's clock may be behind its mark."""


class Broken(Exception):
    """A promise does not hold."""


@dataclass(frozen=True, slots=True)
class Faults:
    """Each is a rule that is not kept. `sync`: no fault, the shard's mode."""

    sync: bool = False
    relative_ttl: bool = False  # a grant lasts from when it arrives
    no_wait: bool = False  # the new store opens as soon as the epoch is recorded
    no_register: bool = False  # a grant is sent without writing the register first
    own_epochs: bool = False  # a store that is promoted counts its own epoch up
    no_identity: bool = False  # a restarted store goes on under its old grant
    no_mark: bool = False  # a store's clock may be set back without its noticing
    no_writer_lease: bool = False  # a writer passes on whatever a store acknowledges
    no_event_ids: bool = False  # a store takes the same event twice
    no_confirmation: bool = False  # a sync writer does not wait for the peer
    clock_rate: float = 1.0  # of the first region's machine


@dataclass(slots=True)
class Store:
    """`events`: epoch, number and id. `granted`: identity, epoch and deadline by its own clock."""

    name: str
    rate: float = 1.0
    offset: float = 0.0
    starts: int = 0
    events: list[tuple[int, int, str]] = field(default_factory=list)
    granted: tuple[str, int, float] | None = None
    revoked: bool = False
    mark: float = float("-inf")

    @property
    def identity(self) -> str:
        return f"{self.name}{self.starts}"


@dataclass(frozen=True, slots=True)
class Register:
    epoch: int = 1
    holder: int = 0
    identity: str = "a0"
    renew_n: int = 0
    opening: bool = False
    revision: int = 0


@dataclass(slots=True)
class Reply:
    epoch: int
    number: int
    event: str
    sent: float


@dataclass(slots=True)
class Gateway:
    """`seen`: the register as it read it last. `reading`: when a reading that is under way began."""

    rate: float = 1.0
    seen: Register = field(default_factory=Register)
    lease: LeaseView = field(default_factory=LeaseView)
    reading: float | None = None
    replies: list[Reply] = field(default_factory=list)
    doubt: str | None = None


class World:
    """Steps return quietly where they are not possible now."""

    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.t = 0.0
        self.register = Register()
        self.stores = (Store("a", rate=faults.clock_rate), Store("b"))
        self.gateways = (Gateway(rate=faults.clock_rate), Gateway())
        self.stores[0].granted = ("a0", 1, LEASE_S)
        self._renewal: tuple[float, Register, bool] | None = None  # store's time, register read, written
        self._promotion: tuple[int, int, float] | None = None  # epoch, store, when it was recorded
        self._owner = {1: "a0"}
        self._acknowledged: list[tuple[float, int, str]] = []
        self._at: dict[tuple[int, int], str] = {}
        self._count = 0
        self._written_at = 0.0

    def tick(self, seconds: float) -> None:
        self.t += seconds

    def store_time(self, store: int) -> float:
        one = self.stores[store]
        return one.offset + one.rate * self.t

    def set_clock(self, store: int, by: float) -> None:
        self.stores[store].offset += by

    def restart(self, store: int, kept: int) -> None:
        """It comes back with the first `kept` of its events, and with the grant that stood in its file."""
        one = self.stores[store]
        one.starts += 1
        del one.events[kept:]

    def replicate(self) -> None:
        """The other store gets all that the holder's has, while it follows it."""
        holder = self.register.holder
        source, target = self.stores[holder], self.stores[1 - holder]
        if not self.register.opening and len(source.events) >= len(target.events):
            target.events = list(source.events)

    def renew_read(self) -> None:
        if not self.register.opening:
            self._renewal = (self.store_time(self.register.holder), self.register, False)

    def renew_write(self) -> None:
        if self._renewal is None or self._renewal[2]:
            return
        at, read, _ = self._renewal
        if self.faults.no_register:
            self._renewal = (at, read, True)
        elif read.revision == self.register.revision:
            self._write(replace(self.register, renew_n=read.renew_n + 1))
            self._renewal = (at, read, True)
        else:
            self._renewal = None

    def renew_grant(self) -> None:
        if self._renewal is None or not self._renewal[2]:
            return
        at, read, _ = self._renewal
        self._renewal = None
        self._grant(read.holder, read.epoch, read.identity, at)

    def promote(self, store: int) -> None:
        """Record a new epoch. The lease is waited for from the last write of the register, which whoever promotes has seen."""
        before = self.register
        if self.faults.own_epochs:
            granted = self.stores[store].granted
            epoch = (granted[1] if granted else 0) + 1
        else:
            epoch = before.epoch + 1
        self._promotion = (epoch, store, self._written_at)
        self._write(Register(epoch, store, "", before.renew_n + 1, opening=True, revision=before.revision))

    def wait_left(self) -> float:
        """Seconds until the store may be opened."""
        return 0.0 if self._promotion is None else self._promotion[2] + fence_wait_s(LEASE_S) - self.t

    def open(self) -> None:
        if self._promotion is None:
            return
        epoch, store, _ = self._promotion
        if not self.faults.no_wait and self.wait_left() > 0:
            return
        self._promotion = None
        identity = self.stores[store].identity
        if self._owner.setdefault(epoch, identity) != identity:
            raise Broken(f"epoch {epoch} belongs to {self._owner[epoch]} and to {identity}")
        at = self.store_time(store)
        self._write(
            replace(self.register, identity=identity, renew_n=self.register.renew_n + 1, epoch=epoch, opening=False)
        )
        self.stores[store].granted, self.stores[store].revoked = None, False
        self._grant(store, epoch, identity, at)
        if self.faults.sync:
            there = {event for _, _, event in self.stores[store].events}
            for _, _, event in self._acknowledged:
                if event not in there:
                    raise Broken(f"{event} was acknowledged, and the store that was promoted has not got it")

    def read_begin(self, gateway: int) -> None:
        self.gateways[gateway].reading = self._clock(gateway)

    def read_end(self, gateway: int) -> None:
        one = self.gateways[gateway]
        if one.reading is None:
            return
        if not self.register.opening:
            one.seen = self.register
            one.lease = one.lease.seen(self.register.epoch, self.register.renew_n, one.reading, LEASE_S)
        one.reading = None

    def write(self, gateway: int, *, again: bool = False) -> None:
        """Send an append to the store that the gateway takes for the primary; its reply is on the way."""
        one = self.gateways[gateway]
        if again and one.doubt is None:
            return
        if again and one.doubt is not None:
            event = one.doubt
        else:
            self._count += 1
            event = f"e{self._count}"
        done = self._append(one.seen.holder, one.seen.epoch, event)
        if done is not None:
            one.replies.append(Reply(done[0], done[1], event, self.t))
            one.doubt = event

    def deliver(self, gateway: int) -> None:
        """The oldest reply arrives. It is passed on if the writer's own lease says that it may be."""
        one = self.gateways[gateway]
        if not one.replies:
            return
        reply = one.replies.pop(0)
        if not self.faults.no_writer_lease and not one.lease.holds(reply.epoch, self._clock(gateway)):
            return
        if self.faults.sync and not self.faults.no_confirmation:
            peer = self.stores[1 - one.seen.holder]
            if all(event != reply.event for _, _, event in peer.events):
                return
        if one.doubt == reply.event:
            one.doubt = None
        for at, epoch, event in self._acknowledged:
            if epoch > reply.epoch and at < reply.sent:
                raise Broken(f"{reply.event} of epoch {reply.epoch} after {event} of epoch {epoch}")
        if self._at.setdefault((reply.epoch, reply.number), reply.event) != reply.event:
            raise Broken(f"two events were told the position {reply.epoch}-{reply.number}")
        self._acknowledged.append((self.t, reply.epoch, reply.event))

    def check(self) -> None:
        for store in self.stores:
            events = [event for _, _, event in store.events]
            if len(events) != len(set(events)):
                raise Broken(f"the store {store.name} has an event twice")

    @property
    def acknowledged(self) -> int:
        return len(self._acknowledged)

    def _append(self, store: int, epoch: int, event: str) -> tuple[int, int] | None:
        """What the script does, in its order. None: refused."""
        one, now = self.stores[store], self.store_time(store)
        if one.granted is None or one.revoked:
            return None
        identity, granted, deadline = one.granted
        if identity != one.identity and not self.faults.no_identity:
            return None
        if now < one.mark - BACK_MS and not self.faults.no_mark:
            one.revoked = True
            return None
        if epoch != granted or now >= deadline:
            return None
        one.mark = max(one.mark, now)
        if not self.faults.no_event_ids:
            for had, number, known in one.events:
                if known == event:
                    return (had, number) if had == epoch else None
        number = len(one.events) + 1
        one.events.append((epoch, number, event))
        return epoch, number

    def _grant(self, store: int, epoch: int, identity: str, at: float) -> None:
        one, now = self.stores[store], self.store_time(store)
        if identity != one.identity and not self.faults.no_identity:
            return
        if one.granted is not None and (one.granted[1] > epoch or one.revoked):
            return
        if now < one.mark - BACK_MS and not self.faults.no_mark:
            one.revoked = True
            return
        deadline = (now if self.faults.relative_ttl else at) + LEASE_S
        before = one.granted[2] if one.granted is not None and one.granted[1] == epoch else deadline
        one.granted = (identity, epoch, max(deadline, before))
        one.mark = max(one.mark, now)

    def _write(self, register: Register) -> None:
        self.register = replace(register, revision=self.register.revision + 1)
        self._written_at = self.t

    def _clock(self, gateway: int) -> float:
        return self.gateways[gateway].rate * self.t
