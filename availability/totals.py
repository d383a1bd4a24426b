"""Three totals of one chain side by side, and the names of the gaps between them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from availability.chain import AnyOf, Chain, Node, mapped
from availability.figures import MINUTES_PER_30_DAYS, share

GapName = Literal["imperfect_redundancy", "unexplained_failures", "coinciding_failures"]

_MEANINGS: dict[GapName, str] = {
    "imperfect_redundancy": "what independence promises and failed rescues, shared causes and switching take away",
    "unexplained_failures": "turns that fail for a cause that the chain does not have: look at the unattributed ones",
    "coinciding_failures": "parts fail in the same turns, which costs less than the product of their shares says",
}


@dataclass(frozen=True)
class Gap:
    """`minutes_per_30d`: equivalent minutes of full outage, 0 or more; which way it goes is in the name."""

    name: GapName
    minutes_per_30d: float

    @property
    def meaning(self) -> str:
        return _MEANINGS[self.name]


@dataclass(frozen=True)
class Totals:
    """Availabilities, 0 to 1. `measured`: turns that succeeded, None without data. `independent`: the chain if all rescues
    worked and all failures were independent. `corrected`: with coverage, shared causes and switching as they are."""

    measured: float | None
    independent: float
    corrected: float
    gaps: tuple[Gap, ...]


def totals(chain: Chain, measured: Fraction | float | None) -> Totals:
    """Compare a chain with what was measured. Raises FigureOutOfRange for a `measured` outside 0 to 1."""
    independent, corrected = idealised(chain).availability(), chain.availability()
    gaps = [Gap("imperfect_redundancy", (independent - corrected) * MINUTES_PER_30_DAYS)]
    found = None if measured is None else share("the measured availability", float(measured))
    if found is not None:
        rest = (corrected - found) * MINUTES_PER_30_DAYS
        gaps.append(Gap("unexplained_failures" if rest >= 0.0 else "coinciding_failures", abs(rest)))
    return Totals(found, independent, corrected, tuple(gaps))


def idealised(chain: Chain) -> Chain:
    """The chain as the independent formula has it: every rescue works, at once, and nothing is taken along."""

    def ideal(node: Node) -> Node:
        return replace(node, coverage=1.0, beta=0.0, switch_share=0.0) if isinstance(node, AnyOf) else node

    return Chain(mapped(chain.root, ideal))
