"""The chain that a turn depends on, as a tree of named parts, and its availability.

A part is up or down for a turn. Parts fail independently of each other, except where the chain says otherwise: a part
that stands in several branches is one part, and `AnyOf` knows rescues that fail and causes that both share. Formulas:
Barlow and Proschan, Statistical Theory of Reliability and Life Testing (1975), chapters 1 and 2, unless noted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

from availability.errors import ChainInvalid, FigureOutOfRange, PartUnknown
from availability.figures import MINUTES_PER_30_DAYS, minutes_per_30d, not_negative, share
from availability.redundancy import failover, k_of_n

MOST_SHARED = 16
"""Parts that one node may share between its branches. Each doubles the work, so this is 65 536 sums."""


@dataclass(frozen=True)
class Node:
    """What all parts of a chain have.

    `name`: unique, unless it is the very same part again. `calls`: how often a turn calls it, 1 if not said; below 1
    it is the share of turns that use it (0.4), 2.4 is two calls and a third on 40 % of turns. `accepted`: the share of
    its failures that still give an acceptable, degraded answer, 0 to 1.
    """

    name: str
    calls: float = field(default=1.0, kw_only=True)
    accepted: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        if not self.name:
            raise ChainInvalid(self.name, "has an empty name", "name every part")
        not_negative(f"calls per turn of {self.name!r}", self.calls)
        share(f"the accepted share of {self.name!r}", self.accepted)

    @property
    def children(self) -> tuple[Node, ...]:
        """The parts right below."""
        return ()

    @cached_property
    def leaves(self) -> frozenset[str]:
        """Names of all `Part`s below, itself included."""
        return frozenset().union(*(child.leaves for child in self.children))

    @cached_property
    def shared(self) -> tuple[str, ...]:
        """Names of the `Part`s that stand below more than one child."""
        branches = Counter(name for child in self.children for name in sorted(child.leaves))
        return tuple(name for name, number in branches.items() if number > 1)

    def combine(self, availabilities: Sequence[float]) -> float:
        """Availability of one call from those of the children, which fail independently here."""
        raise NotImplementedError

    def per_turn(self, availability: float) -> float:
        """Availability for a whole turn from that of one call.

        A degraded answer makes each call fail with (1 − g)q only, a turn needs all of its calls, and the last one is
        made on a share f of turns: (1 − (1−g)q)ⁿ · (1 − f(1−g)q).
        """
        failure = (1.0 - self.accepted) * (1.0 - availability)
        whole = math.floor(self.calls)
        return float((1.0 - failure) ** whole * (1.0 - (self.calls - whole) * failure))


@dataclass(frozen=True)
class Part(Node):
    """A part without parts of its own. `availability`: of one call, 0 to 1. `planned_min`: planned maintenance, in
    minutes per 30 days, at times that have nothing to do with its failures: a(1 − m/43 200)."""

    availability: float
    planned_min: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        share(f"the availability of {self.name!r}", self.availability)
        if not 0.0 <= self.planned_min <= MINUTES_PER_30_DAYS:
            raise FigureOutOfRange(
                f"planned maintenance of {self.name!r}", self.planned_min, "minutes per 30 days, 0 to 43 200"
            )

    @cached_property
    def leaves(self) -> frozenset[str]:
        return frozenset((self.name,))

    def for_a_turn(self, availability: float) -> float:
        """Availability for a turn at this availability of one call without maintenance."""
        return self.per_turn(availability * (1.0 - self.planned_min / MINUTES_PER_30_DAYS))


@dataclass(frozen=True)
class _Group(Node):
    parts: tuple[Node, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.parts:
            raise ChainInvalid(self.name, "has no parts", "list one or more")

    @property
    def children(self) -> tuple[Node, ...]:
        return self.parts


@dataclass(frozen=True)
class Series(_Group):
    """All `parts` are needed: ∏ aᵢ."""

    def combine(self, availabilities: Sequence[float]) -> float:
        return math.prod(availabilities)


@dataclass(frozen=True)
class AnyOf(_Group):
    """One of `parts` is enough; they are tried in order. As it stands: 1 − ∏(1 − aᵢ).

    `coverage`: the share of failures that the next part gets to rescue. `beta`: the share of failures that take the next
    part along. `switch_share`: the share of a rescued failure's time that passes before the switch (switching time over
    mean time to repair). See `redundancy.failover`.
    """

    coverage: float = field(default=1.0, kw_only=True)
    beta: float = field(default=0.0, kw_only=True)
    switch_share: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        share(f"the coverage of {self.name!r}", self.coverage)
        share(f"beta of {self.name!r}", self.beta)
        share(f"the switch share of {self.name!r}", self.switch_share)

    def combine(self, availabilities: Sequence[float]) -> float:
        return failover(availabilities, coverage=self.coverage, beta=self.beta, switch_share=self.switch_share)


@dataclass(frozen=True)
class KOf(_Group):
    """At least `k` of `parts` are needed, 1 to their number."""

    k: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.k <= len(self.parts):
            raise ChainInvalid(
                self.name, f"needs {self.k} of {len(self.parts)}", f"set k between 1 and {len(self.parts)}"
            )

    def combine(self, availabilities: Sequence[float]) -> float:
        return k_of_n(self.k, availabilities)


@dataclass(frozen=True)
class Component:
    """One line of a chain's sum. `minutes_per_30d`: what it would cost if all else were up."""

    name: str
    availability: float
    minutes_per_30d: float


@dataclass(frozen=True)
class Chain:
    """A checked tree. Raises ChainInvalid when made: one name for two different parts, or a part that stands both under
    several calls per turn and elsewhere, so that nobody could say whether it fails once per call or once per turn."""

    root: Node

    def __post_init__(self) -> None:
        for node in walk(self.root):
            if self._named.setdefault(node.name, node) != node:
                raise ChainInvalid(node.name, "stands for two different parts", "rename one of them")
        everywhere = _leaf_uses(self.root)
        for node in self._named.values():
            if node.children and node.calls > 1.0:
                for name, uses in _leaf_uses(node).items():
                    if uses != everywhere[name]:
                        remedy = f"set the calls on the parts of {node.name!r} instead of on the whole"
                        raise ChainInvalid(
                            name, f"stands in {node.name!r}, called {node.calls:g} times, and elsewhere", remedy
                        )

    @cached_property
    def _named(self) -> dict[str, Node]:
        return {}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all nodes, from the root down, each once."""
        return tuple(self._named)

    def node(self, name: str) -> Node:
        """Raises PartUnknown."""
        try:
            return self._named[name]
        except KeyError:
            raise PartUnknown(name, self._named) from None

    def availability(self, fixed: Mapping[str, bool] | None = None, values: Mapping[str, float] | None = None) -> float:
        """Share of turns that succeed, 0 to 1.

        `fixed`: nodes that are taken as up (True) or down (False). `values`: other availabilities of `Part`s.
        A part below several branches is conditioned on: A = p·A(up) + (1−p)·A(down). Raises PartUnknown,
        FigureOutOfRange, and ChainInvalid for a value that is given to a group or when more than `MOST_SHARED` parts
        are shared at one node.
        """
        for name in fixed or ():
            self.node(name)
        for name, value in (values or {}).items():
            share(f"the availability of {name!r}", value)
            if not isinstance(self.node(name), Part):
                raise ChainInvalid(name, "is a group and has no availability of its own", "change its parts")
        return min(max(self._of(self.root, _State(fixed or {}, values or {}), {}), 0.0), 1.0)

    @property
    def minutes_per_30d(self) -> float:
        """Minutes of failed turns in 30 days."""
        return minutes_per_30d(self.availability())

    def components(self) -> tuple[Component, ...]:
        """The parts that the root is made of, in order, each with its availability for a turn."""
        return tuple(
            Component(node.name, value, minutes_per_30d(value))
            for node in self.root.children or (self.root,)
            for value in (Chain(node).availability(),)
        )

    def replaced(self, changes: Mapping[str, Node]) -> Chain:
        """The chain with other parts in place of those named. Raises PartUnknown, and ChainInvalid as making one does."""
        for name in changes:
            self.node(name)
        return Chain(mapped(self.root, lambda node: changes.get(node.name, node)))

    def _of(self, node: Node, state: _State, given: Mapping[str, float]) -> float:
        if node.name in given:
            return given[node.name]
        if node.name in state.fixed:
            return node.per_turn(float(state.fixed[node.name]))
        if isinstance(node, Part):
            return node.for_a_turn(state.values.get(node.name, node.availability))
        return node.per_turn(self._one_call(node, state, given))

    def _one_call(self, node: Node, state: _State, given: Mapping[str, float]) -> float:
        shared = [name for name in node.shared if name not in given]
        if len(shared) > MOST_SHARED:
            remedy = f"group parts that always stand together, so that at most {MOST_SHARED} are shared"
            raise ChainInvalid(node.name, f"shares {len(shared)} parts between its branches", remedy)
        if not shared:
            return node.combine([self._of(child, state, given) for child in node.children])
        up = self._of(self._named[shared[0]], state, {})
        total = 0.0
        for weight, value in ((up, 1.0), (1.0 - up, 0.0)):
            if weight > 0.0:
                total += weight * self._one_call(node, state, {**given, shared[0]: value})
        return total


class _State(NamedTuple):
    fixed: Mapping[str, bool]
    values: Mapping[str, float]


def walk(node: Node) -> Iterator[Node]:
    """The node and all below, from the top down. A part that stands in several places comes as often."""
    yield node
    for child in node.children:
        yield from walk(child)


def mapped(node: Node, change: Callable[[Node], Node]) -> Node:
    """The tree with `change` applied to each node, parts first. Raises what making the changed nodes raises."""
    if isinstance(node, _Group):
        node = replace(node, parts=tuple(mapped(child, change) for child in node.parts))
    return change(node)


def _leaf_uses(node: Node) -> Counter[str]:
    return Counter(one.name for one in walk(node) if isinstance(one, Part))
