"""Where redundancy pays: importance of parts, what-if, and which part to double next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from availability.chain import AnyOf, Chain, Node, mapped
from availability.figures import MINUTES_PER_30_DAYS, minutes_per_30d, share

_TIE = 1e-9


@dataclass(frozen=True)
class Importance:
    """`birnbaum`: A(part up) − A(part down), 0 to 1. `minutes_bought`: minutes per 30 days that a perfect part would save."""

    name: str
    birnbaum: float
    minutes_bought: float


def importance(chain: Chain, name: str) -> Importance:
    """Of one part or group (Birnbaum, 1969). Raises PartUnknown.

    `minutes_bought` is (A(up) − A)·M, which is I·Δa·M with Δa = 1 − a for a part that a turn calls once at most.
    """
    up, down = chain.availability({name: True}), chain.availability({name: False})
    return Importance(name, up - down, (up - chain.availability()) * MINUTES_PER_30_DAYS)


def importances(chain: Chain, names: Iterable[str] | None = None) -> tuple[Importance, ...]:
    """Of the named parts, or of those that the root is made of; what buys most comes first. Raises PartUnknown."""
    found = [importance(chain, name) for name in (names if names is not None else _components(chain))]
    return tuple(sorted(found, key=lambda one: -one.minutes_bought))


@dataclass(frozen=True)
class WhatIf:
    """A chain before and after a change. `minutes_saved` per 30 days; negative when the change costs."""

    before: float
    after: float
    minutes_per_30d: float
    minutes_saved: float


def what_if(
    chain: Chain, *, values: Mapping[str, float] | None = None, parts: Mapping[str, Node] | None = None
) -> WhatIf:
    """The sum with other availabilities of `Part`s, or with other parts in their place.

    Raises PartUnknown, FigureOutOfRange and ChainInvalid, and the chain stays what it was.
    """
    before, after = chain.availability(), chain.replaced(parts or {}).availability(values=values)
    return WhatIf(before, after, minutes_per_30d(after), (after - before) * MINUTES_PER_30_DAYS)


def duplicated(
    chain: Chain, name: str, *, coverage: float = 1.0, beta: float = 0.0, switch_share: float = 0.0
) -> Chain:
    """The chain with a second copy of a part or group behind it. The pair keeps the name, the calls and the accepted share;
    the copies are `NAME (first)` and `NAME (second)`. Raises PartUnknown, FigureOutOfRange, ChainInvalid."""
    part = chain.node(name)
    first = replace(part, name=f"{name} (first)", calls=1.0, accepted=0.0)
    second = mapped(part, lambda node: replace(node, name=f"{node.name} (second)"))
    pair = AnyOf(
        name,
        (first, replace(second, calls=1.0, accepted=0.0)),
        calls=part.calls,
        accepted=part.accepted,
        coverage=coverage,
        beta=beta,
        switch_share=switch_share,
    )
    return chain.replaced({name: pair})


@dataclass(frozen=True)
class Duplication:
    """One step: `name` was doubled, which left `minutes_per_30d` and saved `minutes_saved`. `meets`: the target is met."""

    name: str
    minutes_per_30d: float
    minutes_saved: float
    meets: bool
    chain: Chain


def greedy_duplication(
    chain: Chain,
    target: float,
    *,
    candidates: Sequence[str] | None = None,
    coverage: float = 1.0,
    beta: float = 0.0,
    switch_share: float = 0.0,
) -> tuple[Duplication, ...]:
    """Double the part that saves most, then the next, each candidate once, until none saves anything.

    `candidates`: parts that can be doubled, the preferred first: of two that save the same the earlier one is taken. Not
    given: all that the root is made of. The steps go on behind the first that meets `target` (a share, such as 0.999).
    Raises PartUnknown, FigureOutOfRange, ChainInvalid.
    """
    share("the target", target)
    left = list(candidates if candidates is not None else _components(chain))
    steps: list[Duplication] = []
    while left:
        now = chain.availability()
        options = [
            (name, duplicated(chain, name, coverage=coverage, beta=beta, switch_share=switch_share)) for name in left
        ]
        gains = [option.availability() - now for _, option in options]
        best = next(i for i, gain in enumerate(gains) if gain >= max(gains) - _TIE)
        if gains[best] <= 0.0:
            break
        name, chain = options[best]
        after = now + gains[best]
        steps.append(
            Duplication(
                name, minutes_per_30d(min(after, 1.0)), gains[best] * MINUTES_PER_30_DAYS, after >= target, chain
            )
        )
        left.remove(name)
    return tuple(steps)


def _components(chain: Chain) -> list[str]:
    return list(dict.fromkeys(node.name for node in chain.root.children or (chain.root,)))
