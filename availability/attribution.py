"""What spent the budget: every failed turn charged to one component, so that the parts multiply to the whole exactly."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from availability.errors import CountsInvalid, PartUnknown

UNATTRIBUTED = "unattributed"
"""Where turns are charged that failed without a known cause. It stands behind all components."""


@dataclass(frozen=True)
class Turn:
    """One turn that counts. `reached`: components that it used, in any order. `faults`: components that failed it, the
    first one first; what was rescued is no fault, and those of a turn that is `ok` are not looked at."""

    reached: frozenset[str]
    ok: bool
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class Step:
    """One component's share. `at_risk`: turns that were not charged to a component before it. `reached`: turns that used
    it. `failed`: turns that are charged to it."""

    name: str
    at_risk: int
    reached: int
    failed: int

    @property
    def conditional(self) -> Fraction | None:
        """âᵢ = (nᵢ − fᵢ)/nᵢ with nᵢ = turns that reached it; None when none did."""
        return Fraction(self.reached - self.failed, self.reached) if self.reached else None

    @property
    def factor(self) -> Fraction:
        """What it multiplies the turn success with: 1 − u(1 − âᵢ), where u is the share of turns at risk that used it.

        It is `conditional` where every turn that came so far used it, and 1 where no turn came so far.
        """
        return Fraction(self.at_risk - self.failed, self.at_risk) if self.at_risk else Fraction(1)


@dataclass(frozen=True)
class Attribution:
    """`steps` in the order of the chain, `UNATTRIBUTED` last. `turns`: all that count."""

    turns: int
    steps: tuple[Step, ...]

    @property
    def success(self) -> Fraction | None:
        """Measured share of turns that succeeded; None without a turn. Equal to the product of all factors."""
        failed = sum(step.failed for step in self.steps)
        return Fraction(self.turns - failed, self.turns) if self.turns else None

    @property
    def product(self) -> Fraction | None:
        """∏ of the factors; None without a turn. It telescopes: the turns at risk at a step are those at risk at the
        step before it less those charged there. So it equals `success` whatever is correlated."""
        return math.prod((step.factor for step in self.steps), start=Fraction(1)) if self.turns else None


def attribute(order: Sequence[str], turns: Iterable[Turn]) -> Attribution:
    """Charge each failed turn to its first fault. `order`: the components as the chain has them.

    Raises PartUnknown for a fault of a component that is not in `order`, CountsInvalid for a fault of one that the turn
    did not reach.
    """
    number = failures = 0
    reached: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for turn in turns:
        number += 1
        reached.update(turn.reached)
        if turn.ok:
            continue
        failures += 1
        if turn.faults:
            first = turn.faults[0]
            if first not in turn.reached:
                raise CountsInvalid(
                    f"a turn failed at {first!r} without reaching it", "record a part when it is called"
                )
            failed[first] += 1
    return attribute_counts(order, turns=number, failures=failures, reached=reached, failed=failed)


def attribute_counts(
    order: Sequence[str], *, turns: int, failures: int, reached: Mapping[str, int], failed: Mapping[str, int]
) -> Attribution:
    """The same from sums: all turns, failed turns, and of each component how many turns reached it and how many are
    charged to it. A component that is not mentioned was reached by no turn.

    Raises PartUnknown for a charge to a component that is not in `order`, CountsInvalid for sums that cannot be.
    """
    for name in failed:
        if name not in order:
            raise PartUnknown(name, order)
    charged = sum(failed.values())
    if not 0 <= charged <= failures <= turns:
        problem = f"{charged} failures are charged, of {failures} failed turns of {turns}"
        raise CountsInvalid(problem, "count a turn once, and charge it to its first fault only")
    steps, at_risk = [], turns
    for name in order:
        here = Step(name, at_risk, reached.get(name, 0), failed.get(name, 0))
        if not 0 <= here.failed <= here.reached <= turns:
            problem = f"{here.failed} turns failed at {name!r}, {here.reached} of {turns} reached it"
            raise CountsInvalid(problem, "record a part once per turn, when it is first called")
        steps.append(here)
        at_risk -= here.failed
    steps.append(Step(UNATTRIBUTED, at_risk, at_risk, failures - charged))
    return Attribution(turns, tuple(steps))
