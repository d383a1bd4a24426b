"""Places as network namespaces of this machine, joined by a bridge in one of their own. Needs root, `ip` and `iptables`."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from tests.partition.links import PLACE_OF, Place, Server

_ADDRESSES: Mapping[str, str] = {"west": "10.77.0.1", "east": "10.77.0.2", "third": "10.77.0.3", "control": "10.77.0.4"}


def missing() -> str:
    """What this machine lacks for namespaces; empty if they can be made."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for name in ("ip", "iptables"):
        if shutil.which(name) is None:
            return f"{name} is not installed"
    probe = f"stn{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        return f"network namespaces cannot be made: {made.stderr.strip()}"
    cut = subprocess.run(
        ["ip", "netns", "exec", probe, "iptables", "-w", "-A", "INPUT", "-j", "DROP"],
        capture_output=True,
        text=True,
        check=False,
    )
    subprocess.run(["ip", "netns", "del", probe], check=True)
    return f"iptables does not work in a namespace: {cut.stderr.strip()}" if cut.returncode != 0 else ""


class Namespaces:
    """Made by entering, and taken away on leaving. Who controls has to run in `control`, which no cut touches."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def control(self) -> list[str]:
        """What stands before a command that controls."""
        return ["ip", "netns", "exec", self.of("control")]

    def of(self, place: str) -> str:
        return f"{self._name}-{place}"

    def __enter__(self) -> Self:
        hub = self.of("hub")
        self._ip("netns", "add", hub)
        self._ip("-n", hub, "link", "add", "br0", "type", "bridge")
        self._ip("-n", hub, "link", "set", "br0", "up")
        for place, address in _ADDRESSES.items():
            space = self.of(place)
            self._ip("netns", "add", space)
            self._ip("link", "add", place, "netns", hub, "type", "veth", "peer", "name", "eth0", "netns", space)
            self._ip("-n", hub, "link", "set", place, "master", "br0", "up")
            self._ip("-n", space, "addr", "add", f"{address}/24", "dev", "eth0")
            self._ip("-n", space, "link", "set", "eth0", "up")
            self._ip("-n", space, "link", "set", "lo", "up")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for place in (*_ADDRESSES, "hub"):
            subprocess.run(["ip", "netns", "del", self.of(place)], check=False, capture_output=True)

    def _ip(self, *words: str) -> None:
        subprocess.run(["ip", *words], check=True)


class NamespaceLinks:
    """See `tests.partition.links.Links`; over the namespaces of a name that somebody else has made."""

    kind = "network namespaces"

    def __init__(self, spaces: Namespaces) -> None:
        self._spaces = spaces

    def run_in(self, place: Place) -> list[str]:
        return ["ip", "netns", "exec", self._spaces.of(place)]

    def bind(self, place: Place) -> str:
        return _ADDRESSES[place]

    async def reach(self, viewer: Place, server: Server, port: int) -> tuple[str, int]:
        return _ADDRESSES[PLACE_OF[server]], port

    async def cut(self, sender: Place, receiver: Place) -> None:
        self._iptables(receiver, "-A", "INPUT", "-s", _ADDRESSES[sender], "-j", "DROP")

    async def cut_store(self, place: Place) -> None:
        own = _ADDRESSES[place]
        self._iptables(place, "-A", "INPUT", "-s", own, "-d", own, "-p", "tcp", "--dport", "6379", "-j", "DROP")

    async def heal(self) -> None:
        for place in ("west", "east", "third"):
            self._iptables(place, "-F", "INPUT")

    async def close(self) -> None:
        """The namespaces belong to whoever made them."""

    def _iptables(self, place: Place | str, *words: str) -> None:
        subprocess.run(["ip", "netns", "exec", self._spaces.of(place), "iptables", "-w", *words], check=True)
