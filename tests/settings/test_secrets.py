"""Keys do not show up in problems or in the settings' own texts."""

from __future__ import annotations

import pytest

from gateway.policy import SettingsFile
from gateway.settings.problems import SettingsError
from tests.settings.writing import VALID, changed, load_text, problems

CANARY = "sk-canary-8f3e"

FULL = changed(
    (
        "http://127.0.0.1:9/v1",
        'https://h/v1\n    credentials: [{name: a, api_key: "${K}"}]\n    headers: {x-token: "${K}"}',
    ),
    ("listen:", 'admin_token: "${K}"\n  listen:'),
    ("version: 1", 'version: 1\ncallers: [{name: c, key: "${K}"}]'),
)


def test_I04_settings_and_policies_do_not_show_keys() -> None:
    settings = load_text(FULL, {"K": CANARY})
    assert settings.targets[0].credential.api_key == CANARY
    assert CANARY not in repr(settings)
    assert CANARY not in repr(settings.callers[0])
    assert CANARY not in repr(settings.targets[0].provider)


def test_I04_the_file_model_does_not_show_keys() -> None:
    provider = {"dialect": "openai", "base_url": "https://h", "api_key": CANARY, "headers": {"a": CANARY}}
    file = SettingsFile.model_validate(
        {
            "version": "1",
            "callers": [{"name": "c", "key": CANARY}],
            "gateway": {"admin_token": CANARY},
            "providers": {"p": provider},
            "targets": {"t": {"provider": "p", "model": "m"}},
            "routes": {"r": {"targets": ["t"]}},
        }
    )
    assert CANARY not in repr(file)
    assert CANARY not in str(file)


@pytest.mark.parametrize(
    "line",
    [
        "region: {}",
        "max_body: {}",
        "drain: {}",
        "tls: {{cert: {}, key: {}}}",
        "log: {{level: {}}}",
        "log: {{format: {}}}",
        "log: {}",
        "admin_tokn: {}",
    ],
)
def test_I04_a_variable_in_the_wrong_place_of_the_gateway_is_not_shown(line: str) -> None:
    text = changed(("gateway:\n", "gateway:\n  " + line.format(*['"${K}"'] * 2) + "\n")) + "regions: {local: {}}\n"
    _assert_silent(text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("provider: p", "provider: {}"),
        ("model: m", "model: m\n    credential: {}"),
        ("model: m", "model: m\n    context_window: {}"),
        ("model: m", "model: m\n    request_limit: {}"),
        ("model: m", "model: m\n    capabilities: [{}]"),
        ("model: m", "model: m\n    breaker: {{failure_ratio: {}}}"),
        ("[gpt-eu, gpt-us]", "[gpt-eu, {}]"),
        ("[gpt-eu, gpt-us]", "[gpt-eu]\n    deadline: {}"),
        ("[gpt-eu, gpt-us]", "[gpt-eu]\n    stream: {{commit: {}}}"),
        ("dialect: openai", "dialect: {}"),
        ("127.0.0.1:8080", "{}"),
        ("http://127.0.0.1:9/v1", "{}"),
        ("version: 1", "version: {}"),
        ("version: 1", "version: 1\ncallers: [{{name: a, key_sha256: {}}}]"),
        ("version: 1", "version: 1\ncallers: [{{name: a, key: k, routes: [{}]}}]"),
        ("version: 1", "version: 1\ncallers: [{{name: {}, key: k}}, {{name: {}, key: l}}]"),
        ("version: 1", "version: 1\ncallers: [{{name: a, key: {}}}, {{name: b, key: {}}}]"),
    ],
)
def test_I04_a_variable_in_the_wrong_place_is_not_shown(old: str, new: str) -> None:
    _assert_silent(changed((old, new.format(*['"${K}"'] * 2))))


@pytest.mark.parametrize(
    "key",
    [
        f"[{CANARY}]",
        f"{{{CANARY}}}",
        f"{{{CANARY}: 1, {CANARY}: 2}}",
        f"*{CANARY}",
        f"&{CANARY} x",
        f"!{CANARY}",
        f"!!{CANARY} x",
        f"%{CANARY}",
        f"'{CANARY}",
        f'"{CANARY}',
        f'"\\{CANARY}"',
        f"@{CANARY}",
        f"{CANARY}: x: y",
        f"'{CANARY} x'",
        f'"{CANARY}\\n"',
        f"{CANARY}${{",
        f"{CANARY}${{X",
        f"[{CANARY}",
        f"| {CANARY}",
        f"{CANARY}é",
        f"{CANARY}\n    api_key: {CANARY}",
        f"{CANARY}\n    base_url: http://u:{CANARY}@h/v1",
        f"{CANARY}\n  q: {{dialect: openai, base_url: 'http://u:{CANARY}@h℀/v1'}}",
        f"{CANARY}\n  q: {{dialect: openai, base_url: 'http://u:{CANARY}@h/v1'}}",
        f"{CANARY}\n  q: {{dialect: openai, base_url: 'http://h/v1?key={CANARY}'}}",
        f'{CANARY}\n    headers: {{Authorization: {CANARY}, x: "{CANARY}\\n", y: {{{CANARY}}}}}',
        f"{CANARY}\n   {CANARY}",
        f"{CANARY}\n    apikey:{CANARY}",
        f"{CANARY}\n    auth: none",
    ],
)
def test_I04_a_key_that_is_written_wrongly_is_not_shown(key: str) -> None:
    _assert_silent(changed(("dialect: openai", f"api_key: {key}\n    dialect: openai")))


def test_I04_the_error_itself_shows_no_more_than_its_problems() -> None:
    with pytest.raises(SettingsError) as caught:
        load_text(changed(("127.0.0.1:8080", '"${K}"')), {"K": CANARY})
    assert CANARY not in repr(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert str(caught.value) == "\n".join(map(str, caught.value.problems))


def _assert_silent(text: str) -> None:
    for each in problems(text, {"K": CANARY}):
        assert CANARY not in str(each)
        assert CANARY not in repr(each)
        assert each.message


def test_the_valid_file_is_valid() -> None:
    assert load_text(VALID).routes[0].name == "support"
