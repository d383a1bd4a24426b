"""A small server in the place of a gateway's admin address."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web


def target(name: str, **more: Any) -> dict[str, Any]:
    """One entry of the answer, healthy unless `more` says otherwise."""
    entry = {
        "name": name,
        "provider": "openai",
        "model": "gpt-main",
        "region": "eu-west",
        "credential": "default",
        "breaker": {"state": "closed", "samples": 4, "failures": 0, "retry_in_s": 0.0},
        "hold": None,
        "quota": {"requests": None, "tokens": None, "in_flight": 0, "concurrency": None},
        "last_error": None,
        "counts": {"attempts": 4, "success": 4},
    }
    return {**entry, **more}


def answer(*targets: dict[str, Any], routes: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    """A whole answer; one route over all targets unless `routes` are given."""
    names = [entry["name"] for entry in targets]
    one_route = [{"name": "support", "targets": names, "usable": len(names), "turns": {"success": 3, "rescued": 1}}]
    return {
        "version": "0.1.0",
        "region": "eu-west",
        "uptime_s": 75.0,
        "targets": list(targets),
        "routes": one_route if routes is None else routes,
    }


@asynccontextmanager
async def admin_server(reply: Any, *, token: str | None = None, status: int = 200) -> AsyncIterator[str]:
    """Serve `reply` (JSON, or text as it is) at the admin path; yields the base URL."""

    async def targets(request: web.Request) -> web.Response:
        if token is not None and request.headers.get("authorization") != f"Bearer {token}":
            return web.json_response({"error": {"message": "no"}}, status=401)
        if isinstance(reply, str):
            return web.Response(text=reply, status=status)
        return web.json_response(reply, status=status)

    app = web.Application()
    app.router.add_get("/admin/v1/targets", targets)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
