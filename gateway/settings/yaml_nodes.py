"""YAML to nodes: every scalar stays the text that was written, every node knows its place.

Built from the parser's events instead of its objects, so that no resolver turns `no` into false or `1.10` into
1.1, and so that depth, aliases and tags are decided here. Nothing that the parser says is passed on: its messages
and snippets quote the file, and what they quote may be a key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NoReturn

import yaml

from gateway.settings.nodes import Broken, Empty, Entry, Listing, Mapping, Node, Text
from gateway.settings.problems import Findings, Mark, Path

DEEPEST = 20
"""Levels of nesting that are read; the format itself has five."""

_SYNTAX: tuple[tuple[str, str], ...] = (
    (r"cannot start any token", "no value can start with this character: put the value in quotes"),
    (
        r"mapping values are not allowed",
        "a ': ' stands where none can: check the indentation, or put the value in quotes",
    ),
    (r"could not find expected ':'", "a ':' is missing: write KEY: VALUE, with a blank after the colon"),
    (
        r"expected <block end>|expected the node content",
        "the indentation does not fit the lines above: line the keys up",
    ),
    (
        r"expected ',' or",
        "a list or mapping in brackets does not go on or end here: check commas, brackets and quotes",
    ),
    (r"unexpected end of stream", "a quote is opened and never closed: close it"),
    (
        r"escape character|escape sequence",
        "an unknown escape with a backslash: use single quotes, or double the backslash",
    ),
    (r"undefined alias", "an alias (*) of nothing: put the value in quotes if the star belongs to it"),
    (r"document start", "the settings end here and more text follows: remove it, or check its indentation"),
)
_OTHER_SYNTAX = "this is not YAML: check the quotes, brackets and indentation here and in the line before"
_VARIABLE_IN_BRACKETS = 'within { } and [ ], a value with a variable needs quotes: write "${NAME}"'
_ALIAS = "anchors (&) and aliases (*) are not read here: write the value out, or quote it if it starts so"
_TAG = "tags (!) are not read here, every value is text: remove it, or quote the value if the sign belongs to it"
_DEEP = f"nested more than {DEEPEST} levels deep, which no setting is: check the brackets and the indentation"


class _Unreadable(Exception):
    """Reading ends here: nothing that follows can be known."""


def parse(text: str, findings: Findings) -> Mapping | None:
    """The file's one mapping. None if it cannot be known; then `findings` says why."""
    try:
        loader = yaml.SafeLoader(text)
    except yaml.reader.ReaderError as error:
        message = "a control character that YAML does not allow: remove it, or write it as an escape"
        findings.add(_mark_of(text, error.position), (), message)
        return None
    try:
        return _Builder(loader, findings).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        message = _syntax_message(error.problem or "", text, mark.index if mark else 0)
        findings.add(_mark(mark) if mark else Mark(1, 1), (), message)
    except (ValueError, OverflowError):  # the scanner's chr() and int() of what an escape or a directive says
        findings.add(
            Mark(loader.line + 1, loader.column + 1),
            (),
            "a number in an escape or a directive is out of range: correct it",
        )
    except _Unreadable:
        pass
    return None


class _Builder:
    """Turns one stream of events into nodes."""

    def __init__(self, loader: yaml.SafeLoader, findings: Findings) -> None:
        self._events: Iterator[yaml.Event] = iter(loader.get_event, None)
        self._findings = findings

    def document(self) -> Mapping | None:
        next(self._events)  # the stream's start
        start = next(self._events)
        if isinstance(start, yaml.StreamEndEvent):
            self._stop(
                Mark(1, 1),
                "the file holds no settings: write at least version, providers, targets and routes",
            )
        root = self._node(next(self._events), ())
        next(self._events)  # the document's end
        after = next(self._events)
        if not isinstance(after, yaml.StreamEndEvent):
            self._stop(
                _mark(after.start_mark),
                "a second document starts here: one file holds one, remove the line ---",
            )
        if isinstance(root, Mapping):
            return root
        if not isinstance(root, Broken):
            self._findings.add(root.mark, (), "the settings are keys and values: start with the line version: 1")
        return None

    def _node(self, event: yaml.Event, path: Path) -> Node:
        mark = _mark(event.start_mark)
        if len(path) > DEEPEST:
            self._stop(mark, _DEEP, path[:3])
        if isinstance(event, yaml.AliasEvent):
            self._findings.add(mark, path, _ALIAS)
            return Broken(mark)
        if getattr(event, "anchor", None) is not None:
            self._findings.add(mark, path, _ALIAS)
        if getattr(event, "tag", None) is not None:
            self._findings.add(mark, path, _TAG)
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(mark, path)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._listing(mark, path)
        return self._scalar(event, mark, path)

    def _scalar(self, event: yaml.Event, mark: Mark, path: Path) -> Node:
        assert isinstance(event, yaml.ScalarEvent)  # noqa: S101 - the parser knows no other event here
        if event.value == "" and event.style is None:
            return Empty(mark)
        if not is_unicode(event.value):
            self._findings.add(
                mark, path, "an escape writes half a character (a surrogate): write the character itself"
            )
            return Broken(mark)
        return Text(event.value, mark)

    def _listing(self, mark: Mark, path: Path) -> Listing:
        items: list[Node] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            items.append(self._node(event, (*path, len(items))))
        return Listing(tuple(items), mark)

    def _mapping(self, mark: Mark, path: Path) -> Mapping:
        entries: dict[str, Entry] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key_mark = _mark(event.start_mark)
            key = self._key(event, path)
            value = self._node(next(self._events), (*path, "?" if key is None else key))
            if key is None:
                continue
            if key in entries:
                first = entries[key].mark.line
                message = f"the key stands twice, first in line {first}: keep one of them"
                self._findings.add(key_mark, (*path, key), message)
            else:
                entries[key] = Entry(key_mark, value)
        return Mapping(entries, mark)

    def _key(self, event: yaml.Event, path: Path) -> str | None:
        """The key's text, None for what cannot be a key."""
        key = self._node(event, path)
        message = None
        if not isinstance(key, Text):
            message = (
                None if isinstance(key, Broken) else f"a key has to be a text, but {_KINDS[type(key)]} stands here"
            )
        elif key.value == "<<":
            message = "merge keys (<<) are not read here: write the keys out"
        elif "${" in key.value:
            message = "variables are filled into values only, not into keys: write the key out"
        else:
            return key.value
        if message is not None:
            self._findings.add(key.mark, path, message)
        return None

    def _stop(self, mark: Mark, message: str, path: Path = ()) -> NoReturn:
        self._findings.add(mark, path, message)
        raise _Unreadable


_KINDS: dict[type[Node], str] = {Empty: "nothing", Listing: "a list", Mapping: "a mapping"}


def is_unicode(text: str) -> bool:
    """Whether the text can be written as UTF-8, that is, holds no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _mark(mark: Any) -> Mark:
    return Mark(mark.line + 1, mark.column + 1)


def _mark_of(text: str, position: int) -> Mark:
    before = text[:position]
    return Mark(before.count("\n") + 1, position - (before.rfind("\n") + 1) + 1)


def _syntax_message(problem: str, text: str, index: int) -> str:
    if text[index : index + 1] == "{" and text[index - 1 : index] == "$":
        return _VARIABLE_IN_BRACKETS
    return next((message for pattern, message in _SYNTAX if re.search(pattern, problem)), _OTHER_SYNTAX)
