"""What is Redis's own: functions and scripts, lost connections, restarts, replicas, users."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from sessions import errors
from sessions.redis.link import Link, connections
from sessions.redis.script import SOURCE
from sessions.redis.store import RedisStore, Sync, Timing
from tests.sessions.cut_proxy import CutProxy
from tests.sessions.labs import KEY, LEASE_MS, append, create, events, granted, stored_ids
from tests.sessions.redis_server import RedisServer, binary, free_port, until

DOCUMENTED = Path(__file__).parents[2] / "docs" / "sessions.md"

pytestmark = pytest.mark.skipif(binary() is None, reason="there is no redis-server on this machine")


@pytest.fixture
def shard(request: pytest.FixtureRequest) -> str:
    name: str = request.node.name
    return name


@pytest.fixture
async def store(redis_server: RedisServer, shard: str) -> RedisStore:
    one = store_at(redis_server.url, shard)
    await granted(one)
    return one


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A server that the test may stop, flush and fill."""
    with RedisServer(tmp_path) as server:
        yield server


_opened: list[RedisStore] = []


@pytest.fixture(autouse=True)
async def closing() -> AsyncIterator[None]:
    """A test that fails leaves no connection behind for the next one to stumble over."""
    yield
    while _opened:
        await _opened.pop().close()


def store_at(url: str, shard: str = "eu", *, sync: Sync | None = None, timeout_s: float = 5.0) -> RedisStore:
    timing = Timing(timeout_s=timeout_s, connect_timeout_s=5.0)
    _opened.append(RedisStore(url, shard=shard, now=time.monotonic, timing=timing, sync=sync))
    return _opened[-1]


# Time and identity, as the server has them


async def test_the_servers_own_time_runs_and_ends_the_lease(store: RedisStore) -> None:
    await create(store)
    before = (await store.fence()).now_ms
    assert abs(before - time.time() * 1000) < 60_000
    first = await append(store, "a")
    assert 0 < first.remaining_ms <= LEASE_MS
    await granted(store, epoch=2, lease_ms=40)

    async def over() -> bool:
        try:
            await append(store, "b", epoch=2)
        except errors.LeaseExpired:
            return True
        except errors.InDoubt:  # answered within the lease, and read after it
            pass
        return False

    await until(over)
    assert (await store.fence()).now_ms >= before + 40


async def test_a_clock_behind_what_was_seen_is_told(store: RedisStore, redis_server: RedisServer, shard: str) -> None:
    await create(store)
    ahead = (await store.fence()).now_ms + 20_000
    await redis_server.command("HSET", f"stanchion:{{{shard}}}:fence", "high_water", ahead)
    with pytest.raises(errors.ClockBack) as back:
        await append(store, "a")
    assert 0 < back.value.behind_ms <= 20_000
    assert (await store.fence()).revoked


async def test_a_restarted_server_has_another_identity(own_server: RedisServer) -> None:
    store = store_at(own_server.url)
    await granted(store)
    await create(store)
    before = await store.fence()
    await own_server.command("SAVE")
    own_server.stop()
    own_server.start()
    await until(lambda: _noticed(store))
    with pytest.raises(errors.NotGranted):
        await append(store, "a")
    after = await store.fence()
    assert after.identity != before.identity
    assert after.granted_to == before.identity
    with pytest.raises(errors.EpochReused):
        await granted(store, epoch=1)
    await granted(store, epoch=2)
    await append(store, "a", epoch=2, expected=0)


# Keys


async def test_all_keys_of_a_shard_share_its_hash_tag(own_server: RedisServer) -> None:
    store = store_at(own_server.url, "e}u:x")
    await granted(store)
    await store.create(KEY, epoch=1, write_id="w", state={"app:a": 1, "user:u": 1, "s": 1})
    await append(store, "a")
    await store.delete(KEY, epoch=1)
    keys = await own_server.command("KEYS", "*")
    assert len(keys) >= 4
    assert all(key.startswith(b"stanchion:{e%7Du%3Ax}:") for key in keys)
    (gone,) = [key for key in keys if b":gone:" in key]
    assert 0 < await own_server.command("PTTL", gone) <= store.limits.gone_s * 1000


async def test_shards_in_one_server_do_not_see_each_other(own_server: RedisServer) -> None:
    eu, us = store_at(own_server.url, "eu"), store_at(own_server.url, "us")
    await granted(eu, epoch=3)
    await create(eu, epoch=3)
    with pytest.raises(errors.NotGranted):
        await create(us)
    await granted(us, epoch=1)
    await create(us)
    await append(us, "a")
    assert await stored_ids(eu) == []


# The library in the server


async def test_functions_are_used_and_loaded_again_when_they_are_gone(own_server: RedisServer) -> None:
    store = store_at(own_server.url)
    await granted(store)
    assert store.uses_functions
    await create(store)
    await own_server.command("FUNCTION", "FLUSH")
    await append(store, "a")
    await own_server.command("FUNCTION", "FLUSH")
    assert await stored_ids(store) == ["a"]


async def test_many_clients_may_load_the_library_at_once(own_server: RedisServer) -> None:
    stores = [store_at(own_server.url) for _ in range(10)]
    await asyncio.gather(*(store.fence() for store in stores))
    libraries = await own_server.command("FUNCTION", "LIST")
    assert len(libraries) == 1


async def test_two_versions_of_the_library_live_in_one_server(own_server: RedisServer) -> None:
    old = store_at(own_server.url)
    new = RedisStore(own_server.url, shard="eu", now=time.monotonic, source=SOURCE + "\n-- a later version\n")
    _opened.append(new)
    await granted(old)
    await create(new)
    await append(old, "a")
    await append(new, "b")
    assert await stored_ids(old) == ["a", "b"]
    assert len(await own_server.command("FUNCTION", "LIST")) == 2


async def test_a_user_without_functions_gets_scripts_which_are_loaded_again_too(own_server: RedisServer) -> None:
    rules = ("on", ">pw:/@", "~stanchion:*", "+@all", "-function", "-fcall", "-fcall_ro")
    await own_server.command("ACL", "SETUSER", "sessions", *rules)
    store = store_at(f"redis://sessions:pw%3A%2F%40@127.0.0.1:{own_server.port}/0")
    await granted(store)
    assert store.uses_functions is False
    await create(store)
    await append(store, "a")
    await own_server.command("SCRIPT", "FLUSH")
    await append(store, "b")
    await own_server.command("SCRIPT", "FLUSH")
    assert await stored_ids(store) == ["a", "b"]


async def all_steps(store: RedisStore) -> None:
    """What a gateway does with its sessions, as the user whom the store's URL names."""
    await granted(store)
    await create(store)
    await append(store, "a")
    await store.add_counts([], epoch=1)
    assert await stored_ids(store) == ["a"]
    assert len((await store.list_sessions("shop")).sessions) == 1
    await store.expire(epoch=1, idle_before_ms=2**50)
    assert store.uses_functions


async def test_a_user_with_just_what_is_needed(own_server: RedisServer) -> None:
    """The least there is, command by command."""
    commands = "info time hget hmget hset hstrlen hgetall get set xadd xrange xrevrange zadd zrem zrangebyscore"
    allowed = ("+function|load", "+fcall", "+zrangebylex", "+unlink", *(f"+{command}" for command in commands.split()))
    rules = ("on", ">pw", "~stanchion:*", *allowed)
    await own_server.command("ACL", "SETUSER", "sessions", *rules)
    await all_steps(store_at(f"redis://sessions:pw@127.0.0.1:{own_server.port}/0"))


async def test_the_user_of_the_documentation_may_do_all_that_a_shard_asks(own_server: RedisServer) -> None:
    (line,) = re.findall(r"^ACL SETUSER stanchion .*$", DOCUMENTED.read_text("utf-8"), re.MULTILINE)
    assert await own_server.command(*line.replace("PASSWORD", "pw").split()) == b"OK"
    store = store_at(f"redis://stanchion:pw@127.0.0.1:{own_server.port}/0", sync=Sync(replicas=0, timeout_s=1.0))
    await all_steps(store)
    assert (await store.replication.status()).role == "primary"
    await store.replication.follow("127.0.0.1", 1)
    assert (await store.replication.status()).role == "replica"
    await store.replication.promote()


async def test_a_wrong_password_and_a_forbidden_command_are_told_without_the_password(own_server: RedisServer) -> None:
    await own_server.command("ACL", "SETUSER", "sessions", "on", ">right", "~stanchion:*", "+ping")
    for password in ("wrong-secret", "right"):
        store = store_at(f"redis://sessions:{password}@127.0.0.1:{own_server.port}/0")
        with pytest.raises(errors.StoreUnavailable, match="user") as told:
            await store.fence()
        assert password not in str(told.value)


@pytest.mark.parametrize("url", ["http://secret@x", "secret", "redis://secret@x:port/0"])
def test_a_url_that_is_none_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(ValueError, match="redis://user") as told:
        connections(url, 1.0)
    assert "secret" not in str(told.value)


def test_what_the_url_asks_for_does_not_bring_retries_back() -> None:
    made = connections("redis://x?retry_on_timeout=yes&decode_responses=yes&protocol=3&health_check_interval=9", 1.0)()
    assert made.retry.get_retries() == 0
    assert not made.retry_on_error
    assert not made.encoder.decode_responses
    assert (made.protocol, made.health_check_interval) == (2, 0)


async def test_tls_with_its_own_authority_and_a_user(tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    request = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost")
    names = ("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    subprocess.run(  # noqa: ASYNC221 - nothing else runs yet
        ["openssl", *request, *names, "-keyout", str(key), "-out", str(certificate)],
        check=True,
        capture_output=True,
    )
    tls_port = free_port()
    tls = (f"tls-port {tls_port}", f"tls-cert-file {certificate}", f"tls-key-file {key}", "tls-auth-clients no")
    with RedisServer(tmp_path, *tls, f"tls-ca-cert-file {certificate}") as server:
        await server.command("ACL", "SETUSER", "sessions", "on", ">pw", "~*", "+@all")
        address = f"rediss://sessions:pw@localhost:{tls_port}/0"
        store = store_at(f"{address}?ssl_ca_certs={certificate}")
        await granted(store)
        await create(store)
        distrustful = store_at(address)
        with pytest.raises(errors.StoreUnavailable, match="no connection"):
            await distrustful.fence()


# What is lost on the way


@pytest.fixture
async def proxy(redis_server: RedisServer) -> AsyncIterator[CutProxy]:
    async with CutProxy(redis_server.port) as between:
        yield between


@pytest.mark.parametrize(("lose", "stored"), [("answer", True), ("request", False), ("silence", True)])
async def test_a_lost_append_is_in_doubt_is_not_repeated_and_a_lookup_tells(
    proxy: CutProxy, shard: str, lose: str, stored: bool
) -> None:
    store = store_at(proxy.url, shard, timeout_s=0.5)
    await granted(store)
    await create(store)
    before = proxy.requests
    proxy.lose = lose  # type: ignore[assignment]
    with pytest.raises(errors.InDoubt) as doubt:
        await append(store, "a", "b", expected=0)
    assert proxy.requests == before + 1
    assert doubt.value.event_id == "a"
    proxy.lose = "nothing"
    found = await store.lookup(KEY, "a")
    assert (found is not None) == stored
    repeated = await append(store, "a", "b", expected=0)
    assert repeated.duplicate == stored
    assert await stored_ids(store) == ["a", "b"]


@pytest.mark.parametrize("lose", ["answer", "request"])
async def test_other_lost_writes_are_in_doubt_and_lost_reads_are_unavailable(
    proxy: CutProxy, shard: str, lose: str
) -> None:
    store = store_at(proxy.url, shard)
    await granted(store)
    proxy.lose = lose  # type: ignore[assignment]
    with pytest.raises(errors.InDoubt) as doubt:
        await store.create(KEY, epoch=1, write_id="w")
    assert doubt.value.event_id == "w"
    with pytest.raises(errors.StoreUnavailable):
        await store.info(KEY)
    with pytest.raises(errors.StoreUnavailable):
        await store.fence()
    proxy.lose = "nothing"
    assert (await store.create(KEY, epoch=1, write_id="w")).duplicate == (lose == "answer")
    proxy.lose = lose  # type: ignore[assignment]
    with pytest.raises(errors.InDoubt) as doubt:
        await store.delete(KEY, epoch=1)
    assert doubt.value.event_id is None


async def test_a_frozen_server_leaves_the_append_in_doubt_and_it_is_stored_once(own_server: RedisServer) -> None:
    store = store_at(own_server.url, timeout_s=0.3)
    await granted(store, lease_ms=60_000)
    await create(store)
    own_server.signal(signal.SIGSTOP)
    with pytest.raises(errors.InDoubt):
        await append(store, "a", expected=0)
    own_server.signal(signal.SIGCONT)

    async def repeated() -> bool:
        try:
            await append(store, "a", expected=0)
        except (errors.InDoubt, errors.StoreUnavailable):
            return False
        return True

    await until(repeated)
    assert await stored_ids(store) == ["a"]


async def test_a_server_that_is_not_there_is_unavailable_not_in_doubt(own_server: RedisServer) -> None:
    store = store_at(own_server.url)
    await granted(store)
    await create(store)
    own_server.stop()
    await until(lambda: _noticed(store))
    with pytest.raises(errors.StoreUnavailable, match="check that it runs"):
        await append(store, "a")


async def test_a_connection_that_the_server_closed_meanwhile_is_noticed_before_it_is_used(
    store: RedisStore, redis_server: RedisServer
) -> None:
    await create(store)
    await redis_server.command("CLIENT", "KILL", "TYPE", "normal")
    await until(lambda: _noticed(store))
    await append(store, "a", expected=0)
    assert await stored_ids(store) == ["a"]


async def test_an_idle_connection_that_cannot_even_be_looked_at_is_replaced(
    store: RedisStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(store)
    (idle,) = store._link._idle

    async def broken() -> bool:
        raise ConnectionResetError

    monkeypatch.setattr(idle, "can_read", broken)
    await append(store, "a", expected=0)
    assert idle not in store._link._idle


async def test_a_cancelled_append_leaves_no_answer_for_the_next_one(proxy: CutProxy, shard: str) -> None:
    store = store_at(proxy.url, shard)
    await granted(store)
    await create(store)
    for number in range(40):
        task = asyncio.ensure_future(append(store, f"{number}"))
        await asyncio.sleep(number / 20_000)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        info = await store.info(KEY)
        assert info.key == KEY
        answer = await append(store, f"{number}")
        assert answer.last.seq == number + 1
    assert await stored_ids(store) == [f"{number}" for number in range(40)]
    assert store._link._places._value == Timing().connections


async def test_more_than_there_are_connections_wait_and_are_refused_in_the_end(proxy: CutProxy, shard: str) -> None:
    timing = Timing(timeout_s=5.0, wait_s=0.05, connections=2)
    store = RedisStore(proxy.url, shard=shard, now=time.monotonic, timing=timing)
    _opened.append(store)
    await granted(store)
    await create(store)
    proxy.lose = "silence"
    hanging = [asyncio.ensure_future(append(store, f"h{number}")) for number in range(2)]
    await until(lambda: _true(proxy.connected >= 2))
    with pytest.raises(errors.StoreBusy):
        await append(store, "a")
    for task in hanging:
        task.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)
    proxy.lose = "nothing"
    answers = await asyncio.gather(*(append(store, f"e{number}") for number in range(20)))
    assert len({answer.version for answer in answers}) == 20


async def _noticed(store: RedisStore) -> bool:
    """Whether the event loop knows by now that the server has closed the one idle connection."""
    (idle,) = store._link._idle
    return idle._reader is None or idle._reader.at_eof()


async def _true(value: bool) -> bool:
    return value


async def test_a_full_server_refuses_whole_appends(tmp_path: Path) -> None:
    with RedisServer(tmp_path, "maxmemory 4mb", "maxmemory-policy noeviction") as server:
        store = store_at(server.url)
        await granted(store)
        await create(store)
        done = 0
        with pytest.raises(errors.StoreUnavailable, match="out of memory"):
            while True:
                four = events(*(f"{done}-{part}" for part in range(4)), body=b"x" * 50_000)
                await store.append(KEY, four, epoch=1, expected_version=done, state={"n": done})
                done += 1
        info = await store.info(KEY)
        assert (info.version, info.events) == (done, 4 * done)
        assert (await store.state(KEY)).session == {"n": done - 1}
        assert await store.lookup(KEY, f"{done}-0") is None


# Replicas


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[tuple[RedisServer, RedisServer]]:
    """A primary and its replica."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    with RedisServer(tmp_path / "a") as a, RedisServer(tmp_path / "b") as b:
        await b.command("REPLICAOF", "127.0.0.1", a.port)
        await until(lambda: _linked(b))
        await until(lambda: _online(a))
        yield a, b


async def _linked(replica: RedisServer) -> bool:
    return b"master_link_status:up" in await replica.command("INFO", "replication")


async def _online(primary: RedisServer) -> bool:
    return b"state=online" in await primary.command("INFO", "replication")


async def _same(one: RedisStore, other: RedisStore) -> bool:
    try:
        return (await one.fence()).gseq == (await other.fence()).gseq
    except errors.ReadOnlyStore:  # the library has not come to the replica yet
        return False


async def test_a_replica_answers_what_is_there_and_takes_no_writes(pair: tuple[RedisServer, RedisServer]) -> None:
    a, b = (store_at(server.url) for server in pair)
    await granted(a)
    await create(a)
    await append(a, "e")
    await until(lambda: _same(a, b))
    assert await stored_ids(b) == ["e"]
    assert await b.lookup(KEY, "e") is not None
    with pytest.raises(errors.NotGranted):
        await b.lookup(KEY, "f")
    with pytest.raises(errors.ReadOnlyStore):
        await append(b, "f")


async def test_g02_the_old_primary_comes_back_and_takes_nothing(pair: tuple[RedisServer, RedisServer]) -> None:
    """B is promoted while A, cut off, still has connections and a client that reaches it."""
    a, b = (store_at(server.url) for server in pair)
    await granted(a)
    await create(a)
    await append(a, "both", expected=0)
    await until(lambda: _same(a, b))
    await pair[1].command("REPLICAOF", "NO", "ONE")

    with pytest.raises(errors.NotGranted):  # promoted by hand: A's grant came along and does not hold here
        await append(b, "x", expected=1)
    unreplicated = await append(a, "only-a", expected=1)
    await granted(a, lease_ms=1)  # the lease's own end is what ends A, whatever its clients believe
    await a.revoke(1)
    with pytest.raises(errors.LeaseExpired):
        await append(a, "late", expected=2)

    await granted(b, epoch=2)
    assert (await b.fence()).fork_gseq == unreplicated.gseq - 1
    for old in (a, b):
        with pytest.raises((errors.LeaseExpired, errors.Fenced)):
            await append(old, "stale", epoch=1)
    with pytest.raises(errors.StoreBehind):
        await append(a, "repeated", epoch=2)
    answer = await append(b, "repeated", epoch=2, expected=1)
    assert str(answer.last) == "2-2"
    assert await stored_ids(b) == ["both", "repeated"]

    # After the cut the old primary follows; its own event is gone from it, so it has to be exported before.
    tail = [event.event.event_id for event in (await a.read(KEY)).events if event.gseq > (await b.fence()).fork_gseq]
    assert tail == ["only-a"]
    await pair[0].command("REPLICAOF", "127.0.0.1", pair[1].port)
    await until(lambda: _linked(pair[0]))
    await until(lambda: _same(a, b))
    assert await stored_ids(a) == ["both", "repeated"]
    assert a._link._idle
    with pytest.raises(errors.ReadOnlyStore):
        await append(a, "z", epoch=2)
    assert not a._link._idle  # its connections are dropped: the next command resolves the address anew


async def test_a_promoted_replica_without_the_script_loads_it(pair: tuple[RedisServer, RedisServer]) -> None:
    """Scripts of EVAL do not replicate, as functions do."""
    for server in pair:
        await server.command("ACL", "SETUSER", "s", "on", ">pw", "~*", "+@all", "-function", "-fcall", "-fcall_ro")
    a, b = (store_at(f"redis://s:pw@127.0.0.1:{server.port}/0") for server in pair)
    await granted(a)
    await create(a)
    await until(lambda: _same(a, b))
    await pair[1].command("SCRIPT", "FLUSH")
    await pair[1].command("REPLICAOF", "NO", "ONE")
    await granted(b, epoch=2)
    await append(b, "e", epoch=2)
    assert b.uses_functions is False


async def test_sync_acknowledges_with_the_replica_and_is_in_doubt_without_even_when_repeated(
    pair: tuple[RedisServer, RedisServer],
) -> None:
    store = store_at(pair[0].url, sync=Sync(replicas=1, timeout_s=0.2))
    await granted(store)

    async def confirmed(event_id: str, expected: int) -> bool:
        try:
            await append(store, event_id, expected=expected)
        except errors.InDoubt:  # a replica may be slow on a busy machine
            return False
        return True

    await store_at(pair[0].url).create(KEY, epoch=1, write_id="w")
    await until(lambda: confirmed("a", 0))
    pair[1].signal(signal.SIGSTOP)
    for _ in range(2):  # a repeat on a fresh connection has nothing of its own to wait for but the nudge
        await store.drop_connections()
        with pytest.raises(errors.InDoubt, match="0 of 1 replicas"):
            await append(store, "b", expected=1)
    pair[1].signal(signal.SIGCONT)
    await until(lambda: confirmed("b", 1))
    assert await stored_ids(store) == ["a", "b"]


async def test_a_repeated_append_is_a_write_to_the_replicas(pair: tuple[RedisServer, RedisServer]) -> None:
    """Some servers let WAIT on a connection that has written nothing succeed at once, so the repeat has to write."""
    store = store_at(pair[0].url)
    await granted(store)
    await create(store)
    await append(store, "a")
    before = await _offset(pair[0])
    assert (await append(store, "a")).duplicate
    after_append = await _offset(pair[0])
    assert (await create(store)).duplicate
    assert before < after_append < await _offset(pair[0])


async def _offset(primary: RedisServer) -> int:
    text = (await primary.command("INFO", "replication")).decode()
    return int(text.split("master_repl_offset:")[1].split()[0])


async def test_an_error_that_does_not_tell_what_was_written_is_a_doubt(
    store: RedisStore, redis_server: RedisServer, shard: str
) -> None:
    await create(store)
    await redis_server.command("SET", f"stanchion:{{{shard}}}:ids:shop:ann:s1", "no hash")
    with pytest.raises(errors.InDoubt, match="the server answered an error, WRONGTYPE"):
        await append(store, "a")


async def test_a_link_that_is_closed_under_way_keeps_no_connection(proxy: CutProxy, redis_server: RedisServer) -> None:
    link = Link(connections(proxy.url, 5.0), most=1, timeout_s=5.0, wait_s=5.0, connect_timeout_s=5.0)
    asking = asyncio.ensure_future(link.ask(("BLPOP", "nothing-here", "0.1")))
    await until(lambda: _true(proxy.requests > 0))
    await link.close()
    assert await asking == [None]
    assert link._idle == []
    with pytest.raises(errors.StoreClosed):
        await link.ask(("PING",))
