"""Metrics of the connections to providers."""

from __future__ import annotations

import asyncio

from prometheus_client import CollectorRegistry

from gateway.upstream_metrics import UpstreamMetrics
from tests.fakes.behaviours import answer, close, gate
from tests.fakes.upstream import Upstream
from tests.gateway.wire import until
from tests.lab import Lab, config, lab


def registry(g: Lab) -> CollectorRegistry:
    made = CollectorRegistry()
    engine = g.service.engine
    made.register(UpstreamMetrics(lambda: {name: one.transport for name, one in engine.providers.items()}))
    return made


def seen(of: CollectorRegistry, name: str, **labels: str) -> float:
    value = of.get_sample_value(f"stanchion_upstream_{name}", labels)
    assert value is not None, name
    return value


async def test_H03_each_series_is_there_with_zero_from_the_start() -> None:
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s})) as g:
        metrics = registry(g)
        for provider in ("p", "s"):
            assert seen(metrics, "connections", provider=provider, state="in_use") == 0
            assert seen(metrics, "connections", provider=provider, state="idle") == 0
            assert seen(metrics, "waiting", provider=provider) == 0
            assert seen(metrics, "resent_total", provider=provider) == 0
            assert seen(metrics, "stale_lookups_total", provider=provider) == 0


async def test_connections_are_counted_as_they_are_now() -> None:
    go = asyncio.Event()
    limits = {"max_connections": 2, "pool_wait": "60s"}
    async with Upstream("p", default=gate(go, answer())) as p, lab(config({"p": p}, provider_p=limits)) as g:
        metrics = registry(g)
        asked = [asyncio.create_task(g.chat()) for _ in range(3)]
        await until(lambda: seen(metrics, "waiting", provider="p") == 1)
        assert seen(metrics, "connections", provider="p", state="in_use") == 2
        assert seen(metrics, "connections", provider="p", state="idle") == 0
        go.set()
        await asyncio.gather(*asked)
        assert seen(metrics, "waiting", provider="p") == 0
        assert seen(metrics, "connections", provider="p", state="in_use") == 0
        assert seen(metrics, "connections", provider="p", state="idle") == 2
        p.close_idle()
        await until(lambda: seen(metrics, "connections", provider="p", state="idle") == 0)


async def test_counts_never_go_down_when_a_transport_is_replaced() -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        p.script(answer(), close(), answer())
        await g.chat()
        await g.chat()
        assert await g.metric("stanchion_upstream_resent_total", provider="p") == 1
        before = g.service.engine.providers["p"].transport
        assert (await g.reload(config({"p": p}, provider_p={"max_connections": 3}))).status == 200
        assert g.service.engine.providers["p"].transport is not before
        assert await g.metric("stanchion_upstream_resent_total", provider="p") == 1
        p.script(answer(), close(), answer())
        await g.chat()
        await g.chat()
        assert await g.metric("stanchion_upstream_resent_total", provider="p") == 2


async def test_what_is_sent_once_more_is_counted() -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        metrics = registry(g)
        p.script(answer(), close(), answer())
        await g.chat()
        assert (await g.chat()).trail == ["p class=success"]
        assert seen(metrics, "resent_total", provider="p") == 1
