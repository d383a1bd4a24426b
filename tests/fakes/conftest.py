"""A fake provider and a plain client of it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.fakes.upstream import Upstream


@pytest.fixture
async def p() -> AsyncIterator[Upstream]:
    async with Upstream("primary") as provider:
        yield provider


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session
