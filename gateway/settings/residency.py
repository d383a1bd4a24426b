"""Where requests may go: rules that leave a route without any target are found at load, not by a caller."""

from __future__ import annotations

from collections.abc import Iterable

from gateway.policy import GatewayPolicy
from gateway.settings.nodes import Listing, Mapping, Text, key_mark
from gateway.settings.problems import Findings, Path


def check_residency(root: Mapping, findings: Findings) -> None:
    """Note every residency rule under which no target of a route may see a request."""
    regions = _target_regions(root)
    routes = {path[-1]: (path, route) for path, route in root.mappings("routes")}
    for path, route in routes.values():
        allowed = _names(route, "residency")
        if allowed is not None and _none_in(route, regions, allowed):
            _note(root, findings, (*path, "residency"), "no target of the route runs in these regions")
    for path, caller in root.mappings("callers"):
        allowed = _names(caller, "residency")
        if allowed is None:
            continue
        for name in _names(caller, "routes") or routes:
            if name not in routes:
                continue
            _, route = routes[name]
            both = allowed & (_names(route, "residency") or allowed)
            if _none_in(route, regions, both):
                message = f"no target of the route {name!r} runs in regions that this caller allows"
                _note(root, findings, (*path, "residency"), message)


def _note(root: Mapping, findings: Findings, path: Path, message: str) -> None:
    findings.add(key_mark(root, path), path, f"{message}: add a region, or a target")


def _none_in(route: Mapping, regions: dict[str, str], allowed: set[str]) -> bool:
    found = [regions[name] for name in _names(route, "targets") or () if name in regions]
    return bool(found) and not any(region in allowed for region in found)


def _target_regions(root: Mapping) -> dict[str, str]:
    gateway = root.mapping("gateway")
    written = gateway.text("region") if gateway is not None else None
    own = written.value if written is not None else str(GatewayPolicy.model_fields["region"].default)
    found = {}
    for path, target in root.mappings("targets"):
        region = target.text("region")
        found[str(path[-1])] = own if region is None else region.value
    return found


def _names(node: Mapping, key: str) -> set[str] | None:
    """The texts of a list, or None where there is none (or it is broken, which is said elsewhere)."""
    listing = node.get(key)
    items: Iterable[object] = listing.items if isinstance(listing, Listing) else ()
    names = {item.value for item in items if isinstance(item, Text)}
    return names or None
