"""Errors of this package.

    AvailabilityError
    ├── FigureOutOfRange    a number that lies outside its range, or is none
    ├── ChainInvalid        a chain that contradicts itself
    ├── PartUnknown         a name that is not there
    └── CountsInvalid       counts that cannot all be true

None of them is raised for a bad day: no data, a spent budget or a broken source are answers, not errors.
"""

from __future__ import annotations

from collections.abc import Iterable


class AvailabilityError(Exception):
    """Base of everything that this package raises on purpose."""


class FigureOutOfRange(AvailabilityError, ValueError):
    """`what` is the figure's name, `value` what was given, `wanted` the range that it has to lie in."""

    def __init__(self, what: str, value: object, wanted: str) -> None:
        self.what = what
        self.value = value
        super().__init__(f"{what} is {value}: give {wanted}")


class ChainInvalid(AvailabilityError, ValueError):
    """`part` is the name of the part that is at fault; `remedy` tells what to write instead."""

    def __init__(self, part: str, problem: str, remedy: str) -> None:
        self.part = part
        super().__init__(f"part {part!r} {problem}: {remedy}")


class PartUnknown(AvailabilityError, LookupError):
    """`known` lists the names that are there."""

    def __init__(self, part: str, known: Iterable[str]) -> None:
        self.part = part
        super().__init__(f"there is no part {part!r}: name one of {', '.join(sorted(known))}")


class CountsInvalid(AvailabilityError, ValueError):
    """Counts contradict each other; `remedy` tells where to look."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}: {remedy}")
