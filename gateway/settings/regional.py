"""Sessions, shards and their authority against each other and against the regions."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gateway.policy import SettingsFile
from gateway.settings.nodes import Mapping, key_mark, value_mark
from gateway.settings.problems import Findings, Path
from gateway.settings.validate import near
from regions.policy import AuthorityPolicy, SessionsPolicy, ShardPolicy
from regions.topology import DEFAULT_PLACEMENT
from sessions.redis.link import connections

_ETCD = re.compile(r"^https?://[^/@\s?#]+/?$")

LEAST_RENEWALS = 3
"""A lease has to be renewed so often before it would end, so that one renewal may be lost."""


def check_regional(root: Mapping, file: SettingsFile, findings: Findings) -> None:
    """Note everything of sessions, shards, placements and the authority that does not fit together."""
    _Regional(root, file, findings).check()


class _Regional:
    def __init__(self, root: Mapping, file: SettingsFile, findings: Findings) -> None:
        self._root, self._file, self._findings = root, file, findings
        self._sessions: SessionsPolicy = file.sessions
        self._shards = self._sessions.shards or ()
        self._used = {file.gateway.region} if file.regions is None else set(file.regions)

    def check(self) -> None:
        self._backend()
        for index, shard in enumerate(self._shards):
            self._shard(("sessions", "shards", index), shard)
        self._placements()
        if self._file.authority is not None:
            self._authority(self._file.authority)

    def _backend(self) -> None:
        if self._sessions.backend == "sqlite" and self._shards:
            self._note(("sessions", "shards"), "a SQLite file has no shards: write backend: redis, or leave them out")
        if self._sessions.backend == "redis" and not self._shards:
            self._note(("sessions", "backend"), "Redis needs at least one shard: write sessions.shards")
        names = [shard.name for shard in self._shards]
        for index, name in enumerate(names):
            if name in names[:index]:
                self._note(
                    ("sessions", "shards", index, "name"), f"the shard {name!r} stands twice: rename one of them"
                )

    def _shard(self, path: Path, shard: ShardPolicy) -> None:
        self._region(shard.home, (*path, "home"))
        if shard.home not in shard.nodes:
            self._note((*path, "nodes"), f"the shard has no store in its home {shard.home!r}: write one there")
        for region, url in shard.nodes.items():
            self._region(region, (*path, "nodes", region), key=True)
            try:
                connections(url.get_secret_value(), 1.0)
            except ValueError as error:
                self._note((*path, "nodes", region), str(error))
        if len(shard.nodes) > 1 and self._file.authority is None:
            message = (
                "a shard with stores in several regions needs a third place that says which of them is the primary: write "
                "authority, or name the store of one region only"
            )
            self._note((*path, "nodes"), message, key=True)
        if shard.replication == "sync" and len(shard.nodes) < 2:
            self._note((*path, "replication"), "sync needs a store in another region that confirms writes: add one")
        if shard.replication == "sync" and shard.rpo is not None and shard.rpo.turns:
            message = "a sync shard loses no acknowledged write: leave rpo out, or write async"
            self._note((*path, "rpo"), message, key=True)
        if shard.renew is not None and shard.renew * LEAST_RENEWALS > shard.lease:
            message = (
                f"the lease has to be renewed {LEAST_RENEWALS} times before it would end: at most {shard.lease / 3:g}s"
            )
            self._note((*path, "renew"), message)

    def _placements(self) -> None:
        known = [shard.name for shard in self._shards]
        for name, placement in self._sessions.placements.items():
            for index, shard in enumerate(placement.shards):
                if shard not in known:
                    message = f"there is no shard {shard!r}{near(shard, known)}: correct it, or add it"
                    self._note(("sessions", "placements", name, "shards", index), message)
        placements = {DEFAULT_PLACEMENT, *self._sessions.placements}
        for index, caller in enumerate(self._file.callers):
            path: Path = ("callers", index)
            if caller.placement is not None and caller.placement not in placements:
                message = f"there is no placement {caller.placement!r}{near(caller.placement, placements)}: add it"
                self._note((*path, "placement"), message)
            elif caller.residency is not None:
                self._resident(path, caller.placement or DEFAULT_PLACEMENT, caller.residency)

    def _resident(self, path: Path, placement: str, allowed: Iterable[str]) -> None:
        """A caller's sessions stay in the regions that may see its requests: the stores of their replicas too."""
        named = self._sessions.placements.get(placement)
        shards = [one for one in self._shards if named is None or one.name in named.shards]
        outside = sorted({region for one in shards for region in one.nodes} - set(allowed))
        if outside:
            message = (
                f"the placement {placement!r} of this caller keeps sessions in {outside[0]!r}, which its residency does not "
                "allow: write a placement whose shards have stores in allowed regions only"
            )
            self._note((*path, "residency"), message, key=True)

    def _authority(self, policy: AuthorityPolicy) -> None:
        needs = {"etcd": "endpoints", "redis": "url", "sqlite": "path"}
        for backend, key in needs.items():
            given = getattr(policy, key) is not None
            if backend == policy.backend and not given:
                self._note(("authority",), f"the backend {backend} needs {key}: write it", key=True)
            elif backend != policy.backend and given:
                self._note(("authority", key), f"{key} is of the backend {backend}: remove it", key=True)
        for index, endpoint in enumerate(policy.endpoints or ()):
            if _ETCD.match(endpoint) is None:
                message = "the value is not a client URL of etcd: write http://HOST:2379 or https://HOST:2379"
                self._note(("authority", "endpoints", index), message)
        if policy.url is not None:
            self._own_redis(policy.url.get_secret_value())

    def _own_redis(self, url: str) -> None:
        try:
            connections(url, 1.0)
        except ValueError:
            self._note(("authority", "url"), "the URL cannot be read: write redis://user:password@host:port/0")
        if any(url == node.get_secret_value() for shard in self._shards for node in shard.nodes.values()):
            message = "the authority's Redis is a shard's store too, and would be lost with it: name another one"
            self._note(("authority", "url"), message)

    def _region(self, region: str, path: Path, *, key: bool = False) -> None:
        if self._file.regions is not None and region not in self._used:
            message = f"there is no region {region!r}{near(region, self._used)}: correct it, or declare it"
            self._note(path, message, key=key)

    def _note(self, path: Path, message: str, *, key: bool = False) -> None:
        mark = key_mark(self._root, path) if key else value_mark(self._root, path)
        self._findings.add(mark, path, message)
