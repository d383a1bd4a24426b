"""The JSON schema of the settings file, generated from the models: what an editor completes and underlines.

`python -m gateway.settings.schema` writes `config/stanchion.schema.json`; `--check` only compares, and exits
with 1 if the file is stale. An editor reads YAML with the usual types, so the schema takes a number where a name
is written as one, and a variable wherever a value stands. What one part says about another (names, keys) only
loading it tells.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from gateway.policy import SettingsFile

Schema = dict[str, Any]

FILE = Path(__file__).parents[2] / "config" / "stanchion.schema.json"

_VARIABLE: Schema = {"type": "string", "pattern": r"\$\{"}
_UNITS: tuple[tuple[str, str, tuple[tuple[str, int], ...]], ...] = (
    ("ms|s|m", "ms", (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))),
    ("B|KB|MB", "B", (("GB", 10**9), ("MB", 10**6), ("KB", 10**3), ("B", 1))),
)


def json_schema() -> Schema:
    """The schema, as JSON Schema 2020-12."""
    generated = SettingsFile.model_json_schema()
    definitions = {name: _converted(body) for name, body in sorted(generated.pop("$defs").items())}
    schema = _converted(generated)
    properties = schema["properties"]
    properties["version"] = {
        "anyOf": [{"enum": ["1", 1]}, _VARIABLE],
        "description": "The file format's version.",
    }
    # A region needs no body, and one target needs no list.
    regions = properties["regions"]
    regions["additionalProperties"] = {"anyOf": [regions["additionalProperties"], {"type": "null"}]}
    content_policy = definitions["RoutePolicy"]["properties"]["on_content_policy"]
    definitions["RoutePolicy"]["properties"]["on_content_policy"] = {
        "anyOf": [{key: content_policy.pop(key) for key in ("type", "items")}, {"type": "string"}],
        **content_policy,
    }
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Stanchion settings"}
    return {**head, **{key: schema[key] for key in schema if key != "title"}, "$defs": definitions}


def _converted(schema: Schema) -> Schema:
    """One model's or field's schema, in the form that fits a file instead of the models' values."""
    if schema.get("type") == "object":
        return _object(schema)
    schema = {key: value for key, value in schema.items() if key != "title"}
    outer: Schema = {key: schema.pop(key) for key in ("description", "examples") if key in schema}
    default = schema.pop("default", None)
    choices = [_converted(choice) for choice in schema.pop("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) == 1:
        schema = {**choices[0], **{k: v for k, v in schema.items() if k != "type"}}
    elif choices:
        schema = {**schema, "anyOf": _flat(choices)}
    elif schema.get("type") == "array":
        schema = {key: _converted(value) if key == "items" else value for key, value in schema.items()}
    elif "$ref" not in schema:
        schema = _scalar(schema)
    if default is not None and default != []:
        schema["default"] = _written(default, schema)
    return {**schema, **outer}


def _object(schema: Schema) -> Schema:
    converted = {key: value for key, value in schema.items() if key not in ("title", "default")}
    if "properties" in converted:
        converted["properties"] = {name: _converted(body) for name, body in converted["properties"].items()}
    if isinstance(converted.get("additionalProperties"), dict):
        converted["additionalProperties"] = _converted(converted["additionalProperties"])
    return converted


def _scalar(schema: Schema) -> Schema:
    kind = schema.get("type")
    if kind == "integer":
        return {"anyOf": [schema, {"type": "string", "pattern": r"^\d+$"}, _VARIABLE]}
    if kind == "string" and not schema.keys() & {"pattern", "enum", "const", "format"}:
        return {
            **schema,
            "type": ["string", "number", "boolean"],
        }  # a name such as 1.10 or no is text to the gateway
    if kind == "string" and "pattern" in schema:  # limits of the number in it mean nothing to its text
        schema = {key: value for key, value in schema.items() if not key.endswith(("inimum", "aximum"))}
    if schema.get("format") == "password":
        return {"type": "string", "minLength": 1}
    return {"anyOf": [schema, _VARIABLE]}


def _flat(choices: list[Schema]) -> list[Schema]:
    flat: list[Schema] = []
    for choice in choices:
        for each in choice.get("anyOf", [choice]):
            if each not in flat:
                flat.append(each)
    return flat


def _written(default: Any, schema: Schema) -> Any:
    """A default as it would be written in the file, with its unit."""
    patterns = " ".join(str(choice.get("pattern", "")) for choice in schema.get("anyOf", ()))
    for sign, smallest, units in _UNITS:
        if sign in patterns:
            amount = round(default * 1000) if smallest == "ms" else default
            unit, size = next(((u, s) for u, s in units if amount % s == 0 and amount), ("s", 1))
            return f"{amount // size}{unit}"
    if "(%?)" in patterns:
        return f"{default * 100:g}%"
    return default["kind"] if isinstance(default, dict) and "kind" in default else default


def _text() -> str:
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Write the schema's file, or with `--check` compare it. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m gateway.settings.schema", description=json_schema.__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if the file is stale")
    parser.add_argument("--file", type=Path, default=FILE, help="the schema's file (default: %(default)s)")
    options = parser.parse_args(arguments)
    file: Path = options.file
    if not options.check:
        file.write_text(_text(), encoding="utf-8")
        return 0
    if file.is_file() and file.read_text(encoding="utf-8") == _text():
        return 0
    sys.stderr.write(f"{file} is stale: run python -m gateway.settings.schema\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
