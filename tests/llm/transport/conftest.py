"""Both event loops: uvloop, as `serve` has it, and asyncio's own, which is used where uvloop is not to be had."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import uvloop

from llm.transport import dialer
from llm.transport.connection import Connection
from tests.llm.transport.driving import Arrivals, Tls
from tests.settings.certificates import CERTIFICATE, KEY


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.SelectorEventLoop}


@pytest.fixture
def arrivals(monkeypatch: pytest.MonkeyPatch) -> Arrivals:
    """What the client's connections have taken from the network, piece by piece."""
    seen = Arrivals()

    class Watched(Connection):
        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            seen.pieces.append(data)
            seen.size += len(data)

    monkeypatch.setattr(dialer, "Connection", Watched)
    return seen


@pytest.fixture
def tls(tmp_path: Path) -> Tls:
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    certificate.write_text(CERTIFICATE)
    key.write_text(KEY)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate, key)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.load_verify_locations(cadata=CERTIFICATE)
    return Tls(server, client)
