"""Names across the file: each is well formed and stands once, and what one part names, another one declares.

Works on the nodes and not on the models, so that a file with a mistake elsewhere still gets these answers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from gateway.policy import GatewayPolicy
from gateway.settings.nodes import Listing, Mapping, Node, Text, key_mark
from gateway.settings.problems import Findings, Mark, Path
from gateway.settings.validate import near

_HEADER_SAFE = re.compile(r"[A-Za-z0-9._:/@-]+")
_HEADER_SAFE_ADVICE = "this name goes into headers and metrics: use only letters A-Z a-z, digits and . _ : / @ -"


def check_references(root: Mapping, findings: Findings) -> None:
    """Note every malformed, repeated or undeclared name."""
    _Names(root, findings).check()


class _Names:
    def __init__(self, root: Mapping, findings: Findings) -> None:
        self._root = root
        self._findings = findings
        self._providers = _declared(root, "providers")
        self._targets = _declared(root, "targets")
        self._routes = _declared(root, "routes")
        self._regions = _declared(root, "regions")

    def check(self) -> None:
        self._spelling()
        self._credential_names()
        for path, target in self._root.mappings("targets"):
            self._target(path, target)
        for path, route in self._root.mappings("routes"):
            self._route(path, route)
        for path, caller in self._root.mappings("callers"):
            for at, name in _texts(caller.get("routes"), (*path, "routes")):
                self._known(name, at, self._routes, "route")
            self._residency(path, caller)
        self._repeated(((*path, "name"), caller.text("name")) for path, caller in self._root.mappings("callers"))
        self._own_region()

    def _spelling(self) -> None:
        for section in ("providers", "targets"):
            for name, mark in self._keys(section):
                if not _HEADER_SAFE.fullmatch(name):
                    self._findings.add(mark, (section, name), _HEADER_SAFE_ADVICE)
        for section in ("routes", "regions"):
            for name, mark in self._keys(section):
                self._one_word(name, mark, (section, name))
        for path, target in self._root.mappings("targets"):
            model = target.text("model")
            if model is not None and not model.value.isprintable():
                message = "the model's name holds a line break or a control character: remove it"
                self._findings.add(model.mark, (*path, "model"), message)
        for path, caller in self._root.mappings("callers"):
            name_text = caller.text("name")
            if name_text is not None and not name_text.value.isprintable():
                message = "the caller's name holds a line break or a control character: remove it"
                self._findings.add(name_text.mark, (*path, "name"), message)

    def _one_word(self, name: str, mark: Mark, path: Path) -> None:
        if not name:
            self._findings.add(mark, path, "the name is empty: write one")
        elif not name.isprintable() or any(character.isspace() for character in name):
            self._findings.add(mark, path, "the name holds a blank or a control character: write it without")

    def _credential_names(self) -> None:
        for path, provider in self._root.mappings("providers"):
            named = [((*path, *at, "name"), each.text("name")) for at, each in provider.mappings("credentials")]
            for at, name in named:
                if name is not None and name.value and not _HEADER_SAFE.fullmatch(name.value):
                    self._findings.add(name.mark, at, _HEADER_SAFE_ADVICE)
            self._repeated(named)

    def _target(self, path: Path, target: Mapping) -> None:
        provider = target.text("provider")
        if provider is not None:
            self._known(provider, (*path, "provider"), self._providers, "provider")
            self._credential(path, target, provider.value)
        region = target.text("region")
        if region is not None:
            self._region(region, (*path, "region"))

    def _credential(self, path: Path, target: Mapping, provider_name: str) -> None:
        named = target.text("credential")
        providers = self._root.mapping("providers")
        provider = providers.mapping(provider_name) if providers is not None else None
        if named is None or provider is None:
            return
        at = (*path, "credential")
        if "credentials" not in provider.entries:
            message = f"the provider {provider_name!r} names no credentials: remove this key, or write them there"
            self._findings.add(named.mark, at, message)
        elif isinstance(provider.get("credentials"), Listing):
            names = [each.text("name") for _, each in provider.mappings("credentials")]
            if None not in names:  # else one more name is meant, and which is not known
                self._known(
                    named,
                    at,
                    {name.value for name in names if name},
                    "credential",
                    f" at the provider {provider_name!r}",
                )

    def _route(self, path: Path, route: Mapping) -> None:
        for key in ("targets", "on_content_policy"):
            named = list(_texts(route.get(key), (*path, key)))
            for at, name in named:
                if self._targets is not None and name.value not in self._targets and name.value in (self._routes or ()):
                    message = f"routes list targets, {name.shown()} is a route: write that route's targets instead"
                    self._findings.add(name.mark, at, message)
                else:
                    self._known(name, at, self._targets, "target")
            self._repeated(named)
        self._canary(path, route)
        self._residency(path, route)

    def _canary(self, path: Path, route: Mapping) -> None:
        canary = route.mapping("canary")
        if canary is None:
            return
        at = (*path, "canary", "target")
        if (target := canary.text("target")) is not None:
            self._known(target, at, self._targets, "target")
        elif "target" not in canary.entries and len(list(_texts(route.get("targets"), ()))) == 1:
            message = "the route has no second target to try out: write which one"
            self._findings.add(key_mark(self._root, (*path, "canary")), at, message)

    def _residency(self, path: Path, of: Mapping) -> None:
        named = list(_texts(of.get("residency"), (*path, "residency")))
        for at, region in named:
            self._region(region, at)
        self._repeated(named)

    def _region(self, region: Text, path: Path) -> None:
        if self._regions is None:
            self._one_word(region.value, region.mark, path)
        else:
            self._known(region, path, self._regions, "region")

    def _own_region(self) -> None:
        gateway = self._root.mapping("gateway")
        if gateway is not None and "region" in gateway.entries:
            if (region := gateway.text("region")) is not None and region.value:
                self._region(region, ("gateway", "region"))
            return
        default = GatewayPolicy.model_fields["region"].default
        if self._regions is not None and default not in self._regions:
            message = f"the gateway's region is {default!r} if not written, which 'regions' does not have: write it"
            self._findings.add(key_mark(self._root, ("regions",)), ("gateway", "region"), message)

    def _known(self, name: Text, path: Path, declared: Iterable[str] | None, kind: str, at: str = "") -> None:
        if declared is None:  # the section itself is missing or broken, which has been said
            return
        known = list(declared)
        if name.value not in known:
            hint = near(name.value, known)
            self._findings.add(
                name.mark, path, f"there is no {kind} {name.shown()}{at}{hint}: correct it, or declare it"
            )

    def _repeated(self, names: Iterable[tuple[Path, Text | None]]) -> None:
        first: dict[str, Text] = {}
        for path, name in names:
            if name is None:
                continue
            if name.value in first:
                line = first[name.value].mark.line
                self._findings.add(
                    name.mark, path, f"{name.shown()} stands twice, first in line {line}: keep one of them"
                )
            else:
                first[name.value] = name

    def _keys(self, section: str) -> Iterable[tuple[str, Mark]]:
        mapping = self._root.mapping(section)
        return [(name, entry.mark) for name, entry in mapping.entries.items()] if mapping is not None else []


def _declared(root: Mapping, section: str) -> set[str] | None:
    mapping = root.mapping(section)
    return set(mapping.entries) if mapping is not None else None


def _texts(node: Node | None, path: Path) -> Iterable[tuple[Path, Text]]:
    """The texts of a list with their paths; a single text counts as a list of one."""
    if isinstance(node, Text):
        yield path, node
    elif isinstance(node, Listing):
        for index, item in enumerate(node.items):
            if isinstance(item, Text):
                yield (*path, index), item
