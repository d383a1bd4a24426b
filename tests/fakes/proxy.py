"""An HTTP proxy on 127.0.0.1: tunnels and forwarded requests, both to a port of this machine, whatever the host's name.

async with ForwardProxy(login="user:secret") as proxy:
    ...                              # a client of proxy.url
    assert proxy.asked[0].line == "CONNECT provider.test:443 HTTP/1.1"
"""

from __future__ import annotations

import asyncio
import base64
import ssl
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import quote, urlsplit


class Asked(NamedTuple):
    """A request as the proxy got it. `headers`: names in lower case."""

    line: str
    headers: dict[str, str]


class ForwardProxy:
    """`login`: what it asks for, as `user:password`; others get 407. `answer`: raw bytes in place of any other answer,
    b"" for silence, None to serve. `hosts`: ports for host names, else the port that the client names is used.
    `forward_to`: it is no proxy, but what ends TLS in front of that port.
    """

    def __init__(
        self,
        *,
        login: str | None = None,
        tls: ssl.SSLContext | None = None,
        hosts: dict[str, int] | None = None,
        answer: bytes | None = None,
        forward_to: int | None = None,
    ) -> None:
        self._forward_to = forward_to
        self.login, self.answer, self._tls, self._hosts = login, answer, tls, hosts or {}
        self.asked: list[Asked] = []
        self.connections_made = self.connections_open = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._opened, "127.0.0.1", 0, ssl=self._tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for writer in self._writers:  # also those whose task had not begun
            writer.transport.abort()
        await self._server.wait_closed()
        await asyncio.sleep(0)  # the transports close in the loop's next turn

    @property
    def url(self) -> str:
        """With its login, percent-encoded."""
        login = "" if self.login is None else ":".join(quote(part, safe="") for part in self.login.split(":", 1)) + "@"
        return f"http://{login}127.0.0.1:{self.port}" if not self._tls else f"https://{login}localhost:{self.port}"

    def _opened(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections_made += 1
        self._writers.append(writer)
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections_open += 1
        try:
            if self._forward_to is not None:
                await self._forward(self._forward_to, reader, writer)
            else:
                await self._requests(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # one of both ends has left
        finally:
            self.connections_open -= 1
            writer.transport.abort()

    async def _forward(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, onward = await asyncio.open_connection("127.0.0.1", port)
        self._tasks.add(asyncio.get_running_loop().create_task(_pipe(back, writer)))
        try:
            await _pipe(reader, onward)
        finally:
            onward.transport.abort()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        onward: asyncio.StreamWriter | None = None
        try:
            while True:
                asked = _read(await reader.readuntil(b"\r\n\r\n"))
                self.asked.append(asked)
                body = await reader.readexactly(int(asked.headers.get("content-length", 0)))
                if (refusal := self._refusal(asked)) is not None:
                    writer.write(refusal)
                    continue
                method, where, _ = asked.line.split(" ")
                parts = urlsplit(f"//{where}" if method == "CONNECT" else where)
                if onward is None:
                    back, onward = await asyncio.open_connection(
                        "127.0.0.1", self._hosts.get(parts.hostname or "", parts.port or 0)
                    )
                    piping = asyncio.get_running_loop().create_task(_pipe(back, writer))
                    self._tasks.add(piping)
                    if method == "CONNECT":
                        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                        await _pipe(reader, onward)
                        return
                own = ("proxy-authorization", "host")
                lines = [f"{method} {parts.path} HTTP/1.1", f"Host: {parts.netloc}"]
                lines += [f"{name}: {value}" for name, value in asked.headers.items() if name not in own]
                onward.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        finally:
            if onward is not None:
                onward.transport.abort()

    def _refusal(self, asked: Asked) -> bytes | None:
        if self.answer is not None:
            return self.answer
        token = base64.b64encode((self.login or "").encode()).decode()
        if self.login is not None and asked.headers.get("proxy-authorization") != f"Basic {token}":
            return (
                b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n"
            )
        return None


def _read(head: bytes) -> Asked:
    line, *rest = head.decode().rstrip("\r\n").split("\r\n")
    fields = (field.partition(":") for field in rest)
    return Asked(line, {name.lower(): value.strip() for name, _, value in fields})


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.close()
    except ConnectionError:
        writer.transport.abort()
