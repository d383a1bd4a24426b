"""Credentials reach the upstream that they belong to, and nobody else."""

from __future__ import annotations

import pytest

from gateway.settings.problems import SettingsError
from tests.fakes.behaviours import answer, redirect, status
from tests.fakes.exchange import Seen
from tests.fakes.upstream import Upstream
from tests.gateway.wire import chat_body
from tests.lab import config, lab, settings

CANARIES = {
    "Authorization": "Bearer canary-authorization",
    "x-api-key": "canary-x-api-key",
    "x-goog-api-key": "canary-goog",
    "api-key": "canary-api-key",
    "Cookie": "session=canary-cookie",
    "Proxy-Authorization": "Basic canary-proxy",
    "x-internal-secret": "canary-internal",
    "OpenAI-Organization": "canary-organization",
    "User-Agent": "canary-agent",
    "X-Forwarded-For": "canary-forwarded",
}
SENT = {
    "host",
    "authorization",
    "content-type",
    "content-length",
    "accept",
    "accept-encoding",
    "user-agent",
}
"""All that goes upstream."""


def assert_own(seen: Seen, key: str) -> None:
    """The provider was sent its own key and nothing of the caller's."""
    assert [value for name, value in seen.headers if name.lower() == "authorization"] == [f"Bearer {key}"]
    assert {name.lower() for name, _ in seen.headers} <= SENT
    assert "canary" not in f"{seen.path} {seen.headers} {seen.body.decode()}"


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
async def test_J01_a_each_provider_sees_its_own_key_only(stream: bool) -> None:
    async with Upstream("p", default=status(503)) as p, Upstream("s") as s, lab(config({"p": p, "s": s})) as g:
        answered = await g.chat(headers=CANARIES, stream=stream)
        assert answered.status == 200
        for seen in p.requests:
            assert_own(seen, "sk-p")
        for seen in s.requests:
            assert_own(seen, "sk-s")
        assert (p.attempts, s.attempts) == (2, 1)


async def test_J01_a_the_keys_of_one_provider_stay_apart() -> None:
    keys = {
        "api_key": None,
        "credentials": [{"name": "eu", "api_key": "sk-eu-1"}, {"name": "us", "api_key": "sk-us-1"}],
    }
    async with Upstream("p") as p:
        values = config({"p": p}, provider_p=keys)
        del values["providers"]["p"]["api_key"]
        base = {"provider": "p", "model": "m"}
        values["targets"] = {"a": {**base, "credential": "eu"}, "b": {**base, "credential": "us"}}
        values["routes"] = {"r": {"targets": ["a", "b"]}}
        p.script(status(429, "insufficient_quota"))
        async with lab(values) as g:
            assert (await g.chat()).trail == ["a class=quota_exhausted", "b class=success"]
        assert_own(p.requests[0], "sk-eu-1")
        assert_own(p.requests[1], "sk-us-1")


@pytest.mark.parametrize("key", [None, "", "   "])
async def test_J01_b_without_a_key_of_its_own_the_gateway_does_not_start(key: str | None) -> None:
    async with Upstream("p") as p:
        values = config({"p": p})
        values["providers"]["p"] |= {"api_key": key, "base_url": "https://api.example.com/v1"}
        if key is None:
            del values["providers"]["p"]["api_key"]
        with pytest.raises(SettingsError) as caught:
            settings(values)
        assert any("providers.p" in str(problem) for problem in caught.value.problems)
        assert p.requests == []


@pytest.mark.parametrize("written", [{"auth": "none"}, {}], ids=["said", "loopback"])
async def test_J01_b_a_provider_that_asks_for_no_key_gets_none(written: dict[str, str]) -> None:
    async with Upstream("p") as p:
        values = config({"p": p}, provider_p=written)
        del values["providers"]["p"]["api_key"]
        async with lab(values) as g:
            assert (await g.chat(headers=CANARIES)).status == 200
        assert p.requests[0].header("authorization") is None
        assert "canary" not in str(p.requests[0].headers)


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
async def test_J01_c_a_redirect_is_not_followed(code: int) -> None:
    async with Upstream("elsewhere") as elsewhere, Upstream("p") as p, Upstream("s") as s:
        p.default = redirect(f"{elsewhere.base_url}/chat/completions", code)
        async with lab(config({"p": p, "s": s})) as g:
            answered = await g.chat(headers=CANARIES)
            assert answered.text == "hello from s"
            assert answered.trail[0] == "p class=bad_upstream_response"
        assert elsewhere.requests == []
        assert elsewhere.connections_made == 0


async def test_J01_d_a_key_in_the_callers_url_is_not_handed_on() -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g:
        answered = await g.post("/v1/chat/completions?key=canary-url&api_key=canary-url", chat_body())
        assert answered.status == 200
        assert p.requests[0].path == "/v1/chat/completions"
        assert_own(p.requests[0], "sk-p")


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("good", [True, False], ids=["answer", "error"])
async def test_J01_the_providers_own_headers_do_not_come_back(stream: bool, good: bool) -> None:
    own = {
        "Set-Cookie": "canary-cookie=1",
        "openai-organization": "canary-org",
        "openai-project": "canary-project",
        "x-ratelimit-remaining-tokens": "canary-limit",
        "x-request-id": "canary-request",
        "cf-ray": "canary-ray",
        "Server": "canary-server",
        "Via": "canary-via",
    }
    behaviour = answer(headers=own) if good else status(400, headers=own)
    async with Upstream("p", default=behaviour) as p, lab(config({"p": p})) as g:
        answered = await g.chat(stream=stream)
        assert answered.status == (200 if good else 400)
        assert "canary" not in str(answered.headers)
        assert "set-cookie" not in answered.headers


async def test_J01_a_cookie_that_a_provider_sets_is_not_sent_back_to_it() -> None:
    async with Upstream("p", default=answer(headers={"Set-Cookie": "a=b; Path=/"})) as p, lab(config({"p": p})) as g:
        await g.chat()
        await g.chat()
        assert [seen.header("cookie") for seen in p.requests] == [None, None]


async def test_J01_settings_headers_go_to_their_provider_only() -> None:
    own = {"provider_p": {"headers": {"x-account": "of-p"}}}
    async with Upstream("p", default=status(503)) as p, Upstream("s") as s, lab(config({"p": p, "s": s}, **own)) as g:
        await g.chat()
        assert p.requests[0].header("x-account") == "of-p"
        assert s.requests[0].header("x-account") is None
