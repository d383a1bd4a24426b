"""Which connections are used again, and which never: an answer must not reach a request that it was not for."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from llm.transport import http1
from tests.fakes.behaviours import answer, gate, sse, status
from tests.fakes.chat import text_chunk
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream
from tests.llm.transport.driving import GUARD_S, OK, Arrivals, Line, client, once, pair, until

WRONG = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong"
BIG = b"x" * 12_000_000


async def test_one_connection_serves_one_request_after_the_other() -> None:
    async with Upstream("p") as p, client(p.base_url) as c:
        for _ in range(20):
            assert (await c.ask()).status == 200
        assert p.connections_made == 1


async def test_an_error_keeps_the_connection() -> None:
    async with Upstream("p", default=status(500)) as p, client(p.base_url) as c:
        for _ in range(3):
            assert (await c.ask()).status == 500
        assert p.connections_made == 1


async def test_the_connection_used_last_is_used_first() -> None:
    first, second = asyncio.Event(), asyncio.Event()
    async with Upstream("p") as p, client(p.base_url) as c:
        p.script(gate(first, answer()), gate(second, answer()))
        one = asyncio.create_task(c.ask())
        await p.wait_for_requests(1)
        two = asyncio.create_task(c.ask())
        await p.wait_for_requests(2)
        second.set()
        await two
        first.set()
        await one
        for _ in range(3):
            await c.ask()
        assert [seen.connection for seen in p.requests] == [1, 2, 1, 1, 1]
        assert p.connections_open == 2


SURPLUS = {
    "an-answer": WRONG,
    "the-beginning-of-one": b"H",
    "no-http": b"\x00\x01",
    "an-interim-answer": b"HTTP/1.1 100 Continue\r\n\r\n",
    "more-body": b"ok",
}


@pytest.mark.parametrize("apart", [False, True], ids=["in-one-read", "behind-it"])
@pytest.mark.parametrize("name", SURPLUS)
async def test_a_connection_with_bytes_behind_the_answer_is_never_used_again(
    name: str, apart: bool, arrivals: Arrivals
) -> None:
    async def play(line: Line) -> None:
        await line.request()
        if line.number > 1:
            line.send(OK)
            await line.gone()
        elif apart:
            await line.send_apart([OK, SURPLUS[name]], arrivals)
        else:
            line.send(OK + SURPLUS[name])
        await line.gone()

    async with pair(play) as (peer, c):
        async with c.send(c.request()) as first:
            if apart:  # the surplus comes while the answer is still being read
                await arrivals.taken(len(OK + SURPLUS[name]))
            assert await first.read_any() == b"ok"
            assert await first.read_any() == b""
        await peer.left(1)
        assert (await c.ask()).body == b"ok"
        assert (len(peer.lines), c.resent) == (2, 0)


@pytest.mark.parametrize("after", [OK, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"])
async def test_a_surplus_answer_at_rest_closes_the_connection(after: bytes, arrivals: Arrivals) -> None:
    async def play(line: Line) -> None:
        await line.request()
        await line.send_apart([after], arrivals)
        if line.number == 1:
            await until(lambda: len(c._idle) == 1)
            line.send(WRONG)
        await line.gone()

    async with pair(play) as (peer, c):
        assert (await c.ask()).body == b"ok"
        await peer.left(1)
        assert c.sockets_open == 0
        assert (await c.ask()).body == b"ok"
        assert (len(peer.lines), c.resent) == (2, 0)


class Aside:
    """A provider on a thread: it acts while the client's event loop stands still."""

    def __init__(self, surplus: bytes | None) -> None:
        self._surplus = surplus
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}/v1"
        self.go, self.gone = threading.Event(), threading.Event()
        self.requests: list[int] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        for number in (1, 2):
            line, _ = self._server.accept()
            with line:
                line.settimeout(GUARD_S)
                line.recv(65_536)
                self.requests.append(number)
                line.sendall(OK)
                if number == 1:
                    self.go.wait(GUARD_S)
                    if self._surplus is None:
                        line.shutdown(socket.SHUT_WR)
                    else:
                        line.sendall(self._surplus)
                    self.gone.set()
                try:
                    while line.recv(65_536):
                        self.requests.append(number)
                except ConnectionError:
                    pass

    def act(self) -> None:
        """Send the surplus, or the end of the connection, into the socket of the client."""
        self.go.set()
        assert self.gone.wait(GUARD_S)

    def close(self) -> None:
        self._thread.join(GUARD_S)
        self._server.close()


@pytest.mark.parametrize("surplus", [WRONG, b"\0", None], ids=["an-answer", "a-byte", "the-end"])
async def test_what_already_waits_in_the_socket_is_seen_before_a_request_is_written(surplus: bytes | None) -> None:
    """No turn of the loop lies between the surplus and the next request."""
    aside = Aside(surplus)
    try:
        async with client(aside.url) as c:
            assert (await c.ask()).body == b"ok"
            aside.act()
            assert (await c.ask()).body == b"ok"
            assert aside.requests == [1, 2]
            assert c.resent == 0
    finally:
        await asyncio.to_thread(aside.close)


async def test_an_answer_left_early_costs_the_connection() -> None:
    async with Upstream("p") as p, client(p.base_url) as c:
        p.script(sse(text_chunk("one"), gate(asyncio.Event(), answer())))
        async with c.send(c.request()) as answered:
            assert await answered.read_any()
        await p.requests[0].wait_closed()
        assert (await c.ask()).status == 200
        assert p.requests[1].connection == 2


async def test_a_whole_answer_that_nobody_read_costs_the_connection(arrivals: Arrivals) -> None:
    async with Upstream("p") as p, client(p.base_url) as c:
        async with c.send(c.request()):
            pass
        await until(lambda: p.connections_open == 0)
        assert (await c.ask()).status == 200
        assert p.connections_made == 2


async def test_a_cut_answer_costs_the_connection() -> None:
    async with pair(once(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello")) as (peer, c):
        for number in (1, 2):
            assert (await c.refused()).kind == "cut"
            assert len(peer.lines) == number


# a request that was not sent to its end


@pytest.mark.parametrize("says_close", [False, True], ids=["keep-alive", "close"])
async def test_an_early_answer_is_given_while_the_body_is_still_being_sent(says_close: bool) -> None:
    """A connection with the rest of a body on it is not used again: its next request would wait behind that."""
    more = b"Connection: close\r\n" if says_close else b""

    async def play(line: Line) -> None:
        await line.head()
        line.send(b"HTTP/1.1 413 Content Too Large\r\n" + more + b"Content-Length: 3\r\n\r\nbig")
        await until(lambda: done)
        await line.gone()

    done = False
    async with pair(play) as (peer, c):
        for number in (1, 2):
            told = await c.ask(BIG)
            assert (told.status, told.body) == (413, b"big")
            assert len(peer.lines) == number
            assert not c._idle
            await until(lambda: c.sockets_open == 0)  # while the provider still stands
        done = True
        await peer.left(1)
        await peer.left(2)
        assert c.resent == 0


async def test_an_early_answer_that_the_end_of_sending_ends() -> None:
    """The provider ends its side only, and reads nothing: what is still to be sent never goes out."""

    async def play(line: Line) -> None:
        await line.head()
        line.send(b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\n\r\nbig")
        line.writer.write_eof()
        await until(lambda: done)
        await line.gone()

    done = False
    async with pair(play) as (peer, c):
        async with asyncio.timeout(GUARD_S):
            told = await c.ask(BIG)
        assert (told.status, told.body) == (413, b"big")
        done = True
        await peer.left()


async def test_an_end_without_an_answer_is_seen_while_the_body_is_still_being_sent() -> None:
    async def play(line: Line) -> None:
        await line.head()
        line.writer.write_eof()
        await until(lambda: done)
        await line.gone()

    done = False
    async with pair(play) as (peer, c):
        async with asyncio.timeout(GUARD_S):
            assert (await c.refused(BIG)).kind == "connect"
        done = True
        await peer.left()


async def test_a_provider_that_never_reads_the_body_is_left_at_once() -> None:
    async def play(line: Line) -> None:
        await line.head()
        await until(lambda: done)
        await line.gone()

    done = False
    async with pair(play) as (peer, c):
        asked = asyncio.create_task(c.ask(BIG))
        await peer.opened(1)
        await until(lambda: bool(peer.lines[0].reader._buffer))  # type: ignore[attr-defined]
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        await until(lambda: c.sockets_open == 0)
        assert c.places_taken == 0
        done = True
        await peer.left()


async def test_a_large_body_arrives_whole_and_keeps_the_connection() -> None:
    async with Upstream("p") as p, client(p.base_url) as c:
        for number in range(2):
            body = bytes([65 + number]) * len(BIG)
            assert (await c.ask(body)).status == 200
            assert p.requests[number].body == body
        assert p.connections_made == 1


# connections that the provider closes


async def test_a_connection_closed_at_rest_is_replaced_without_a_word() -> None:
    async with Upstream("p") as p, client(p.base_url) as c:
        for number in range(1, 4):
            assert (await c.ask()).status == 200
            assert p.close_idle() == 1
            await until(lambda: c.sockets_open == 0)
            assert p.connections_made == number
        assert c.resent == 0


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
@pytest.mark.parametrize("body", [b"{}", BIG], ids=["small", "large"])
async def test_lost_on_a_reused_connection_is_sent_once_more(reset: bool, body: bytes) -> None:
    bodies: list[bytes] = []

    async def play(line: Line) -> None:
        bodies.append(await line.request())
        line.send(OK)
        if line.number == 1:
            await line.head()
            if reset:
                line.reset()
        else:
            await line.gone()

    async with pair(play) as (peer, c):
        await c.ask()
        assert (await c.ask(body)).body == b"ok"
        assert (len(peer.lines), c.resent) == (2, 1)
        assert bodies == [b"{}", body]


async def test_sent_once_more_and_lost_again_is_a_connect_failure() -> None:
    async def play(line: Line) -> None:
        if line.number == 1:
            await line.request()
            line.send(OK)
        await line.request()

    async with pair(play) as (peer, c):
        await c.ask()
        error = await c.refused()
        assert (error.kind, error.message) == ("connect", "the provider closed the connection before an answer")
        assert (len(peer.lines), c.resent) == (2, 1)


async def test_sent_once_more_uses_a_new_connection_though_others_rest() -> None:
    """The others may be as stale as the first one."""
    release = asyncio.Event()

    async def play(line: Line) -> None:
        await line.request()
        if line.number <= 2:
            await release.wait()
        line.send(OK)
        await (line.request() if line.number <= 2 else line.gone())

    async with pair(play) as (peer, c):
        asked = [asyncio.create_task(c.ask()) for _ in range(2)]
        await peer.opened(2)
        release.set()
        await asyncio.gather(*asked)
        assert len(c._idle) == 2
        assert (await c.ask()).body == b"ok"
        assert (len(peer.lines), c.resent) == (3, 1)


async def test_a_refused_connection_after_a_lost_one_is_a_connect_failure() -> None:
    async def play(line: Line) -> None:
        await line.request()
        line.send(OK)
        await line.request()
        peer._server.close()

    async with pair(play) as (peer, c):
        await c.ask()
        assert (await c.refused()).kind == "connect"
        assert c.resent == 1
        assert c.places_taken == 0


# ages


async def test_a_connection_past_its_age_is_not_used_again() -> None:
    clock = ManualClock()
    async with Upstream("p") as p, client(p.base_url, max_connection_age_s=10.0, now=clock.now) as c:
        await c.ask()
        clock.advance(9.9)
        await c.ask()
        assert p.connections_made == 1
        clock.advance(0.1)
        await c.ask()  # young when it was given back, old when it is asked for
        assert p.connections_made == 2
        await until(lambda: p.connections_open == 1)


async def test_a_busy_connection_past_its_age_ends_its_answer_and_is_closed() -> None:
    async with Upstream("p") as p, client(p.base_url, max_connection_age_s=0.0) as c:
        for number in range(1, 4):
            assert (await c.ask()).status == 200
            assert p.connections_made == number
            assert not c._idle
            await until(lambda: p.connections_open == 0)


async def test_connections_at_rest_for_long_are_closed_and_fresh_ones_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = asyncio.Event(), asyncio.Event()
    async with Upstream("p") as p, client(p.base_url) as c:
        p.script(gate(first, answer()), gate(second, answer()))
        asked = [asyncio.create_task(c.ask()) for _ in range(2)]
        await p.wait_for_requests(2)
        first.set()
        second.set()
        await asyncio.gather(*asked)
        reaper = c._reaper
        assert reaper is not None
        c._idle[0].idle_since -= http1._IDLE_S
        c._reap()
        reaper.cancel()
        assert len(c._idle) == 1
        await until(lambda: p.connections_open == 1)
        c._idle[0].idle_since -= http1._IDLE_S
        reaper = c._reaper
        assert reaper is not None  # it looks again while something rests
        c._reap()
        reaper.cancel()
        await until(lambda: p.connections_open == 0)
        assert c._reaper is None
        assert (await c.ask()).status == 200
        assert c._reaper is not None


async def test_the_reaper_comes_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http1, "_IDLE_S", 0.01)
    async with Upstream("p") as p, client(p.base_url) as c:
        await c.ask()
        await until(lambda: p.connections_open == 0)
        assert c._reaper is None
