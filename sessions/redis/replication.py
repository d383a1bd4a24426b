"""A Redis server's replication: what it says of it, and the two commands that change it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from redis.exceptions import NoPermissionError, ResponseError

from sessions.errors import InDoubt, StoreUnavailable
from sessions.redis.link import Command, Link, Lost


@dataclass(frozen=True, slots=True)
class ReplicationStatus:
    """`offset`: of the replication stream. `upstream`: `host:port` of whom a replica follows, empty at a primary, and
    `link_up` whether it does now. `replicas`: addresses of those that follow. `aof`: writes go to a file. `empty`: no keys."""

    role: Literal["primary", "replica"]
    identity: str
    offset: int
    upstream: str
    link_up: bool
    replicas: tuple[str, ...]
    aof: bool
    empty: bool


class RedisReplication:
    """Asks and commands over the store's own connections."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def status(self) -> ReplicationStatus:
        """Raises StoreUnavailable."""
        return read_info(await self._info())

    async def promote(self) -> None:
        """Make it a primary. Raises StoreUnavailable where it refuses, InDoubt where no answer came; again does no harm."""
        await self._command(("REPLICAOF", "NO", "ONE"))

    async def follow(self, host: str, port: int) -> None:
        """Have it follow another server, giving up what it holds. Raises as `promote`."""
        await self._command(("REPLICAOF", host, port))

    async def _info(self) -> str:
        try:
            answers = await self._link.ask(*(("INFO", part) for part in _SECTIONS))
        except Lost as error:
            raise StoreUnavailable(f"the sessions' Redis did not answer ({error}): try again") from error
        for answer in answers:
            if isinstance(answer, Exception):
                raise StoreUnavailable(
                    f"the sessions' Redis does not tell of its replication ({_word(answer)}): allow its user INFO"
                ) from answer
        return "\n".join(answer.decode("utf-8", "replace") for answer in answers)

    async def _command(self, command: Command) -> None:
        try:
            (answer,) = await self._link.ask(command)
        except Lost as error:
            raise InDoubt(None, str(error)) from error
        if isinstance(answer, NoPermissionError) or (
            isinstance(answer, ResponseError) and "unknown command" in str(answer)
        ):
            raise StoreUnavailable(
                "the sessions' Redis forbids REPLICAOF: allow its user the command, or name the service's own step as the "
                "shard's promote.command"
            )
        if isinstance(answer, Exception):
            raise StoreUnavailable(f"the sessions' Redis refuses REPLICAOF ({_word(answer)}): see its log") from answer


_SECTIONS = ("server", "replication", "persistence", "keyspace")


def read_info(text: str) -> ReplicationStatus:
    """From the text of INFO. Raises StoreUnavailable where it has no replication section, as some services leave it out."""
    rows = dict(line.strip().split(":", 1) for line in text.splitlines() if ":" in line)
    if "role" not in rows or "run_id" not in rows:
        raise StoreUnavailable("the sessions' Redis says nothing of its replication in INFO: it cannot be promoted")
    primary = rows["role"] == "master"
    replicas = (rows[name] for name in sorted(rows) if name.startswith("slave") and name[5:].isdigit())
    return ReplicationStatus(
        role="primary" if primary else "replica",
        identity=f"{rows['run_id']}:{rows.get('master_replid', '')}",
        offset=int(rows.get("master_repl_offset", 0)),
        upstream="" if primary else f"{rows.get('master_host', '')}:{rows.get('master_port', '')}",
        link_up=primary or rows.get("master_link_status") == "up",
        replicas=tuple(",".join(row.split(",")[:2]) for row in replicas),
        aof=rows.get("aof_enabled") == "1",
        empty=not any(name.startswith("db") and name[2:].isdigit() for name in rows),
    )


def _word(error: Exception) -> str:
    text = str(error)
    return text.split()[0] if text else type(error).__name__
