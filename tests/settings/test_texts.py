"""Names stay the texts that were written."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.settings.writing import VALID, changed, load_text, problem

PLAIN_WORDS = [
    "no",
    "on",
    "yes",
    "off",
    "true",
    "False",
    "null",
    "~",
    "1.10",
    "0123",
    "0x1f",
    "1e3",
    "1:30",
    "2020-01-01",
]


@pytest.mark.parametrize("word", PLAIN_WORDS)
def test_I03_names_come_out_as_written(word: str) -> None:
    text = changed(("model: m", f"model: {word}\n    region: {word}")) + f"regions:\n  {word}:\n  local: {{}}\n"
    settings = load_text(text)
    assert settings.targets[0].model == word
    assert settings.targets[0].region == word
    assert settings.regions == (word, "local")


@pytest.mark.parametrize("word", PLAIN_WORDS)
def test_I03_keys_and_callers_come_out_as_written(word: str) -> None:
    settings = load_text(
        changed(("support:", f"{word}:")) + f"callers: [{{name: {word}, key: {word}, routes: [{word}]}}]\n"
    )
    assert settings.routes[0].name == word
    assert settings.callers[0].name == word
    assert settings.callers[0].may_use(word)


@pytest.mark.parametrize("written", ['"30"', "30", "1:30", "30 s", "-1s", "1e3s"])
def test_I03_a_timeout_without_a_unit_is_refused(written: str) -> None:
    found = problem(VALID + f"    timeouts:\n      idle: {written}\n")
    assert (found.line, found.path) == (20, "routes.support.timeouts.idle")
    assert "write a number and a unit" in found.message


def test_I03_a_quoted_duration_is_a_duration() -> None:
    settings = load_text(VALID + '    timeouts: {idle: "90s", total: 2m}\n')
    assert settings.routes[0].stops[0].timeouts.idle == 90.0
    assert settings.routes[0].stops[0].timeouts.total == 120.0


@pytest.mark.parametrize("written", ["false", '"false"', "no", "off"])
def test_I03_a_false_where_no_flag_is_served_never_becomes_true(written: str) -> None:
    assert problem(VALID + f"    drop_params: {written}\n").path == "routes.support.drop_params"


@pytest.mark.parametrize("regions", ["{eu-west: {}, local: {}}", "{eu-west: , local: }", "{eu-west, local}"])
def test_I03_a_region_needs_no_body(regions: str) -> None:
    assert load_text(VALID + f"regions: {regions}\n").regions == ("eu-west", "local")


@given(name=st.text(st.characters(codec="utf-8"), min_size=1).filter(lambda s: s.isprintable() and "$" not in s))
def test_I03_any_quoted_model_name_comes_out_as_written(name: str) -> None:
    quoted = json.dumps(name, ensure_ascii=True)
    if any(ord(character) > 0xFFFF for character in name):  # JSON writes these as surrogates, YAML does not know them
        quoted = "'" + name.replace("'", "''") + "'"
    settings = load_text(changed(("model: m", f"model: {quoted}")))
    assert settings.targets[0].model == name
