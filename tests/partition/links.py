"""How processes of three places reach each other, and how that is cut: in network namespaces, or through proxies."""

from __future__ import annotations

from typing import Literal, Protocol

Place = Literal["west", "east", "third"]
"""Two regions, and where the authority is."""

Server = Literal["redis-west", "redis-east", "etcd"]

PLACE_OF: dict[Server, Place] = {"redis-west": "west", "redis-east": "east", "etcd": "third"}


class Links(Protocol):
    """`kind` names the tier, for tables."""

    @property
    def kind(self) -> str: ...

    def run_in(self, place: Place) -> list[str]:
        """What stands before a command that is to run there."""
        ...

    def bind(self, place: Place) -> str:
        """The address at which servers of a place listen."""
        ...

    async def reach(self, viewer: Place, server: Server, port: int) -> tuple[str, int]:
        """Address and port under which `viewer` reaches a server that listens at `port`."""
        ...

    async def cut(self, sender: Place, receiver: Place) -> None:
        """What `sender` sends does not get to `receiver` any more; the other direction stays."""
        ...

    async def cut_store(self, place: Place) -> None:
        """Gateways of a place do not get through to the store beside them."""
        ...

    async def heal(self) -> None:
        """Take all cuts back."""
        ...

    async def close(self) -> None: ...


async def part(links: Links, one: Place, other: Place) -> None:
    """Cut both directions."""
    await links.cut(one, other)
    await links.cut(other, one)
