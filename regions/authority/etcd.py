"""An authority in etcd, over its JSON gateway (`/v3/kv/range` and `/v3/kv/txn`).

A register is a key, its revision the key's modification revision with the cluster's id: what another cluster says never fits.
Reads are linearizable, so a member without a majority answers nothing. Neither locks nor leases of etcd are used.
"""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp
import orjson

from regions.authority.base import Register, check_name, check_value
from regions.errors import AuthorityNonsense, AuthorityUnavailable, SwapConflict, SwapInDoubt

_MOST_BYTES = 16 * 1024 * 1024

_REFUSED = ("etcdserver: no leader", "etcdserver: too many requests", "etcdserver: not capable")
"""Errors with which a member refuses before anything is proposed; after every other one a swap may have been done."""


class EtcdAuthority:
    """See `regions.authority.base.Authority`. Made in a running loop.

    `endpoints`: client URLs of the members, asked in turn where one cannot be reached. `prefix` goes before the names.
    """

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        prefix: str = "",
        timeout_s: float = 2.0,
        username: str | None = None,
        password: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._endpoints = [one.rstrip("/") for one in endpoints]
        self._prefix, self._timeout_s = prefix, timeout_s
        self._user = None if username is None else {"name": username, "password": password or ""}
        self._tls = tls
        self._token = ""
        self._cluster = ""
        self._session: aiohttp.ClientSession | None = None

    @property
    def where(self) -> str:
        return f"etcd at {', '.join(self._endpoints)}"

    async def read(self, name: str) -> Register | None:
        check_name(name)
        answer = await self._ask("/v3/kv/range", {"key": _text(self._prefix + name)}, swaps=False)
        return self._registers(answer).get(name)

    async def read_all(self, prefix: str) -> Mapping[str, Register]:
        check_name(prefix)
        first = (self._prefix + prefix).encode()
        end = first[:-1] + bytes([first[-1] + 1])
        wanted = {"key": _text(first), "range_end": _text(end), "sort_order": "ASCEND", "sort_target": "KEY"}
        return self._registers(await self._ask("/v3/kv/range", wanted, swaps=False))

    async def swap(self, name: str, expected: str | None, value: bytes) -> str:
        check_name(name)
        check_value(value)
        revision = "0"
        if expected is not None:
            cluster, _, revision = expected.partition(".")
            if self._cluster and cluster != self._cluster:
                raise SwapConflict(name)
        key = _text(self._prefix + name)
        compare = {"key": key, "target": "MOD", "result": "EQUAL", "mod_revision": revision}
        put = {"request_put": {"key": key, "value": _text(value)}}
        answer = await self._ask("/v3/kv/txn", {"compare": [compare], "success": [put]}, swaps=True)
        if not answer.get("succeeded", False):
            raise SwapConflict(name)
        return f"{self._cluster}.{_number(answer['header'], 'revision')}"

    async def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _ask(self, path: str, body: Mapping[str, Any], *, swaps: bool) -> dict[str, Any]:
        """The answer of the first member that gives one."""
        if self._user is not None and not self._token:
            await self._log_in()
        try:
            return await self._any(path, body, swaps=swaps)
        except _TokenOver:
            await self._log_in()
            return await self._any(path, body, swaps=swaps)

    async def _any(self, path: str, body: Mapping[str, Any], *, swaps: bool) -> dict[str, Any]:
        failed: list[str] = []
        deadline = asyncio.get_running_loop().time() + self._timeout_s
        for endpoint in self._endpoints:
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                break
            # One that does not answer must leave time for the others; a swap that was sent is not sent again, so it may
            # take all that there is.
            try:
                return await self._one(
                    endpoint, path, body, swaps=swaps, timeout_s=left if swaps else max(left / 2, 0.1)
                )
            except AuthorityUnavailable as error:
                failed.append(str(error))
        raise AuthorityUnavailable("; ".join(failed) or f"no member of etcd answered within {self._timeout_s:g} s")

    async def _one(
        self, endpoint: str, path: str, body: Mapping[str, Any], *, swaps: bool, timeout_s: float
    ) -> dict[str, Any]:
        headers = {"Authorization": self._token} if self._token else {}
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=max(timeout_s / 2, 0.1))
        try:
            async with self._connections().post(
                endpoint + path, data=orjson.dumps(body), headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                content, status = await _bounded(response.content), response.status
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise AuthorityUnavailable(f"no connection to etcd at {endpoint} ({type(error).__name__})") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            words = f"etcd at {endpoint} did not answer ({type(error).__name__})"
            raise (SwapInDoubt if swaps else AuthorityUnavailable)(words) from error
        return self._answer(endpoint, status, content, swaps=swaps)

    def _answer(self, endpoint: str, status: int, content: bytes, *, swaps: bool) -> dict[str, Any]:
        try:
            answer = orjson.loads(content)
        except ValueError:
            answer = None
        if not isinstance(answer, dict):
            raise AuthorityNonsense(
                f"what answers at {endpoint} with status {status} is no etcd: check the authority's endpoints"
            )
        if status != 200:
            said = str(answer.get("error") or answer.get("message") or status)[:200]
            if status == 401 or "invalid auth token" in said:
                raise _TokenOver(
                    f"etcd at {endpoint} asks for a login ({said}): set the authority's username and password"
                )
            refused = not swaps or said.startswith(_REFUSED) or status in (400, 403, 404)
            raise (AuthorityUnavailable if refused else SwapInDoubt)(f"etcd at {endpoint} answered: {said}")
        header = answer.get("header")
        cluster = header.get("cluster_id") if isinstance(header, dict) else None
        if not isinstance(cluster, str):
            raise AuthorityNonsense(f"the answer of {endpoint} names no cluster: check the authority's endpoints")
        if self._cluster and cluster != self._cluster:
            raise AuthorityNonsense(
                f"{endpoint} belongs to another etcd cluster than before: an install has one; check the authority's endpoints"
            )
        self._cluster = cluster
        return answer

    def _registers(self, answer: Mapping[str, Any]) -> dict[str, Register]:
        try:
            return {
                b64decode(row["key"]).decode()[len(self._prefix) :]: Register(
                    b64decode(row.get("value", "")), f"{self._cluster}.{_number(row, 'mod_revision')}"
                )
                for row in answer.get("kvs", ())
            }
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise AuthorityNonsense(
                f"the answer of etcd cannot be read ({error}): check the authority's endpoints"
            ) from None

    async def _log_in(self) -> None:
        self._token = ""
        try:
            answer = await self._any("/v3/auth/authenticate", self._user or {}, swaps=False)
        except _TokenOver as error:
            raise AuthorityUnavailable(str(error)) from None
        self._token = str(answer.get("token", ""))

    def _connections(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(ssl=self._tls if self._tls is not None else True, limit=16)
            self._session = aiohttp.ClientSession(connector=connector, trust_env=False)
        return self._session


class _TokenOver(AuthorityUnavailable):
    """The login has run out, or there was none."""


async def _bounded(content: aiohttp.StreamReader) -> bytes:
    """All of an answer, up to a size that none has."""
    parts: list[bytes] = []
    size = 0
    async for part in content.iter_any():
        parts.append(part)
        size += len(part)
        if size > _MOST_BYTES:
            raise AuthorityNonsense(
                f"the answer of etcd is larger than {_MOST_BYTES} bytes: check the authority's endpoints"
            )
    return b"".join(parts)


def _text(value: str | bytes) -> str:
    return b64encode(value.encode() if isinstance(value, str) else value).decode()


def _number(row: Mapping[str, Any], name: str) -> str:
    """The gateway writes 64-bit numbers as texts."""
    return str(int(row[name]))
