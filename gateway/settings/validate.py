"""Nodes against the models: each finding of pydantic gets its place in the file and plain words."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ValidationError

from gateway.policy import CallerPolicy, SettingsFile
from gateway.settings.nodes import (
    Broken,
    Listing,
    Mapping,
    Node,
    Text,
    find,
    key_mark,
    shown_kind,
    value_mark,
)
from gateway.settings.problems import Findings, Path
from llm.commit import FORMS
from llm.policy import RoutePolicy, TargetPolicy
from quota.policy import QuotaPolicy

UNSERVED: dict[type[BaseModel], frozenset[str]] = {
    SettingsFile: frozenset({"objectives", "quota"}),
    RoutePolicy: frozenset({"strict", "turns"}),
    TargetPolicy: frozenset({"embedding_model"}),
    CallerPolicy: frozenset({"quota"}),
    QuotaPolicy: frozenset({"max_wait"}),
}
"""Keys of the file format that this version does not act on."""

_UNSERVED_DIALECTS = frozenset({"openai-responses", "anthropic", "gemini"})

_OTHER_WORDS = {
    "fallback": "targets",
    "fallbacks": "targets",
    "models": "targets",
    "retries": "retry",
    "max_retries": "retry",
    "timeout": "timeouts",
    "url": "base_url",
    "api_base": "base_url",
    "type": "dialect",
    "keys": "credentials",
    "token": "admin_token",
    "rpm": "requests_per_minute",
    "tpm": "tokens_per_minute",
}
"""What other gateways call these keys: a hint for those who come from there."""


def validate(root: Mapping, findings: Findings) -> SettingsFile | None:
    """The file as its model; None, and the reasons in `findings`, if it does not fit.

    Nothing is said about values that are `Broken`.
    """
    try:
        return SettingsFile.model_validate(_plain(root))
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
    for detail in details:
        path: Path = detail["loc"]
        if any(isinstance(find(root, path[:depth]), Broken) for depth in range(1, len(path) + 1)):
            continue
        if detail["type"] == "too_short" and _holds_some(find(root, path)):
            continue  # what it holds is wrong, which is said there
        on_key = detail["type"] in ("missing", "extra_forbidden")
        mark = key_mark(root, path) if on_key else value_mark(root, path)
        message = _sentence(detail["type"], detail.get("ctx", {}), detail["msg"], path, root)
        findings.add(mark, path, message)
    return None


def near(word: str, known: Iterable[str]) -> str:
    """` (did you mean 'x'?)` if one of `known` is close to `word`, else nothing."""
    close = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _plain(node: Node) -> Any:
    match node:
        case Mapping():
            return {key: _plain(entry.value) for key, entry in node.entries.items()}
        case Listing():
            return [_plain(item) for item in node.items]
        case Text():
            return node.value
    return None


def _sentence(kind: str, context: dict[str, Any], fallback: str, path: Path, root: Mapping) -> str:
    node = find(root, path)
    match kind:
        case "missing":
            return _missing(path)
        case "extra_forbidden":
            return _unknown_key(path)
        case "string_type":
            return f"a single text is needed, but {_found(node)} stands here: write one value"
        case "tuple_type":
            return f"a list is needed, but {_found(node)} stands here: write [A, B], or one line '- A' for each"
        case "dict_type" | "model_type" | "model_attributes_type":
            return f"keys are needed beneath this one, but {_found(node)} stands here: {_keys_of(path)}"
        case "literal_error":
            return _not_one_of(path, node)
        case "value_error":
            return _value_error(context["error"], path, node)
        case "too_short":
            return f"at least {context['min_length']} is needed here: add one"
        case "string_too_short":
            return "an empty text stands here: write a value"
        case "string_pattern_mismatch":
            return f"the value does not have the form that is needed, {context['pattern']}: correct it"
        case "greater_than":
            return f"the value has to be more than {context['gt']:g}"
        case "greater_than_equal":
            return f"the value has to be {context['ge']:g} or more"
        case "less_than":
            return f"the value has to be less than {context['lt']:g}"
        case "less_than_equal":
            return f"the value has to be {context['le']:g} or less"
    return f"the value does not fit here ({fallback}): correct it"


def _missing(path: Path) -> str:
    model = _model_at(path[:-1])
    field = model.model_fields.get(str(path[-1])) if model else None
    hint = f" ({field.description.rstrip('.')})" if field is not None and field.description else ""
    return f"the key {path[-1]!r} is missing: write it{hint}"


def _unknown_key(path: Path) -> str:
    key, model = str(path[-1]), _model_at(path[:-1])
    if model is None:
        return f"the key {key!r} is not known here: remove it"
    if key in UNSERVED.get(model, ()):
        return f"this version does not serve {key!r} and would silently ignore it: remove it"
    known = set(model.model_fields)
    words = known | {word for word, meant in _OTHER_WORDS.items() if meant in known}
    close = difflib.get_close_matches(key, sorted(words), n=1, cutoff=0.6)
    if close:
        meant = close[0] if close[0] in known else _OTHER_WORDS[close[0]]
        return f"the key {key!r} is not known here: did you mean {meant!r}?"
    return f"the key {key!r} is not known here: {_keys_of(path[:-1])}"


def _keys_of(path: Path) -> str:
    model = _model_at(path)
    if model is None:
        return "write one line NAME: VALUE for each"
    if not model.model_fields:
        return "it takes no keys, remove it"
    return "use " + ", ".join(model.model_fields)


def _not_one_of(path: Path, node: Node | None) -> str:
    allowed = _choices(path)
    if not isinstance(node, Text):
        return f"a single text is needed, but {_found(node)} stands here: write {_either(allowed)}"
    if path[-1] == "dialect" and node.value in _UNSERVED_DIALECTS:
        return f"this version does not serve the dialect {node.value!r}: write {_either(allowed)}"
    hint = near(node.value, allowed) if not node.variables else ""
    return f"{node.shown()} is not known here: write {_either(allowed)}{hint}"


def _value_error(error: Exception, path: Path, node: Node | None) -> str:
    if path[-1] == "commit":
        return f"the value is not a way to commit: write {FORMS}"
    if not isinstance(node, Text):
        return f"a single value is needed, but {_found(node)} stands here: write one value"
    if "int_max_str_digits" in str(error):
        return "the number has thousands of digits: write the one that is meant"
    message = str(error).replace(repr(node.value), node.shown())
    if node.variables and node.value and node.value in message.replace(node.shown(), ""):
        return f"{node.shown()} does not fit here: set the variable again"
    return message


def _holds_some(node: Node | None) -> bool:
    return bool(isinstance(node, Listing) and node.items) or bool(isinstance(node, Mapping) and node.entries)


def _found(node: Node | None) -> str:
    return shown_kind(node) if node is not None else "nothing"


def _either(words: Iterable[str]) -> str:
    return " or ".join(words)


def _model_at(path: Path) -> type[BaseModel] | None:
    """The model whose keys stand at `path`."""
    annotation = _annotation_at(path)
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def _choices(path: Path) -> tuple[str, ...]:
    annotation = _annotation_at(path)
    return typing.get_args(annotation) if typing.get_origin(annotation) is typing.Literal else ()


def _annotation_at(path: Path) -> Any:
    annotation: Any = SettingsFile
    for part in path:
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            field = annotation.model_fields.get(str(part))
            annotation = _without_none(field.annotation) if field is not None else None
        else:  # dict[str, X] and tuple[X, ...]: what stands inside
            inner = [a for a in typing.get_args(annotation) if a is not Ellipsis]
            annotation = _without_none(inner[-1]) if inner else None
    return annotation


def _without_none(annotation: Any) -> Any:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return next(a for a in typing.get_args(annotation) if a is not type(None))
    return annotation
