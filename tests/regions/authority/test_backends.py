"""What only one kind of authority can meet."""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
from pathlib import Path

import pytest
from aiohttp import web

from regions.authority.etcd import EtcdAuthority
from regions.authority.redis import RedisAuthority
from regions.authority.sqlite import SqliteAuthority
from regions.errors import AuthorityError, AuthorityNonsense, AuthorityUnavailable, SwapConflict
from tests.regions.authority import etcd_server
from tests.regions.authority.conftest import ALWAYS, need
from tests.regions.authority.etcd_server import EtcdCluster
from tests.sessions import redis_server
from tests.sessions.redis_server import RedisServer, free_port, until

DOCUMENTED = Path(__file__).parents[3] / "docs" / "sessions.md"


@pytest.fixture
def servers() -> None:
    need(etcd_server.binary(), "etcd-server")
    need(redis_server.binary(), "redis-server")


async def test_a_copied_file_is_no_second_authority(tmp_path: Path) -> None:
    authority = await SqliteAuthority.open(tmp_path / "a.db")
    await authority.swap("x", None, b"1")
    await authority.close()
    shutil.copy(tmp_path / "a.db", tmp_path / "b.db")
    with pytest.raises(AuthorityNonsense, match="copied"):
        await SqliteAuthority.open(tmp_path / "b.db")


async def test_a_file_that_is_replaced_beneath_it_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    authority = await SqliteAuthority.open(path)
    await authority.swap("x", None, b"1")
    path.rename(tmp_path / "old.db")
    with pytest.raises(AuthorityUnavailable, match="moved, deleted or replaced"):
        await authority.read("x")
    path.write_bytes(b"")
    with pytest.raises(AuthorityUnavailable, match="moved, deleted or replaced"):
        await authority.swap("x", None, b"2")
    await authority.close()


async def test_a_file_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(AuthorityUnavailable, match="cannot be used"):
        await SqliteAuthority.open(tmp_path / "a.db")
    with pytest.raises(AuthorityUnavailable, match="folder"):
        await SqliteAuthority.open(tmp_path / "none" / "a.db")


_COUNT = """
import asyncio, sys
from pathlib import Path
from regions.authority.sqlite import SqliteAuthority
from regions.errors import SwapConflict

async def main() -> None:
    authority = await SqliteAuthority.open(Path(sys.argv[1]))
    for _ in range(100):
        while True:
            found = await authority.read("count")
            try:
                value = 1 if found is None else int(found.value) + 1
                await authority.swap("count", found and found.revision, str(value).encode())
                break
            except SwapConflict:
                pass
    await authority.close()

asyncio.run(main())
"""


async def test_two_processes_count_together(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _COUNT, str(tmp_path / "a.db")]
    processes = [await asyncio.create_subprocess_exec(*command) for _ in range(2)]
    for process in processes:
        assert await process.wait() == 0
    authority = await SqliteAuthority.open(tmp_path / "a.db")
    found = await authority.read("count")
    await authority.close()
    assert found is not None
    assert found.value == b"200"


async def test_a_member_without_a_majority_answers_nothing(servers: None, tmp_path: Path) -> None:
    with EtcdCluster(tmp_path, members=3) as cluster:
        authority = EtcdAuthority(cluster.endpoints, timeout_s=2.0)
        revision = await authority.swap("x", None, b"1")
        cluster.kill(0)

        async def again() -> bool:
            nonlocal revision
            try:
                revision = await authority.swap("x", revision, b"2")
            except (AuthorityError, SwapConflict):
                found = None
                try:
                    found = await authority.read("x")
                except AuthorityError:
                    return False
                assert found is not None
                revision = found.revision
                return found.value == b"2"
            return True

        await until(again)  # two of three go on
        cluster.kill(1)
        with pytest.raises(AuthorityUnavailable):
            await authority.read("x")
        with pytest.raises(AuthorityError):
            await authority.swap("x", revision, b"3")
        await authority.close()


async def test_another_cluster_at_the_same_address_is_noticed(servers: None, tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with EtcdCluster(tmp_path / "one") as one, EtcdCluster(tmp_path / "two", members=2) as two:
        authority = EtcdAuthority(one.endpoints)
        revision = await authority.swap("x", None, b"1")
        other = EtcdAuthority(two.endpoints)
        await other.swap("x", None, b"2")
        with pytest.raises(SwapConflict):  # its revision may be the same number, and is another one
            await other.swap("x", revision, b"3")
        authority._endpoints[:] = two.endpoints
        with pytest.raises(AuthorityNonsense, match="another etcd cluster"):
            await authority.read("x")
        await authority.close()
        await other.close()


@pytest.mark.parametrize(
    ("status", "body"), [(200, "<html>"), (404, "<html>"), (200, "[]"), (200, "{}"), (200, '{"header": 1}')]
)
async def test_nonsense_is_told_as_such(status: int, body: str) -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(status=status, text=body)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    port = free_port()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    authority = EtcdAuthority([f"http://127.0.0.1:{port}"])
    try:
        with pytest.raises(AuthorityNonsense, match="check the authority's endpoints"):
            await authority.read("x")
    finally:
        await authority.close()
        await runner.cleanup()


async def test_a_member_that_cannot_be_reached_is_passed_over(servers: None, tmp_path: Path) -> None:
    with EtcdCluster(tmp_path) as cluster:
        authority = EtcdAuthority([f"http://127.0.0.1:{free_port()}", *cluster.endpoints])
        revision = await authority.swap("x", None, b"1")
        found = await authority.read("x")
        assert found is not None
        assert found.revision == revision
        await authority.close()


@pytest.mark.parametrize(
    ("settings", "words"),
    [(("appendonly yes", "appendfsync everysec"), "appendfsync always"), (("appendfsync always",), "append-only file")],
)
async def test_a_redis_that_may_forget_is_refused(
    servers: None, tmp_path: Path, settings: tuple[str, ...], words: str
) -> None:
    with RedisServer(tmp_path, *settings) as server:
        authority = RedisAuthority(server.url)
        with pytest.raises(AuthorityUnavailable, match=words):
            await authority.swap("x", None, b"1")
        await authority.close()


async def test_the_user_of_the_documentation_may_do_all_that_an_authority_asks(servers: None, tmp_path: Path) -> None:
    (line,) = re.findall(r"^ACL SETUSER authority .*$", DOCUMENTED.read_text("utf-8"), re.MULTILINE)
    with RedisServer(tmp_path, *ALWAYS) as server:
        assert await server.command(*line.replace("PASSWORD", "pw").split()) == b"OK"
        authority = RedisAuthority(f"redis://authority:pw@127.0.0.1:{server.port}/0")
        try:
            await authority.swap("x", None, b"1")
            found = await authority.read("x")
            assert found is not None
            assert found.value == b"1"
            assert set(await authority.read_all("x")) == {"x"}
        finally:
            await authority.close()


async def test_a_redis_that_lost_its_data_is_noticed(servers: None, tmp_path: Path) -> None:
    with RedisServer(tmp_path, *ALWAYS) as server:
        authority = RedisAuthority(server.url)
        await authority.swap("x", None, b"1")
        await server.command("FLUSHALL")
        with pytest.raises(AuthorityUnavailable, match="not what it was"):
            await authority.read("x")
        with pytest.raises(AuthorityUnavailable, match="not what it was"):
            await authority.swap("x", None, b"2")
        await authority.close()


async def test_a_redis_that_is_restarted_with_its_file_goes_on(servers: None, tmp_path: Path) -> None:
    with RedisServer(tmp_path, *ALWAYS) as server:
        authority = RedisAuthority(server.url)
        revision = await authority.swap("x", None, b"1")
        server.stop()
        server.start()

        async def answers() -> bool:
            try:
                found = await authority.read("x")
            except AuthorityUnavailable:
                return False
            return found is not None and found.revision == revision

        await until(answers)
        assert await authority.swap("x", revision, b"2") != revision
        await authority.close()


async def test_a_redis_with_a_replica_and_a_replica_are_refused(servers: None, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with RedisServer(tmp_path / "a", *ALWAYS) as server, RedisServer(tmp_path / "b", *ALWAYS) as replica:
        await replica.command("REPLICAOF", "127.0.0.1", server.port)

        async def followed() -> bool:
            return b"connected_slaves:1" in await server.command("INFO", "replication")

        await until(followed)
        for url, words in ((server.url, "has replicas"), (replica.url, "is a replica")):
            authority = RedisAuthority(url)
            with pytest.raises(AuthorityUnavailable, match=words):
                await authority.read("x")
            await authority.close()
