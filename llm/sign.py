"""What a sign of a provider's error is; the signs themselves are in `llm/signs.py`."""

from __future__ import annotations

from dataclasses import dataclass, field

from llm.classes import ErrorClass as C

ANY: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Sign:
    """`codes` are compared with the names an error gives itself (code, type, status, reasons), `words` looked for in its
    messages, `begins` is what a message begins with. All are lower case.

    Words count only in an error whose names tell nothing, and outside of what its message quotes; a beginning is the
    provider's own and counts beside a telling name. With `both` a code must be there and one of the words or beginnings,
    and then words count whatever else the names tell. `relayed`: only for an error that an aggregator hands on from the
    provider behind it. `page`: only for a page of markup.
    """

    error_class: C
    source: str
    statuses: frozenset[int] = frozenset()
    codes: frozenset[str] = field(default=frozenset())
    words: tuple[str, ...] = ()
    begins: tuple[str, ...] = ()
    both: bool = False
    relayed: bool = False
    page: bool = False

    @property
    def special(self) -> bool:
        """Whether it asks for more than a status."""
        return bool(self.codes or self.words or self.begins)


def sign(
    error_class: C,
    source: str,
    statuses: tuple[int, ...],
    codes: str = "",
    words: tuple[str, ...] = (),
    begins: tuple[str, ...] = (),
    *,
    both: bool = False,
    relayed: bool = False,
    page: bool = False,
) -> Sign:
    """One line of the table; `codes` with blanks between."""
    return Sign(error_class, source, frozenset(statuses), frozenset(codes.split()), words, begins, both, relayed, page)
