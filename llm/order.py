"""The order in which a route's targets are asked: fixed at load, apart from weights and the canary, drawn per request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from random import Random

from llm.spec import RouteSpec, Stop


class Order:
    """Draws the order for one request after another.

    Neighbours in the list that all have a weight share the place: which of them comes first is drawn by weight, and so on
    for the rest of them. A canary's target comes before all others with the probability of its share.
    """

    def __init__(self, route: RouteSpec, random: Random) -> None:
        self._random, self._canary = random, route.canary
        self._stops = route.stops
        self._groups = [tuple(group) for _, group in groupby(route.stops, key=_shares_place)]
        self._drawn = any(len(group) > 1 and _shares_place(group[0]) for group in self._groups)

    def draw(self) -> Sequence[Stop]:
        stops = self._weighted() if self._drawn else self._stops
        canary = self._canary
        if canary is None or self._random.random() >= canary.share:
            return stops
        if stops[0].target.name == canary.stop.target.name:
            return stops  # it is first anyhow: nothing to try out
        return (canary.stop, *stops)

    def _weighted(self) -> Sequence[Stop]:
        drawn: list[Stop] = []
        for group in self._groups:
            drawn += sorted(group, key=self._key, reverse=True) if _shares_place(group[0]) else group
        return drawn

    def _key(self, stop: Stop) -> float:
        """Sorting by u^(1/w) draws without replacement by weight (Efraimidis and Spirakis, 2006)."""
        weight = stop.target.weight
        return float(self._random.random() ** (1.0 / weight)) if weight else -1.0


def orders(route: RouteSpec) -> Iterator[Sequence[Stop]]:
    """Lists that hold, together, every target before every other one that may be asked after it."""
    canary = () if route.canary is None else (route.canary.stop,)
    yield (*canary, *route.stops, *route.on_content_policy)
    for shared, group in groupby(route.stops, key=_shares_place):
        if shared:
            yield tuple(group)[::-1]


def by_region(stops: Sequence[Stop], own: str) -> tuple[Stop, ...]:
    """The same model elsewhere before another model: models in the order of their first mention; of one model the targets
    in the gateway's own region first, the others as they stand."""
    models = list(dict.fromkeys(stop.target.model for stop in stops))
    return tuple(sorted(stops, key=lambda stop: (models.index(stop.target.model), stop.target.region != own)))


def _shares_place(stop: Stop) -> bool:
    return stop.target.weight is not None
