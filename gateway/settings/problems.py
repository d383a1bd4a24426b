"""What is wrong with a settings file: one `Problem` per finding, and the error that carries all of them.

A message says what is wrong and what to do about it, and never holds a value that may be a secret.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

Path = tuple[str | int, ...]
"""Where something stands in the settings: keys and, for items of a list, their index."""

_LONGEST_KEY = 80
_SECRETS = frozenset(
    {
        ("providers", "api_key"),
        ("providers", "proxy"),
        ("callers", "key"),
        ("gateway", "admin_token"),
        ("gateway", "shared_state"),
        ("authority", "url"),
        ("authority", "password"),
    }
)


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding. `line` and `column` count from 1; `path` reads like `routes.support.targets[1]`."""

    file: str
    line: int
    column: int
    path: str
    message: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}"
        return f"{where}: {self.path}: {self.message}" if self.path else f"{where}: {self.message}"

    def as_dict(self) -> dict[str, str | int]:
        """The form in which the admin address and `--json` give it."""
        return asdict(self)


class SettingsError(Exception):
    """The settings cannot be used. `problems` holds every finding of the file, in the order of its lines."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        self.problems = tuple(sorted(problems, key=lambda problem: (problem.line, problem.column)))
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


@dataclass(frozen=True, slots=True, order=True)
class Mark:
    """A place in the file, counted from 1."""

    line: int
    column: int


class Findings:
    """Collects the problems of one file while its stages run."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._problems: dict[Problem, None] = {}

    def add(self, mark: Mark, path: Path, message: str) -> None:
        """Note one problem; the same one twice counts once."""
        problem = Problem(self._file, mark.line, mark.column, readable(_without_secrets(path)), message)
        self._problems[problem] = None

    def raise_any(self) -> None:
        """Raise `SettingsError` with all of them, if there are any."""
        if self._problems:
            raise SettingsError(tuple(self._problems))


def _without_secrets(path: Path) -> Path:
    """The path up to the first secret: one that stands in braces by mistake would be a part of the rest."""
    for index, part in enumerate(path):
        is_name = index == 1 and path[0] == "providers"
        if (path[0], part) in _SECRETS and not is_name:
            return path[: index + 1]
    return path[:4] if path[:1] == ("providers",) and path[2:3] == ("headers",) else path


def readable(path: Path) -> str:
    """`routes.support.targets[1]`; a key with blanks or control characters stands in quotes, escaped."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += ("." if text else "") + _readable_key(part)
    return text


def _readable_key(key: str) -> str:
    short = key if len(key) <= _LONGEST_KEY else key[:_LONGEST_KEY] + "…"
    return short if short.isprintable() and short and " " not in short else json.dumps(short)
