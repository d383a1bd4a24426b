"""Calling the library in the server: as a Redis Function, or as a script where functions are not allowed."""

from __future__ import annotations

from hashlib import sha1
from importlib import resources
from typing import Any

from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
)

from sessions.errors import ReadOnlyStore, StoreUnavailable
from sessions.redis.link import Command, Link, Lost

SOURCE = resources.files("sessions.redis").joinpath("library.lua").read_text(encoding="utf-8")

_REFUSED_UNTOUCHED = (
    "MISCONF",
    "NOREPLICAS",
    "BUSY",
    "MOVED",
    "ASK",
    "CROSSSLOT",
    "NOAUTH",
    "TRYAGAIN",
    "ERR unknown command",
)
"""Beginnings of answers with which a server refuses before it runs anything."""


class Script:
    """One version of the library in one server.

    Its name has a digest of its text, so that gateways of two versions work on one server, and a loaded library is the right
    one. Functions are stored with the data and go to replicas; scripts of EVAL do not, and may be forgotten at any time. Both
    are loaded again when the server does not know them, once for each call.
    """

    def __init__(self, link: Link, source: str = SOURCE) -> None:
        digest = sha1(source.encode(), usedforsecurity=False).hexdigest()[:12]
        self._link = link
        self._name = f"stanchion_sessions_{digest}"
        self._library = (
            f"#!lua name={self._name}\n{source}\n"
            f"redis.register_function('{self._name}', run)\n"
            f"redis.register_function{{function_name='{self._name}_ro', callback=run, flags={{'no-writes'}}}}\n"
        )
        self._script = f"{source}\nreturn run(KEYS, ARGV)\n"
        self._sha = sha1(self._script.encode(), usedforsecurity=False).hexdigest()
        self._functions: bool | None = None  # not known before the first call

    @property
    def uses_functions(self) -> bool | None:
        """Whether the server takes functions; None before the first call."""
        return self._functions

    async def call(
        self, keys: list[str], args: list[str | bytes | int], *, writes: bool, wait: Command | None = None
    ) -> tuple[Any, int | None]:
        """Run one operation; its answer, and that of `wait`, a WAIT sent along on the same connection.

        Raises StoreUnavailable or ReadOnlyStore where nothing was run, and Lost where it may have been.
        """
        if self._functions is None:
            await self._load()
        tail = (len(keys), *keys, *args)
        call: Command = ("FCALL", self._name if writes else f"{self._name}_ro", *tail)
        if not self._functions:
            call = ("EVALSHA", self._sha, *tail)
        answer, waited = await self._send(call, wait)
        if isinstance(answer, NoScriptError):
            answer, waited = await self._send(("EVAL", self._script, *tail), wait)
        elif isinstance(answer, ResponseError) and "Function not found" in str(answer):
            try:
                await self._load()
            except ReadOnlyStore:  # a replica that has not got it yet; reading needs none
                if writes:
                    raise
                call = ("EVAL", self._script, *tail)
            answer, waited = await self._send(call, wait)
        if isinstance(answer, Exception):
            raise _translated(answer) from answer
        return answer, waited

    async def _send(self, call: Command, wait: Command | None) -> tuple[Any, int | None]:
        answers = await self._link.ask(call) if wait is None else await self._link.ask(call, wait)
        waited = answers[1] if len(answers) > 1 and isinstance(answers[1], int) else None
        return answers[0], waited

    async def _load(self) -> None:
        """Put the library into the server, if it takes libraries."""
        try:
            (answer,) = await self._link.ask(("FUNCTION", "LOAD", self._library))
        except Lost as error:  # loading is no write of anyone's
            raise StoreUnavailable(f"the sessions' Redis did not answer ({error}): try again") from error
        if isinstance(answer, ReadOnlyError):  # a replica: the library comes to it from its primary
            if self._functions is not None:
                raise ReadOnlyStore
            self._functions = True
            return
        if isinstance(answer, BusyLoadingError | AuthenticationError):
            raise _translated(answer)
        text = str(answer)
        if not isinstance(answer, Exception) or "already exists" in text:
            self._functions = True
        elif isinstance(answer, NoPermissionError) or "unknown command" in text or "not allowed" in text:
            self._functions = False
        else:
            raise _translated(answer)


def _translated(error: Exception) -> Exception:
    """The server's error as one of ours; Lost for one that does not show whether anything was written."""
    text = str(error)
    match error:
        case ReadOnlyError():
            return ReadOnlyStore()
        case OutOfMemoryError():
            return StoreUnavailable("the sessions' Redis is out of memory: give it more, or delete sessions")
        case NoPermissionError():
            return StoreUnavailable(
                "the user of the sessions' Redis may not do this: allow FUNCTION and FCALL, or EVAL and EVALSHA, with INFO, "
                "TIME and the keys stanchion:*"
            )
        case BusyLoadingError() | MasterDownError() | ClusterDownError() | AuthenticationError():
            return StoreUnavailable(f"the sessions' Redis cannot answer now ({type(error).__name__}): try again later")
        case _ if text.startswith(_REFUSED_UNTOUCHED):
            return StoreUnavailable(f"the sessions' Redis refuses commands ({text.split()[0]}): see its log")
        case _:
            return Lost(f"the server answered an error, {text.split()[0] if text else type(error).__name__}")
