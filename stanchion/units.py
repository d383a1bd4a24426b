"""Units of the settings: durations, sizes and shares, written with their unit and kept as plain numbers.

The validators take the text that stands in the file (or a number, for callers in Python) and raise `ValueError` with a
sentence that says what to write instead.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BeforeValidator, WithJsonSchema

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"B": 1, "KB": 1000, "MB": 1000**2, "GB": 1000**3, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
_NUMBER = r"(\d+(?:\.\d+)?)"
_DURATION = re.compile(rf"^{_NUMBER}(ms|s|m|h|d)$")
_SIZE = re.compile(rf"^{_NUMBER}(B|KB|MB|GB|KiB|MiB|GiB)$")
_SHARE = re.compile(rf"^{_NUMBER}(%?)$")


def parse_duration(value: Any) -> float:
    """Seconds from `250ms`, `30s`, `5m`, `2h` or `30d`. The unit is required."""
    if isinstance(value, float | int) and not isinstance(value, bool):
        return float(value)
    match = _DURATION.match(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{value!r} is not a duration: write a number and a unit, such as 250ms, 30s, 5m, 2h or 30d")
    return float(match[1]) * _SECONDS[match[2]]


def parse_size(value: Any) -> int:
    """Bytes from `64KB`, `32MB`, `1GiB` or a whole number with `B`. The unit is required; KB is 1000 bytes."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.match(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"{value!r} is not a size: write a number and a unit, such as 64KB, 32MB or 1GiB")
    return int(float(match[1]) * _BYTES[match[2]])


def parse_share(value: Any) -> float:
    """A share between 0 and 1 from `1%` or `0.01`."""
    if isinstance(value, float | int) and not isinstance(value, bool):
        share = float(value)
    else:
        match = _SHARE.match(value) if isinstance(value, str) else None
        if match is None:
            raise ValueError(f"{value!r} is not a share: write a percentage such as 1% or a number such as 0.01")
        share = float(match[1]) / (100.0 if match[2] else 1.0)
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"{value!r} is not a share: it has to lie between 0 and 1 (0% and 100%)")
    return share


def parse_count(value: Any) -> int:
    """A whole number, zero or more, from its text."""
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, str) and re.fullmatch(r"\d+", value):
        number = int(value)
    else:
        raise ValueError(f"{value!r} is not a whole number: write digits only, such as 5")
    if number < 0:
        raise ValueError(f"{value!r} is below 0")
    return number


def parse_flag(value: Any) -> bool:
    """`true` or `false`, and no other word for either."""
    if isinstance(value, bool):
        return value
    if value not in ("true", "false"):
        raise ValueError(f"{value!r} is neither true nor false: write one of them")
    return bool(value == "true")


def _schema(pattern: str, *examples: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern, "examples": list(examples)})


Duration = Annotated[float, BeforeValidator(parse_duration), _schema(_DURATION.pattern, "250ms", "30s", "5m")]
Size = Annotated[int, BeforeValidator(parse_size), _schema(_SIZE.pattern, "64KB", "32MB")]
Share = Annotated[
    float,
    BeforeValidator(parse_share),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "pattern": _SHARE.pattern},
                {"type": "number", "minimum": 0, "maximum": 1},
            ]
        }
    ),
]
Flag = Annotated[bool, BeforeValidator(parse_flag), WithJsonSchema({"enum": [True, False, "true", "false"]})]
Count = Annotated[int, BeforeValidator(parse_count), WithJsonSchema({"type": "integer", "minimum": 0})]
