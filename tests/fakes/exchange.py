"""The exchange of the scripted provider, which the drills ship with, under the name that tests know it by."""

from __future__ import annotations

from gateway.drill.provider.exchange import (
    ClientGone,
    Encoder,
    Encoding,
    Exchange,
    Headers,
    Seen,
    encoded,
    reset_transport,
)

__all__ = [
    "ClientGone",
    "Encoder",
    "Encoding",
    "Exchange",
    "Headers",
    "Seen",
    "encoded",
    "reset_transport",
]
