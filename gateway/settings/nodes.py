"""The settings file as a tree of texts with their places: what the stages between YAML and models work on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gateway.settings.problems import Mark, Path

_LONGEST_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Text:
    """A scalar. `value` is the text as written, variables filled in; `variables` names those it came from."""

    value: str = field(repr=False)
    mark: Mark
    variables: tuple[str, ...] = ()

    def shown(self) -> str:
        """How messages name the value. What came from the environment, or is long, may be a secret."""
        if self.variables:
            return "the value of " + " and ".join(f"${{{name}}}" for name in self.variables)
        return repr(self.value) if len(self.value) <= _LONGEST_SHOWN else "the value"


@dataclass(frozen=True, slots=True)
class Empty:
    """A key or a list item with nothing after it."""

    mark: Mark


@dataclass(frozen=True, slots=True)
class Broken:
    """A value whose problem has been noted already: later stages say no more about it."""

    mark: Mark


@dataclass(frozen=True, slots=True)
class Listing:
    """A list."""

    items: tuple[Node, ...]
    mark: Mark


@dataclass(frozen=True, slots=True)
class Entry:
    """A key of a mapping with its value; `mark` is the key's place."""

    mark: Mark
    value: Node


@dataclass(frozen=True, slots=True)
class Mapping:
    """Keys and values in the order of the file."""

    entries: dict[str, Entry]
    mark: Mark

    def get(self, key: str) -> Node | None:
        """The value under `key`, None if the key is not written."""
        entry = self.entries.get(key)
        return entry.value if entry is not None else None

    def mapping(self, key: str) -> Mapping | None:
        """The mapping under `key`, None if there is none or it is something else."""
        value = self.get(key)
        return value if isinstance(value, Mapping) else None

    def text(self, key: str) -> Text | None:
        """The text under `key`, None if there is none or it is something else."""
        value = self.get(key)
        return value if isinstance(value, Text) else None

    def mappings(self, key: str) -> Iterator[tuple[Path, Mapping]]:
        """Each mapping that stands beneath `key`, in a list or under a name, with its path from here."""
        value = self.get(key)
        if isinstance(value, Mapping):
            for name, entry in value.entries.items():
                if isinstance(entry.value, Mapping):
                    yield (key, name), entry.value
        elif isinstance(value, Listing):
            for index, item in enumerate(value.items):
                if isinstance(item, Mapping):
                    yield (key, index), item


Node = Text | Empty | Broken | Listing | Mapping


def find(root: Node, path: Path) -> Node | None:
    """The node at `path`, None if nothing stands there."""
    node: Node | None = root
    for part in path:
        if isinstance(node, Mapping) and isinstance(part, str):
            node = node.get(part)
        elif isinstance(node, Listing) and isinstance(part, int) and part < len(node.items):
            node = node.items[part]
        else:
            return None
    return node


def key_mark(root: Node, path: Path) -> Mark:
    """The place of the key at `path`, or of the nearest thing above it that is written."""
    while path:
        parent = find(root, path[:-1])
        if isinstance(parent, Mapping) and path[-1] in parent.entries:
            return parent.entries[str(path[-1])].mark
        if isinstance(parent, Listing) and (item := find(root, path)) is not None:
            return item.mark
        path = path[:-1]
    return root.mark


def value_mark(root: Node, path: Path) -> Mark:
    """The place of a single value at `path`; of its key where the value is a mapping or not written."""
    node = find(root, path)
    return node.mark if isinstance(node, Text | Listing) else key_mark(root, path)


def shown_kind(node: Node) -> str:
    """What stands there, in words."""
    match node:
        case Mapping():
            return "a mapping"
        case Listing():
            return "a list"
        case Text():
            return "a text"
    return "nothing"
