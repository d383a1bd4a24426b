"""An authority in memory: every gateway of a test that is handed the same one sees the same registers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from regions.authority.base import Register
from regions.errors import AuthorityUnavailable, SwapConflict


class MemoryAuthority:
    """See `regions.authority.base.Authority`. `away`: nobody gets an answer."""

    def __init__(self) -> None:
        self.away = False
        self.registers: dict[str, Register] = {}
        self._count = 0

    @property
    def where(self) -> str:
        return "memory"

    async def read(self, name: str) -> Register | None:
        await self._reach()
        return self.registers.get(name)

    async def swap(self, name: str, expected: str | None, value: bytes) -> str:
        await self._reach()
        found = self.registers.get(name)
        if (None if found is None else found.revision) != expected:
            raise SwapConflict(name)
        self._count += 1
        self.registers[name] = Register(value, str(self._count))
        return str(self._count)

    async def read_all(self, prefix: str) -> Mapping[str, Register]:
        await self._reach()
        return {name: one for name, one in sorted(self.registers.items()) if name.startswith(prefix)}

    async def close(self) -> None:
        """Others may still use it."""

    async def _reach(self) -> None:
        await asyncio.sleep(0)
        if self.away:
            raise AuthorityUnavailable("the authority is away: the test says so")
