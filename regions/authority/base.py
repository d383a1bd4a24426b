"""The contract of an authority. `sqlite`, `etcd` and `redis` keep it, and one suite of tests holds them to it.

An authority keeps registers: a name, a value of some bytes, and a revision that is another one after each write. The only
write is compare-and-set. It needs no clock, no lease and no notification: what a promotion needs of time it measures itself.

**Linearizable.** `read` returns what the last `swap` that was answered wrote, or a later one; `swap` succeeds at most once
for a revision. An authority that cannot say so for certain (a member without a majority, a file that was exchanged, a register
server that has lost its data or is a replica) raises instead.

**Errors.** `AuthorityUnavailable` where nothing was written, `SwapInDoubt` where a swap may have been, `AuthorityNonsense`
where the answer cannot be one of an authority. Nothing is repeated by itself, and every call comes to an end within the
time-out that the authority was made with.

**Cancellation.** A cancelled swap has happened or has not; reading tells.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from regions.errors import AuthorityUnavailable, SwapConflict, SwapInDoubt

NAME_BYTES, VALUE_BYTES = 200, 64 * 1024
"""The longest name and the largest value of a register."""


_NAME = re.compile(rf"[A-Za-z0-9._:/-]{{1,{NAME_BYTES}}}", re.ASCII)


def check_name(name: str) -> None:
    """Raises ValueError for what is no name of a register."""
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r:.80} is no register's name: it takes up to {NAME_BYTES} of A-Z a-z 0-9 . _ : / -")


def check_value(value: bytes) -> None:
    """Raises ValueError for a value that is too large."""
    if len(value) > VALUE_BYTES:
        raise ValueError(f"a register takes up to {VALUE_BYTES} bytes, not {len(value)}")


@dataclass(frozen=True, slots=True)
class Register:
    """What stands in a register. `revision` means something to its authority alone, and is only compared."""

    value: bytes
    revision: str


class Authority(Protocol):
    """Registers with compare-and-set. Names are made of letters, digits and `._:/-`; ValueError for others."""

    @property
    def where(self) -> str:
        """The authority in words for operators, without secrets: `etcd at http://127.0.0.1:2379`."""

    async def read(self, name: str) -> Register | None:
        """The register, None if it was never written."""

    async def swap(self, name: str, expected: str | None, value: bytes) -> str:
        """Write `value` if the revision is `expected`, None for a register that was never written; the new revision.

        Raises SwapConflict if it is another one."""

    async def read_all(self, prefix: str) -> Mapping[str, Register]:
        """All registers whose name begins with `prefix`, by name, in the order of names."""

    async def close(self) -> None:
        """Give back what is held. A second time does nothing."""


async def settled_swap(authority: Authority, name: str, expected: str | None, value: bytes) -> str:
    """`swap`, and where its answer was lost, what a read tells of it. For values that nobody else can have written.

    Raises what `swap` raises; SwapInDoubt only where the register cannot be read either.
    """
    try:
        return await authority.swap(name, expected, value)
    except SwapInDoubt as doubt:
        try:
            found = await authority.read(name)
        except AuthorityUnavailable:
            raise doubt from None
        if found is not None and found.value == value:
            return found.revision
        if (None if found is None else found.revision) == expected:
            raise  # it may still be on its way
        raise SwapConflict(name) from doubt
