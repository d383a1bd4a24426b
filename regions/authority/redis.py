"""An authority in a Redis of its own, for small installs: `appendfsync always`, and no replica.

What it cannot notice: that the server came back without its data while no gateway was running. Gateways that run notice, since
the data holds an identity that they have seen. So its file belongs into the backup, and etcd into larger installs.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from regions.authority.base import Register, check_name, check_value
from regions.errors import AuthorityNonsense, AuthorityUnavailable, SwapConflict, SwapInDoubt
from sessions.errors import SessionsError
from sessions.redis.link import Link, Lost, connections

_CHECKS = """
local info = redis.call('INFO', 'replication')
if not info:match('role:master') then return {'-', 'REPLICA'} end
if not info:match('connected_slaves:0%D') then return {'-', 'HAS_REPLICAS'} end
if ARGV[1] == '1' and not redis.call('INFO', 'persistence'):match('aof_enabled:1') then return {'-', 'NO_AOF'} end
local own = redis.call('GET', KEYS[1])
if not own and ARGV[2] == '' then own = ARGV[3]; redis.call('SET', KEYS[1], own) end
if ARGV[2] ~= '' and own ~= ARGV[2] then return {'-', 'OTHER_DATA'} end
"""

_READ = (
    _CHECKS
    + """
local found = {'+', own}
for i = 2, #KEYS do
  local row = redis.call('HMGET', KEYS[i], 'value', 'revision')
  if row[1] then found[#found + 1] = {KEYS[i], row[1], row[2]} end
end
return found
"""
)

_SWAP = (
    _CHECKS
    + """
local revision = redis.call('HGET', KEYS[2], 'revision') or ''
if revision ~= ARGV[4] then return {'-', 'CONFLICT'} end
local new = redis.call('INCR', KEYS[3])
redis.call('HSET', KEYS[2], 'value', ARGV[5], 'revision', new)
redis.call('ZADD', KEYS[4], 0, KEYS[2])
return {'+', own, tostring(new)}
"""
)

_REFUSALS = {
    "REPLICA": "it is a replica: name the server itself",
    "HAS_REPLICAS": "it has replicas, one of which might take its place without what it has promised: take them away",
    "NO_AOF": "it keeps no append-only file: set appendonly yes and appendfsync always",
    "OTHER_DATA": "its data is not what it was: it was emptied, or another server answers there; restore it from its file",
}


class RedisAuthority:
    """See `regions.authority.base.Authority`. Made in a running loop. Raises ValueError for a URL that cannot be read.

    `durable` False leaves out what is asked of the server's file: for a register that stands in the one store it is about.
    """

    def __init__(
        self,
        url: str,
        *,
        prefix: str = "stanchion/",
        timeout_s: float = 2.0,
        durable: bool = True,
        new_identity: Callable[[], str] = lambda: secrets.token_hex(16),
    ) -> None:
        self._link = Link(
            connections(url, timeout_s), most=16, timeout_s=timeout_s, wait_s=timeout_s, connect_timeout_s=timeout_s
        )
        self._keys = f"{{{prefix}}}"  # all in one slot
        self._durable, self._new_identity = durable, new_identity
        self._identity = ""
        self._fsync_seen = False

    @property
    def where(self) -> str:
        return "a Redis of its own" if self._durable else "the shard's own Redis"

    async def read(self, name: str) -> Register | None:
        check_name(name)
        return (await self._read([self._key(name)])).get(name)

    async def read_all(self, prefix: str) -> Mapping[str, Register]:
        check_name(prefix)
        first = self._key(prefix)
        names = await self._ask(("ZRANGEBYLEX", f"{self._keys}:names", f"[{first}", f"({first}\xff"), swaps=False)
        return await self._read([name.decode() for name in names])

    async def swap(self, name: str, expected: str | None, value: bytes) -> str:
        check_name(name)
        check_value(value)
        keys = [f"{self._keys}:identity", self._key(name), f"{self._keys}:revision", f"{self._keys}:names"]
        answer = await self._script(_SWAP, keys, [expected or "", value], swaps=True)
        if answer[1] == b"CONFLICT":
            raise SwapConflict(name)
        return str(answer[2].decode())

    async def close(self) -> None:
        await self._link.close()

    def _key(self, name: str) -> str:
        return f"{self._keys}:register:{name}"

    async def _read(self, keys: Sequence[str]) -> dict[str, Register]:
        answer = await self._script(_READ, [f"{self._keys}:identity", *keys], [], swaps=False)
        start = len(self._key(""))
        return {row[0].decode()[start:]: Register(row[1], row[2].decode()) for row in answer[2:]}

    async def _script(self, text: str, keys: list[str], args: list[str | bytes], *, swaps: bool) -> list[Any]:
        if self._durable and not self._fsync_seen:
            await self._check_fsync()
        checks = ["1" if self._durable else "0", self._identity, self._new_identity()]
        answer = await self._ask(("EVAL", text, len(keys), *keys, *checks, *args), swaps=swaps)
        if not isinstance(answer, list) or len(answer) < 2:
            raise AuthorityNonsense("the authority's Redis answers no list: check its URL")
        if answer[0] == b"-" and (why := _REFUSALS.get(answer[1].decode())) is not None:
            raise AuthorityUnavailable(f"the authority's Redis cannot be one now: {why}")
        if answer[0] == b"+":
            self._identity = answer[1].decode()
        return answer

    async def _check_fsync(self) -> None:
        """Where the server does not tell (a managed service), its operator has to know."""
        try:
            answers = await self._link.ask(("CONFIG", "GET", "appendfsync"))
        except (Lost, SessionsError) as error:
            raise AuthorityUnavailable(f"the authority's Redis cannot be asked ({error})") from error
        if isinstance(answers[0], list) and len(answers[0]) == 2 and answers[0][1] != b"always":
            raise AuthorityUnavailable(
                "the authority's Redis may forget what it has promised: set appendonly yes and appendfsync always"
            )
        self._fsync_seen = True

    async def _ask(self, command: tuple[str | bytes | int, ...], *, swaps: bool) -> Any:
        try:
            (answer,) = await self._link.ask(command)
        except Lost as error:
            await self._link.drop()
            words = f"the authority's Redis did not answer ({error})"
            raise (SwapInDoubt if swaps else AuthorityUnavailable)(words) from error
        except SessionsError as error:
            raise AuthorityUnavailable(f"no connection to the authority's Redis: {error}") from error
        if isinstance(answer, Exception):
            word = str(answer).split(" ")[0] or type(answer).__name__
            raise AuthorityUnavailable(
                f"the authority's Redis refuses ({word}): see its log and its user's rights"
            ) from answer
        return answer
