"""Variables of the environment in values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.settings.interpolate import VariableError, expand
from tests.settings.writing import VALID, changed, load_text, problem, problems

KEYED = changed(("http://127.0.0.1:9/v1", 'https://h/v1\n    api_key: "${P_KEY}"'))
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)


@pytest.mark.parametrize(("environ", "state"), [({}, "not set"), ({"P_KEY": ""}, "empty")])
def test_I01_a_key_whose_variable_is_unset_or_empty_stops_the_start(environ: dict[str, str], state: str) -> None:
    found = problem(KEYED, environ)
    assert (found.path, found.line, found.column) == ("providers.p.api_key", 9, 14)
    assert f"P_KEY is {state}" in found.message


def test_I01_a_set_variable_is_used() -> None:
    settings = load_text(KEYED, {"P_KEY": "sk-1"})
    assert settings.targets[0].credential.api_key == "sk-1"


def test_I01_a_variable_within_a_text() -> None:
    text = changed(("http://127.0.0.1:9/v1", '"https://${HOST}/v1"\n    api_key: k'))
    found = problem(text, {"P_KEY": "sk-1"})
    assert found.path == "providers.p.base_url"
    assert "HOST is not set" in found.message
    assert load_text(text, {"HOST": "h"}).targets[0].provider.base_url == "https://h/v1"


def test_I01_all_unset_variables_are_named_in_one_run() -> None:
    text = KEYED.replace("model: m", "model: ${M1}", 1).replace("model: m", "model: ${M2}", 1)
    assert [each.path for each in problems(text)] == [
        "providers.p.api_key",
        "targets.gpt-eu.model",
        "targets.gpt-us.model",
    ]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("a$$b", "a$b"),
        ("$${A}", "${A}"),
        ("$$${A}", "$x"),
        ("$$$$", "$$"),
        ("a$b $ $1 $", "a$b $ $1 $"),
        ("${A}${A}", "xx"),
        ("${U:-d:-e}", "d:-e"),
        ("${U:-}", ""),
        ("${E:-d}", "d"),
        ("${A:-d}", "x"),
        ("${U:-a$$b$c}", "a$b$c"),
        ("${U:-$${x}", "${x"),
        ("${D}", "${A}$$"),
    ],
)
def test_I01_escape_default_and_literal_dollars(written: str, value: str) -> None:
    assert expand(written, {"A": "x", "E": "", "D": "${A}$$"})[0] == value


@pytest.mark.parametrize(
    "written", ["${", "${A", "${}", "${1A}", "${A B}", "${A-d}", "${A:?e}", "${U:-${A}}", "${U:-a"]
)
def test_I01_a_malformed_variable_is_refused(written: str) -> None:
    with pytest.raises(VariableError, match=r"complete it, or write \$\$"):
        expand(written, {"A": "x"})


def test_I01_no_variable_reaches_a_value_from_any_place() -> None:
    text = changed(("gpt-eu:\n", "${T}:\n"), ("[gpt-eu, gpt-us]", "[gpt-us]"))
    found = problem(text, {"T": "t"})
    assert found.path == "targets"
    assert "not into keys" in found.message


def test_I01_a_variable_in_brackets_without_quotes_gets_the_advice_to_quote() -> None:
    found = problem(changed(("provider: p\n", "breaker: {window: ${W}}\n")), {"W": "1s"})
    assert "needs quotes" in found.message
    assert (found.line, found.column) == (11, 24)


@pytest.mark.parametrize("key", ["api_key: ''", 'api_key: "${U:-}"'])
def test_I01_an_empty_key_is_refused(key: str) -> None:
    found = problem(changed(("http://127.0.0.1:9/v1", f"https://h/v1\n    {key}")))
    assert found.path == "providers.p.api_key"
    assert "empty" in found.message


def test_I01_an_empty_caller_key_is_refused() -> None:
    found = problem(VALID + 'callers: [{name: a, key: "${U:-}"}]\n')
    assert found.path == "callers[0].key"
    assert "set U" in found.message


@given(value=NAMES, before=st.sampled_from(["", "a", "$$", " "]))
def test_I01_a_value_from_the_environment_is_read_neither_for_variables_nor_as_yaml(value: str, before: str) -> None:
    text, names = expand(before + "${V}", {"V": value, "A": "not this"})
    assert text == before.replace("$$", "$") + value
    assert names == ("V",)


@given(value=st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1))
def test_I01_any_key_from_the_environment_comes_through_untouched(value: str) -> None:
    assert load_text(KEYED, {"P_KEY": value}).targets[0].credential.api_key == value


@given(text=st.text(st.sampled_from("${}:-A$ b"), max_size=30))
def test_I01_whatever_is_written_is_filled_in_or_refused(text: str) -> None:
    try:
        value, _ = expand(text, {"A": "x"})
    except VariableError:
        return
    assert value.count("${") <= text.count("$${")


def test_a_long_run_of_dollars_is_read_in_no_time() -> None:
    with pytest.raises(VariableError):
        expand("${A:-" + "$" * 50_000, {})


def test_a_value_that_is_not_unicode_is_refused() -> None:
    found = problem(KEYED, {"P_KEY": "sk-\udcff"})
    assert "P_KEY is not UTF-8" in found.message
