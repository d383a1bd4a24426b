"""An authority from the settings, opened when it is first asked, and again as long as that fails."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path

from regions.authority.base import Authority, Register
from regions.authority.etcd import EtcdAuthority
from regions.authority.redis import RedisAuthority
from regions.authority.sqlite import SqliteAuthority
from regions.errors import AuthorityUnavailable
from regions.spec import AuthoritySpec


class OpenedLater:
    """See `regions.authority.base.Authority`. A gateway starts while its authority is away."""

    def __init__(self, spec: AuthoritySpec) -> None:
        self._spec = spec
        self._opening = asyncio.Lock()
        self._authority: Authority | None = None

    @property
    def where(self) -> str:
        spec = self._spec
        if self._authority is not None:
            return self._authority.where
        return {"etcd": f"etcd at {', '.join(spec.endpoints)}", "sqlite": f"the file {spec.path}"}.get(
            spec.backend, "a Redis of its own"
        )

    async def read(self, name: str) -> Register | None:
        return await (await self._opened()).read(name)

    async def swap(self, name: str, expected: str | None, value: bytes) -> str:
        return await (await self._opened()).swap(name, expected, value)

    async def read_all(self, prefix: str) -> Mapping[str, Register]:
        return await (await self._opened()).read_all(prefix)

    async def close(self) -> None:
        if self._authority is not None:
            await self._authority.close()

    async def _opened(self) -> Authority:
        if self._authority is None:
            async with self._opening:
                if self._authority is None:
                    self._authority = await open_authority(self._spec)
        return self._authority


async def open_authority(spec: AuthoritySpec) -> Authority:
    """Raises AuthorityUnavailable. Only a file is opened here; the others are asked with each call."""
    if spec.backend == "sqlite":
        return await SqliteAuthority.open(Path(spec.path))
    if spec.backend == "redis":
        return RedisAuthority(spec.url, prefix=spec.prefix, timeout_s=spec.timeout_s)
    tls = None
    if spec.ca_file is not None:
        try:
            tls = await asyncio.to_thread(ssl.create_default_context, cafile=spec.ca_file)
        except (OSError, ValueError) as error:
            raise AuthorityUnavailable(f"authority.ca_file cannot be read ({error}): name a PEM file") from error
    return EtcdAuthority(
        spec.endpoints,
        prefix=spec.prefix,
        timeout_s=spec.timeout_s,
        username=spec.username,
        password=spec.password,
        tls=tls,
    )
