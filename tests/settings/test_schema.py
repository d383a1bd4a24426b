"""The generated JSON schema and the examples."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from gateway.settings import schema
from gateway.settings.load import load
from tests.settings.writing import VALID, changed

CONFIG = Path(__file__).parents[2] / "config"
EXAMPLES = sorted(CONFIG.glob("*.yaml"))


def _valid(document: Any) -> bool:
    return bool(Draft202012Validator(schema.json_schema()).is_valid(document))


def test_the_schemas_file_is_fresh() -> None:
    assert schema.main(["--check"]) == 0
    assert json.loads(schema.FILE.read_text(encoding="utf-8")) == schema.json_schema()


def test_check_tells_a_stale_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "schema.json"
    assert schema.main(["--check", "--file", str(file)]) == 1
    assert "is stale" in capsys.readouterr().err
    assert schema.main(["--file", str(file)]) == 0
    assert schema.main(["--check", "--file", str(file)]) == 0


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(schema.json_schema())


def test_there_is_an_example() -> None:
    assert CONFIG / "quickstart.yaml" in EXAMPLES


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_examples_fit_the_schema_and_name_it(example: Path) -> None:
    text = example.read_text(encoding="utf-8")
    assert text.startswith("# yaml-language-server: $schema=stanchion.schema.json\n")
    Draft202012Validator(schema.json_schema()).validate(yaml.safe_load(text))


@pytest.mark.parametrize("key", ["sk-1", "a$b${c}"])
def test_the_quick_start_loads_when_its_variable_is_set(key: str) -> None:
    settings = load(CONFIG / "quickstart.yaml", {"OPENAI_API_KEY": key})
    assert [target.name for target in settings.targets] == ["gpt", "second"]
    assert settings.targets[0].credential.api_key == key


@pytest.mark.parametrize(
    ("old", "new", "valid"),
    [
        ("version: 1", 'version: "1"', True),
        ("version: 1", "version: 2", False),
        ("model: m", "model: 1.10", True),
        ("model: m", "model: ${M}", True),
        ("model: m", "model: m\n    quota: {concurrency: 5}", True),
        ("model: m", 'model: m\n    quota: {concurrency: "${C}"}', True),
        ("model: m", "model: m\n    quota: {concurrency: many}", False),
        ("model: m", "model: m\n    quota: {max_wait: 1s}", False),
        ("model: m", "model: m\n    breaker: {failure_ratio: 0.5, window: 5s}", True),
        ("model: m", "model: m\n    breaker: {failure_ratio: 50%}", True),
        ("model: m", "model: m\n    timeouts: {idle: 30}", False),
        ("model: m", 'model: m\n    timeouts: {idle: "${IDLE:-30s}"}', True),
        ("model: m", "model: m\n    capabilities: [tools, x]", False),
        ("dialect: openai", 'dialect: "${D}"', True),
        ("dialect: openai", "dialect: gemini", False),
        ("[gpt-eu, gpt-us]", "[gpt-eu]\n    on_content_policy: gpt-us", True),
        ("[gpt-eu, gpt-us]", "[gpt-eu]\n    stream: {commit: complete}", True),
        ("[gpt-eu, gpt-us]", "[gpt-eu]\n    stream: {commit: {tokens: 50}}", True),
        ("[gpt-eu, gpt-us]", "[gpt-eu]\n    stream: {commit: {time: 2s}}", True),
        ("[gpt-eu, gpt-us]", "[gpt-eu]\n    stream: {commit: {time: 2}}", False),
        ("[gpt-eu, gpt-us]", "[gpt-eu]\n    stream: {commit: {tokens: 5, time: 2s}}", False),
        ("[gpt-eu, gpt-us]", "[gpt-eu]\n    stream: {commit: whole}", False),
        ("[gpt-eu, gpt-us]", "[gpt-eu]\n    fallbaks: []", False),
        ("version: 1", "version: 1\nregions: {a: , b: {}}", True),
        ("version: 1", "version: 1\ncallers: [{name: 0123, key: '${K}', routes: [no]}]", True),
    ],
)
def test_what_the_schema_takes(old: str, new: str, valid: bool) -> None:
    assert _valid(yaml.safe_load(changed((old, new)))) is valid


def test_defaults_are_written_with_their_unit() -> None:
    definitions = copy.deepcopy(schema.json_schema()["$defs"])
    assert definitions["BreakerPolicy"]["properties"]["window"]["default"] == "30s"
    assert definitions["HoldsPolicy"]["properties"]["quota"]["default"] == "10m"
    assert definitions["HoldsPolicy"]["properties"]["overloaded"]["default"] == "0s"
    assert definitions["GatewayPolicy"]["properties"]["max_body"]["default"] == "32MB"
    assert _valid(yaml.safe_load(VALID))
