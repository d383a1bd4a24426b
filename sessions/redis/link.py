"""Connections to one Redis: a small pool that knows whether a command was sent, and repeats nothing.

redis-py's own clients hide the difference between a connection that could not be made and one that was lost with a command
on it, and retry by default. Here its connections are used one level lower: they are connected (TLS, user and database by the
URL) and speak the protocol; when and how often is decided here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from redis.asyncio.connection import AbstractConnection, ConnectionPool
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, AuthorizationError, BusyLoadingError, RedisError, ResponseError

from sessions.errors import StoreBusy, StoreClosed, StoreUnavailable

Command = tuple[str | bytes | int, ...]


class Lost(Exception):
    """A command was sent, and no answer came: it may have been run, or may still be."""


def connections(url: str, connect_timeout_s: float) -> Callable[[], AbstractConnection]:
    """What makes connections to `url` (`redis://`, `rediss://` or `unix://`, with user, password and database).

    Raises ValueError for what is no such URL, without repeating it.
    """
    try:
        pool = ConnectionPool.from_url(url, protocol=2)
    except Exception:  # noqa: BLE001 - whatever is wrong with the URL; its text must not go on
        raise ValueError(
            "the URL of the sessions' Redis cannot be read: write redis://user:password@host:port/0"
        ) from None
    settings = {name: value for name, value in pool.connection_kwargs.items() if not name.startswith("maint")}
    settings.update(  # over the URL's own, which may ask for other things
        retry=Retry(NoBackoff(), 0),
        retry_on_timeout=False,
        retry_on_error=[],
        decode_responses=False,
        health_check_interval=0,
        protocol=2,
        socket_timeout=None,  # one limit over the whole exchange instead, below
        socket_connect_timeout=connect_timeout_s,
    )
    return lambda: pool.connection_class(**settings)


class Link:
    """At most `most` connections, made when needed, the last used first.

    `timeout_s` bounds an exchange from before sending to the answer; `wait_s` the wait for a free connection.
    """

    def __init__(
        self,
        make: Callable[[], AbstractConnection],
        *,
        most: int,
        timeout_s: float,
        wait_s: float,
        connect_timeout_s: float,
    ) -> None:
        self._make = make
        self._most = most
        self._places = asyncio.Semaphore(most)
        self._idle: list[AbstractConnection] = []
        self._timeout_s = timeout_s
        self._wait_s = wait_s
        self._connect_timeout_s = connect_timeout_s
        self._closed = False

    async def ask(self, *commands: Command) -> list[Any]:
        """Send the commands together on one connection; one answer for each, an error of the server among them as a value.

        Raises StoreUnavailable where nothing was sent, and Lost where it was and no answer came. On every other ending but
        a whole answer the connection is closed: nothing can be left on it for the next one.
        """
        if self._closed:
            raise StoreClosed
        try:
            async with asyncio.timeout(self._wait_s):
                await self._places.acquire()
        except TimeoutError:
            raise StoreBusy(self._most) from None
        try:
            return await self._exchange(await self._connected(), commands)
        finally:
            self._places.release()

    async def drop(self) -> None:
        """Close what is idle: the next command makes a new connection, and finds the address anew."""
        idle, self._idle = self._idle, []
        for connection in idle:
            await connection.disconnect(nowait=True)

    async def close(self) -> None:
        """No more commands; those under way end, and their connections with them."""
        self._closed = True
        await self.drop()

    async def _connected(self) -> AbstractConnection:
        while self._idle:
            connection = self._idle.pop()
            if await self._alive(connection):
                return connection
        connection = self._make()
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                await connection.connect()  # type: ignore[no-untyped-call]
        except BaseException as error:
            await connection.disconnect(nowait=True)
            if isinstance(error, RedisError | OSError | TimeoutError):
                raise StoreUnavailable(_no_connection(error)) from error
            raise
        return connection

    async def _alive(self, connection: AbstractConnection) -> bool:
        """Whether an idle connection still stands: the server may have closed it since."""
        try:
            fine = connection.is_connected and not await connection.can_read()
        except BaseException as error:
            await connection.disconnect(nowait=True)
            if isinstance(error, RedisError | OSError):
                return False
            raise
        if not fine:
            await connection.disconnect(nowait=True)
        return fine

    async def _exchange(self, connection: AbstractConnection, commands: tuple[Command, ...]) -> list[Any]:
        answers: list[Any] = []
        try:
            async with asyncio.timeout(self._timeout_s):
                packed = [part for command in commands for part in connection.pack_command(*command)]
                await connection.send_packed_command(packed, check_health=False)
                for _ in commands:
                    answers.append(await _answer(connection))
        except (RedisError, OSError, TimeoutError) as error:
            raise Lost(f"no answer: {type(error).__name__}") from error
        finally:
            if len(answers) == len(commands) and not self._closed:
                self._idle.append(connection)
            else:
                await connection.disconnect(nowait=True)
        return answers


async def _answer(connection: AbstractConnection) -> Any:
    try:
        return await connection.read_response(disconnect_on_error=False)
    except (ResponseError, BusyLoadingError, AuthenticationError) as error:
        return error


def _no_connection(error: BaseException) -> str:
    """Why there is no connection and what to do, without address or user."""
    if isinstance(error, AuthenticationError | AuthorizationError):
        return "the sessions' Redis refuses the user or the password: check them in its URL"
    if isinstance(error, BusyLoadingError):
        return "the sessions' Redis is still loading its data: try again later"
    if isinstance(error, ResponseError):
        return "the sessions' Redis refuses the connection: check user, database and limits in its log"
    return f"no connection to the sessions' Redis ({type(error).__name__}): check that it runs and can be reached"
