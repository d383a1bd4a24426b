"""Variables of the environment in values: `${VAR}`, `${VAR:-default}`, and `$$` for a literal dollar.

What is filled in is final: it is read neither for further variables nor as YAML.
"""

from __future__ import annotations

import re
from collections.abc import Mapping as Environ

from gateway.settings.nodes import Broken, Empty, Entry, Listing, Mapping, Node, Text, key_mark
from gateway.settings.problems import Findings, Path
from gateway.settings.yaml_nodes import is_unicode

_TOKEN = re.compile(r"\$\$|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-((?:\$\$|[^}$]|\$(?!\{))*+))?\}|\$\{")


_ABSURD_NUMBER = re.compile(r"\d{200,}(?:\.\d+)?(?:ms|s|m|h|d|B|KB|MB|GB|KiB|MiB|GiB)")
"""A number that no float may hold once its unit is applied: arithmetic on it would raise."""


class VariableError(ValueError):
    """A text whose variables cannot be filled in. The message holds no value."""


def expand(text: str, environ: Environ[str, str]) -> tuple[str, tuple[str, ...]]:
    """The text with its variables filled in, and their names. Raises VariableError."""
    names: list[str] = []

    def replace(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        name, default = match[1], match[2]
        if name is None:
            raise VariableError(
                "a ${ without NAME} or NAME:-default} after it: complete it, or write $$ for a literal dollar"
            )
        names.append(name)
        return _value(name, default, environ)

    return _TOKEN.sub(replace, text), tuple(dict.fromkeys(names))


def _value(name: str, default: str | None, environ: Environ[str, str]) -> str:
    value = environ.get(name, "")
    if value:
        if not is_unicode(value):
            raise VariableError(f"the variable {name} is not UTF-8 text: set it again")
        return value
    if default is None:
        state = "empty" if name in environ else "not set"
        raise VariableError(f"the variable {name} is {state}: set it, or write ${{{name}:-default}}")
    return default.replace("$$", "$")


def fill(root: Mapping, environ: Environ[str, str], findings: Findings) -> Mapping:
    """The same tree with final texts.

    Empty values, and those whose variables fail, are noted and come out as `Broken`.
    """

    def settle(node: Node, path: Path) -> Node:
        match node:
            case Mapping():
                return fill_mapping(node, path)
            case Listing():
                return Listing(tuple(settle(item, (*path, i)) for i, item in enumerate(node.items)), node.mark)
            case Empty() if path[:1] == ("regions",) and len(path) == 2:
                return Mapping({}, node.mark)  # a region is its name
            case Empty():
                findings.add(key_mark(root, path), path, "nothing is written here: write a value, or remove the line")
                return Broken(node.mark)
            case Text():
                try:
                    value, names = expand(node.value, environ)
                except VariableError as error:
                    findings.add(node.mark, path, str(error))
                    return Broken(node.mark)
                if _ABSURD_NUMBER.fullmatch(value):
                    findings.add(node.mark, path, "the number has hundreds of digits: write the one that is meant")
                    return Broken(node.mark)
                return Text(value, node.mark, names)
        return node

    def fill_mapping(node: Mapping, path: Path) -> Mapping:
        entries = {key: Entry(e.mark, settle(e.value, (*path, key))) for key, e in node.entries.items()}
        return Mapping(entries, node.mark)

    return fill_mapping(root, ())
