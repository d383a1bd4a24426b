"""Two regions of real processes, and an HTTP session to reach them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from tests.regions.authority import etcd_server
from tests.regions.authority.conftest import need
from tests.regions.two_gateways import TwoGateways
from tests.sessions import redis_server


@pytest.fixture
def two(tmp_path: Path) -> Iterator[TwoGateways]:
    need(etcd_server.binary(), "etcd-server")
    need(redis_server.binary(), "redis-server")
    with TwoGateways(tmp_path) as made:
        yield made


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as one:
        yield one
