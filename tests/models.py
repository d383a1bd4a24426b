"""The two real models of the demo, for tests: `async with two_models() as models`. Mark such tests `models`."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from gateway.demo import stack
from gateway.demo.processes import ModelProcess
from gateway.demo.weights import cache_folder, fetch, own_model


@dataclass(frozen=True)
class TwoModels:
    """The running servers. `processes` can be killed and started again (on the port they had)."""

    processes: tuple[ModelProcess, ...]

    @property
    def base_urls(self) -> tuple[str, ...]:
        return tuple(process.base_url for process in self.processes)

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(process.pid for process in self.processes)


def weights() -> Path:
    """The weights, downloaded first if the cache has none."""
    return own_model(os.environ) or fetch(cache_folder(os.environ))


@asynccontextmanager
async def two_models() -> AsyncIterator[TwoModels]:
    """Two llama.cpp servers in processes of their own, ready to answer under the model name `smollm2`."""
    with tempfile.TemporaryDirectory(prefix="stanchion-models-") as folder:
        async with stack.two_models(weights(), Path(folder)) as processes:
            yield TwoModels(processes)
