"""A shard's store in one region, and what a promotion does to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Protocol

from regions.topology import NodeSpec
from regions.views import NodeView, Replication
from sessions.errors import SessionsError
from sessions.tail import Lost, PromotableStore
from stanchion.faults import place_of


class Node(Protocol):
    """One store. `store` takes writes and answers reads; the rest is for keepers and promotions."""

    @property
    def spec(self) -> NodeSpec: ...

    @property
    def store(self) -> PromotableStore: ...

    async def replication(self) -> Replication:
        """Raises StoreUnavailable."""

    async def promote(self) -> None:
        """Make it a primary; one already is left as it is. Raises NodeError."""

    async def follow(self, other: NodeSpec) -> None:
        """Have it follow another region's store, giving up what it holds. Raises NodeError."""

    def confirm(self, replicas: int) -> None:
        """From the next write on so many replicas have to confirm, 0 for none."""

    def tail(self, above_gseq: int) -> AsyncIterator[Lost]:
        """All that was written behind `above_gseq`."""

    async def forget_connections(self) -> None:
        """Close idle connections: the next command finds the store anew."""

    async def close(self) -> None: ...


async def look(node: Node, now: Callable[[], float]) -> NodeView:
    """The node as it is now; an error is part of the view."""
    asked_at = now()
    try:
        fence = await node.store.fence()
        replication = await node.replication()
    except SessionsError as error:
        return NodeView(node.spec.region, asked_at, now(), error=str(error))
    except Exception as error:  # noqa: BLE001 - a fault must not end the looking: the view says where it is
        said = f"a fault: {type(error).__name__} at {place_of(error)}"
        return NodeView(node.spec.region, asked_at, now(), error=said)
    return NodeView(node.spec.region, asked_at, now(), fence, replication)
