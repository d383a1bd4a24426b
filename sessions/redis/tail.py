"""The tail of a Redis store: read with plain commands, since a store that was left runs no more fenced steps."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from sessions.errors import StoreUnavailable
from sessions.model import SessionKey, StoredEvent
from sessions.redis import answers
from sessions.redis.keys import Keys, encoded, key_of
from sessions.redis.link import Command, Link
from sessions.redis.link import Lost as NoAnswer
from sessions.tail import Lost, LostCreation, LostDeletion, LostEvent, LostState

_SCAN, _PAGE = 1000, 500


async def read_tail(link: Link, keys: Keys, above_gseq: int) -> AsyncIterator[Lost]:
    """See `sessions.tail.PromotableStore.tail`. Each session is told once, whatever the scan repeats."""
    told: set[bytes] = set()
    cursor: Any = 0
    while True:
        cursor, names = await _ask(link, ("SCAN", cursor, "MATCH", f"{keys.prefix}*", "COUNT", _SCAN))
        for name in names:
            kind, _, rest = name.decode()[len(keys.prefix) :].partition(":")
            if kind not in ("meta", "gone") or name in told:
                continue
            told.add(name)
            found = _session if kind == "meta" else _deletion
            async for lost in found(link, keys, key_of(rest), above_gseq):
                yield lost
        if int(cursor) == 0:
            return


async def _session(link: Link, keys: Keys, key: SessionKey, above_gseq: int) -> AsyncIterator[Lost]:
    name = encoded(key.app, key.user, key.session)
    (created,) = await _ask(link, ("HMGET", f"{keys.prefix}meta:{name}", "created_gseq"))
    lost = await _events(link, f"{keys.prefix}events:{name}", above_gseq)
    was_created = created is not None and int(created) > above_gseq
    if was_created:
        yield LostCreation(key, int(created))
    for stored in lost:
        yield LostEvent(key, stored)
    if lost or was_created:
        state = await _ask(link, ("HGETALL", f"{keys.prefix}state:{name}"))
        yield LostState(key, answers.state(state))


async def _events(link: Link, stream: str, above_gseq: int) -> list[StoredEvent]:
    """Read from the newest on, until one that the other store has."""
    found: list[StoredEvent] = []
    last = "+"
    while True:
        page = [answers.event(entry) for entry in await _ask(link, ("XREVRANGE", stream, last, "-", "COUNT", _PAGE))]
        lost = [stored for stored in page if stored.gseq > above_gseq]
        found += lost
        if len(lost) < _PAGE:
            return found[::-1]
        last = f"({lost[-1].position}"


async def _deletion(link: Link, keys: Keys, key: SessionKey, above_gseq: int) -> AsyncIterator[Lost]:
    text = await _ask(link, ("GET", f"{keys.prefix}gone:{encoded(key.app, key.user, key.session)}"))
    parts = text.decode().split(" ") if text is not None else []
    if len(parts) == answers.GONE_PARTS and int(parts[2]) > above_gseq:  # older ones do not say their gseq
        yield LostDeletion(key, int(parts[2]), parts[0], int(parts[1]))


async def _ask(link: Link, command: Command) -> Any:
    try:
        (answer,) = await link.ask(command)
    except NoAnswer as error:
        raise StoreUnavailable(f"the store that was left did not answer ({error}): its tail is read again") from error
    if isinstance(answer, Exception):
        raise StoreUnavailable(
            f"the store that was left refuses {command[0]!r} ({type(answer).__name__}): allow its user to read stanchion:*"
        ) from answer
    return answer
