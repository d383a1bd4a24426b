"""The authorities that the contract is held against, each with a way to freeze and to end what is behind it."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from regions.authority.base import Authority
from regions.authority.etcd import EtcdAuthority
from regions.authority.redis import RedisAuthority
from regions.authority.sqlite import SqliteAuthority
from tests.fakes.authority import MemoryAuthority
from tests.regions.authority import etcd_server
from tests.regions.authority.etcd_server import EtcdCluster
from tests.sessions import redis_server
from tests.sessions.redis_server import RedisServer

ALWAYS = ("appendonly yes", "appendfsync always")


@dataclass
class AuthorityLab:
    """`freeze`, `thaw` and `end` act on the server; None where there is none."""

    authority: Authority
    freeze: Callable[[], None] | None = None
    thaw: Callable[[], None] | None = None
    end: Callable[[], None] | None = None


def need(found: str | None, package: str) -> None:
    if found is None:
        pytest.skip(f"the server of {package} is not on this machine: install it (apt-get install {package})")


@pytest.fixture(params=["sqlite", "etcd", "redis", "memory"])
async def authority_lab(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[AuthorityLab]:
    with ExitStack() as stack:
        match request.param:
            case "sqlite":
                lab = AuthorityLab(await SqliteAuthority.open(tmp_path / "authority.db"))
            case "memory":
                lab = AuthorityLab(MemoryAuthority())
            case "etcd":
                need(etcd_server.binary(), "etcd-server")
                cluster = stack.enter_context(EtcdCluster(tmp_path))
                lab = AuthorityLab(
                    EtcdAuthority(cluster.endpoints, prefix="test/", timeout_s=1.0),
                    lambda: cluster.signal(0, signal.SIGSTOP),
                    lambda: cluster.signal(0, signal.SIGCONT),
                    lambda: cluster.kill(0),
                )
            case _:
                need(redis_server.binary(), "redis-server")
                server = stack.enter_context(RedisServer(tmp_path, *ALWAYS))
                lab = AuthorityLab(
                    RedisAuthority(server.url, timeout_s=1.0),
                    lambda: server.signal(signal.SIGSTOP),
                    lambda: server.signal(signal.SIGCONT),
                    server.stop,
                )
        yield lab
        await lab.authority.close()


@pytest.fixture
def authority(authority_lab: AuthorityLab) -> Authority:
    return authority_lab.authority
