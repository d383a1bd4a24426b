"""The addresses of a provider's host, also while the name cannot be resolved.

Each new connection asks anew, so that a change is followed as soon as the machine's resolver tells it. A resolver that
fails is a fault of ours and not of the provider, whose last addresses most likely still hold: they serve meanwhile, as
RFC 8767 has it for caches of names.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence

from aiohappyeyeballs import AddrInfoType

LAST_GOOD_S = 600.0
"""How long the last good addresses are used from the first failure on. Longer than a resolver's restart or a provider's
mistake in its zone usually takes; after it, what is wrong should be seen."""

FAILED_S = 2.0
"""How long a failed lookup is not repeated while there are addresses to go on with; a resolver that fails may take its
time over it. Five seconds are the most that a failure may be remembered."""

PATIENCE_S = 1.0
"""How long a lookup is waited for at most where there are addresses to go on with; and no more than a third of the limit on
connecting, so that there is time left to connect."""

Lookup = Callable[..., Awaitable[Sequence[AddrInfoType]]]
"""As the event loop's `getaddrinfo`: host, port and `type`."""


class Resolver:
    """Looks up one host. `now` is in seconds; `stale` counts the answers from memory.

    There is never more than one lookup under way: each takes a thread of the few that all hosts share.
    """

    def __init__(self, host: str, port: int, getaddrinfo: Lookup, now: Callable[[], float]) -> None:
        self._host, self._port = host, port
        self._getaddrinfo, self._now = getaddrinfo, now
        self._good: Sequence[AddrInfoType] = ()
        self._failing_since: float | None = None
        self._failed_at = 0.0
        self._lookup: asyncio.Task[Sequence[AddrInfoType] | Exception] | None = None
        self._waiting = 0
        self._closed = False
        self.stale = 0

    async def addresses(self, limit_s: float) -> Sequence[AddrInfoType]:
        """Where the host is now; `limit_s` is what the caller has for the whole connection.

        Raises what the lookup raised (OSError, UnicodeError) if there is no last good answer.
        """
        good = self._usable()
        if good and self._failing_since is not None and self._now() - self._failed_at < FAILED_S:
            self.stale += 1
            return good
        found = await self._look_up(min(PATIENCE_S, limit_s / 3) if good else None)
        if isinstance(found, Exception):
            if not good:
                raise found
            self.stale += 1
            return good
        return found

    def close(self) -> None:
        """Forget a lookup that nobody waits for; the others go on."""
        self._closed = True
        if self._lookup is not None and not self._waiting:
            self._lookup.cancel()
            self._lookup = None

    def _usable(self) -> Sequence[AddrInfoType]:
        since = self._failing_since
        return self._good if since is None or self._now() - since < LAST_GOOD_S else ()

    async def _look_up(self, limit_s: float | None) -> Sequence[AddrInfoType] | Exception:
        """What the lookup under way finds; one that takes longer than `limit_s` counts as failed, and goes on."""
        if self._lookup is None or self._lookup.done():
            self._lookup = asyncio.get_running_loop().create_task(self._ask())
        lookup = self._lookup
        self._waiting += 1
        try:
            await asyncio.wait({lookup}, timeout=limit_s)
        finally:
            self._waiting -= 1
            if self._closed:
                self.close()
        if lookup.done():
            return lookup.result()
        self._failed()
        return TimeoutError()

    async def _ask(self) -> Sequence[AddrInfoType] | Exception:
        try:
            found = await self._getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
            if not found:
                raise socket.gaierror(socket.EAI_NONAME, "no address")
        except (OSError, UnicodeError) as error:
            self._failed()
            return error
        self._good, self._failing_since = found, None
        return found

    def _failed(self) -> None:
        self._failed_at = self._now()
        if self._failing_since is None:
            self._failing_since = self._failed_at
