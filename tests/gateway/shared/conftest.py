"""A Redis for the tests of what gateways share."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.sessions.redis_server import RedisServer, binary


@pytest.fixture(scope="session")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One server for all tests that do not stop it; each takes a region."""
    if binary() is None:
        pytest.skip("there is no redis-server on this machine: install it (apt-get install redis-server)")
    with RedisServer(tmp_path_factory.mktemp("board")) as server:
        yield server


@pytest.fixture
def own_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A server of the test's own, to be stopped."""
    if binary() is None:
        pytest.skip("there is no redis-server on this machine: install it (apt-get install redis-server)")
    with RedisServer(tmp_path_factory.mktemp("board")) as server:
        yield server


@pytest.fixture
def region(request: pytest.FixtureRequest) -> str:
    """A region that no other test has."""
    return re.sub(r"[^\w-]+", "-", request.node.name)
