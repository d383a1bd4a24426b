"""What every test has: the event loop that the product runs on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import uvloop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """uvloop, as `serve` has it: it differs from asyncio's own loop just where connections break."""
    return {"uvloop": uvloop.new_event_loop}
