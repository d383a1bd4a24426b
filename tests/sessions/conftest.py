"""The stores that the contract is held against."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from sessions.limits import Limits
from tests.sessions.labs import Lab, RedisLab, SqliteLab, granted
from tests.sessions.redis_server import RedisServer, binary

BACKENDS = ("sqlite", "redis", "redis-scripts")

OpenLab = Callable[..., Awaitable[Lab]]
"""`await open_lab(limits=…)`: a store without a grant."""


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One server for all tests that need nothing of their own; each takes a shard."""
    if binary() is None:
        pytest.skip("there is no redis-server on this machine: install it (apt-get install redis-server)")
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
async def open_lab(backend: str, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[OpenLab]:
    opened: list[Lab] = []

    async def open_one(limits: Limits | None = None) -> Lab:
        folder = tmp_path / str(len(opened))
        folder.mkdir()
        lab: Lab
        if backend == "sqlite":
            lab = await SqliteLab.open(folder, limits or Limits())
        else:
            server: RedisServer = request.getfixturevalue("redis_server")
            shard = f"{request.node.name}-{len(opened)}"
            lab = await RedisLab.open(server, shard, limits or Limits(), functions=backend == "redis")
        opened.append(lab)
        return lab

    yield open_one
    for lab in opened:
        await lab.close()


@pytest.fixture
async def lab(open_lab: OpenLab) -> Lab:
    """A store that has the grant of epoch 1 for 30 s."""
    one = await open_lab()
    await granted(one.store)
    return one
