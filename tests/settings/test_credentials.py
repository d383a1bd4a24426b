"""Keys and headers of providers and callers."""

from __future__ import annotations

import hashlib

import pytest

from tests.settings.writing import VALID, changed, load_text, problem

URL = "http://127.0.0.1:9/v1"


def test_a_provider_on_https_needs_a_key() -> None:
    found = problem(changed((URL, "https://h/v1")))
    assert (found.path, found.line) == ("providers.p.api_key", 6)
    assert "auth: none" in found.message


@pytest.mark.parametrize("provider", [URL, "https://h/v1\n    auth: none", "https://h/v1\n    api_key: k"])
def test_a_provider_on_http_or_with_auth_none_needs_no_key(provider: str) -> None:
    assert load_text(changed((URL, provider))).targets[0].credential.name == "default"


@pytest.mark.parametrize(
    ("keys", "path"),
    [
        ("api_key: k\n    credentials: [{name: a, api_key: k}]", "providers.p.credentials"),
        ("api_key: k\n    auth: none", "providers.p.api_key"),
        ("credentials: [{name: a}]", "providers.p.credentials[0].api_key"),
        ("credentials: [{name: 'a;', api_key: k}]", "providers.p.credentials[0].name"),
        ('api_key: "a b"', "providers.p.api_key"),
        ('api_key: "ab\\n"', "providers.p.api_key"),
        ("api_key: é", "providers.p.api_key"),
        ("credentials: [{name: a, api_key: ''}]", "providers.p.credentials[0].api_key"),
    ],
)
def test_keys_that_contradict_or_cannot_be_sent(keys: str, path: str) -> None:
    assert problem(changed((URL, f"https://h/v1\n    {keys}"))).path == path


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("Host: x", "'host'"),
        ("transfer-encoding: x", "'transfer-encoding'"),
        ("Authorization: x", "under api_key"),
        ("Connection: x", "'connection'"),
        ("'a b': x", "not the name of a header"),
        ('a: "x\\r\\ny"', "line break"),
        ('a: "x\\0"', "control character"),
        ("a: €", "Latin-1"),
        ("a: x, A: y", "twice"),
    ],
)
def test_headers_that_may_not_be_set(header: str, words: str) -> None:
    found = problem(changed((URL, f"{URL}\n    headers: {{{header}}}")))
    assert found.path.startswith("providers.p.headers.")
    assert words in found.message


def test_other_headers_are_kept_in_order() -> None:
    settings = load_text(changed((URL, f"{URL}\n    headers: {{X-B: é, api-key: k}}")))
    assert settings.targets[0].provider.headers == (("X-B", "é"), ("api-key", "k"))


@pytest.mark.parametrize(
    ("callers", "path"),
    [
        ("{name: a}", "callers[0].key"),
        (f"{{name: a, key: k, key_sha256: {'0' * 64}}}", "callers[0].key_sha256"),
        ("{name: a, key_sha256: abc}", "callers[0].key_sha256"),
        ("{name: a, key: k}, {name: b, key: k}", "callers[1].key"),
        (f"{{name: a, key: k}}, {{name: b, key_sha256: {hashlib.sha256(b'k').hexdigest()}}}", "callers[1].key_sha256"),
        ("{name: a, key: 'a b'}", "callers[0].key"),
    ],
)
def test_callers_need_one_key_each(callers: str, path: str) -> None:
    assert problem(VALID + f"callers: [{callers}]\n").path == path


def test_callers_are_kept_by_digest() -> None:
    digest = hashlib.sha256(b"k").digest()
    settings = load_text(
        VALID + f"callers: [{{name: a, key: k}}, {{name: b, key_sha256: {'0' * 64}, priority: batch}}]\n"
    )
    assert [caller.key_sha256 for caller in settings.callers] == [digest, bytes(32)]
    assert settings.callers[1].priority == "batch"
    assert settings.callers[0].routes is None
