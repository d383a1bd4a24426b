"""The official OpenAI SDK in front of the gateway: what an agent that was written for it sees."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam
from pydantic import BaseModel

from tests.fakes import chat
from tests.fakes.behaviours import (
    Behaviour,
    answer,
    cut,
    gate,
    html,
    raw,
    redirect,
    rst,
    silent,
    sse,
    status,
    wait,
)
from tests.fakes.clock import ManualClock
from tests.fakes.upstream import Upstream
from tests.gateway.wire import idle
from tests.lab import Lab, config, lab

HI: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hi"}]
WEATHER: ChatCompletionToolParam = {
    "type": "function",
    "function": {
        "name": "weather",
        "strict": True,
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
CALLS = (("call_1", "weather", '{"city":"Łódź"}'), ("call_2", "weather", '{"city":"東京"}'))
NO_RETRY = {"retry": {"attempts": 0}}


@asynccontextmanager
async def sdk(g: Lab, key: str = "unused", **options: Any) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(base_url=f"{g.url}/v1", api_key=key, **options) as client:
        yield client


async def test_a_plain_answer() -> None:
    async with Upstream("p", strict=True) as p, lab(config({"p": p})) as g, sdk(g) as client:
        raw_answer = await client.chat.completions.with_raw_response.create(
            model="r", messages=HI, temperature=0.5, max_completion_tokens=20, extra_body={"own": {"a": [1, 2.50]}}
        )
        completion = raw_answer.parse()
        assert completion.choices[0].message.content == "hello from p"
        assert completion.choices[0].finish_reason == "stop"
        assert completion.model == "p-model"
        assert completion.usage is not None
        assert (completion.usage.prompt_tokens, completion.usage.completion_tokens) == (12, 3)
        assert raw_answer.headers["x-stanchion-target"] == "p"
        assert completion._request_id == raw_answer.headers["x-stanchion-request-id"]
        sent = p.requests[0].json
        assert sent["own"] == {"a": [1, 2.5]}
        assert {key for key in sent if key != "model"} == {"messages", "temperature", "max_completion_tokens", "own"}


async def test_a_streamed_answer() -> None:
    async with Upstream("p", strict=True) as p, lab(config({"p": p})) as g, sdk(g) as client:
        stream = await client.chat.completions.create(model="r", messages=HI, stream=True)
        chunks = [chunk async for chunk in stream]
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "hello from p"
        assert chunks[-1].choices[0].finish_reason == "stop"
        assert all(chunk.choices and chunk.usage is None for chunk in chunks)  # not asked for
        await idle(g)
        assert g.turns[-1]["output_tokens"] == 3  # but counted


async def test_usage_comes_in_the_last_chunk_when_asked_for() -> None:
    async with Upstream("p", strict=True) as p, lab(config({"p": p})) as g, sdk(g) as client:
        stream = await client.chat.completions.create(
            model="r", messages=HI, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
        usages = [chunk.usage for chunk in chunks if chunk.usage is not None]
        assert [usage.total_tokens for usage in usages] == [15]
        assert chunks[-1].usage is not None
        assert chunks[-1].choices == []


async def test_tool_calls_plain_and_back() -> None:
    async with Upstream("p", strict=True) as p, lab(config({"p": p})) as g, sdk(g) as client:
        p.script(answer(tool_calls=CALLS), answer("warm in both"))
        first = await client.chat.completions.create(model="r", messages=HI, tools=[WEATHER])
        message = first.choices[0].message
        assert first.choices[0].finish_reason == "tool_calls"
        assert message.content is None
        assert message.tool_calls is not None
        calls = [(call.id, call.function.name, call.function.arguments) for call in message.tool_calls]  # type: ignore[union-attr]
        assert calls == list(CALLS)
        results: list[ChatCompletionMessageParam] = [
            {"role": "tool", "tool_call_id": call_id, "content": "20 °C"} for call_id, _, _ in CALLS
        ]
        history: list[ChatCompletionMessageParam] = [*HI, message.to_dict(), *results]  # type: ignore[list-item]
        second = await client.chat.completions.create(model="r", messages=history, tools=[WEATHER])
        assert second.choices[0].message.content == "warm in both"
        assert p.requests[1].json["messages"][1]["tool_calls"][1]["function"]["arguments"] == CALLS[1][2]


async def test_the_stream_helper_with_tools() -> None:
    async with Upstream("p", strict=True) as p, lab(config({"p": p})) as g, sdk(g) as client:
        p.default = answer(tool_calls=CALLS)
        seen: list[str] = []
        async with client.chat.completions.stream(model="r", messages=HI, tools=[WEATHER]) as stream:
            async for event in stream:
                if event.type == "tool_calls.function.arguments.done":
                    seen.append(event.arguments)
            final = await stream.get_final_completion()
        assert seen == [call[2] for call in CALLS]
        calls = final.choices[0].message.tool_calls
        assert calls is not None
        assert [call.function.parsed_arguments for call in calls] == [{"city": "Łódź"}, {"city": "東京"}]
        assert final.choices[0].finish_reason == "tool_calls"


async def test_the_stream_helper_with_text_after_a_rescue() -> None:
    async with Upstream("p", default=status(503)) as p, Upstream("s") as s, lab(config({"p": p, "s": s})) as g:
        async with sdk(g) as client, client.chat.completions.stream(model="r", messages=HI) as stream:
            deltas = [event.delta async for event in stream if event.type == "content.delta"]
            final = await stream.get_final_completion()
        assert "".join(deltas) == final.choices[0].message.content == "hello from s"
        assert final.model == "s-model"


async def test_structured_output_is_parsed() -> None:
    class City(BaseModel):
        name: str

    async with Upstream("p", default=answer('{"name":"Łódź"}')) as p, lab(config({"p": p})) as g, sdk(g) as client:
        completion = await client.chat.completions.parse(model="r", messages=HI, response_format=City)
        assert completion.choices[0].message.parsed == City(name="Łódź")
        assert p.requests[0].json["response_format"]["json_schema"]["name"] == "City"


async def test_the_list_of_models() -> None:
    async with Upstream("p") as p, lab(config({"p": p})) as g, sdk(g) as client:
        assert [model.id async for model in client.models.list()] == ["r"]
        assert (await client.models.retrieve("r")).owned_by == "stanchion"
        with pytest.raises(openai.NotFoundError):
            await client.models.retrieve("gpt-9")


ERRORS: dict[str, tuple[Behaviour, type[openai.APIStatusError], int, str]] = {
    "bad-request": (status(400, message="no such field"), openai.BadRequestError, 400, "bad_request"),
    "policy": (status(400, "content_policy_violation"), openai.BadRequestError, 400, "content_policy"),
    "model": (status(404, "model_not_found"), openai.NotFoundError, 404, "model_unavailable"),
    "too-large": (status(413), openai.APIStatusError, 413, "too_large"),
    "unprocessable": (status(422), openai.UnprocessableEntityError, 422, "bad_request"),
    "overloaded": (status(529), openai.InternalServerError, 529, "overloaded"),
    "server": (status(500), openai.InternalServerError, 503, "server_error"),
    "key": (status(401), openai.InternalServerError, 503, "credential"),
    "html": (html(), openai.InternalServerError, 502, "bad_upstream_response"),
    "redirect": (redirect("http://127.0.0.1:9/"), openai.InternalServerError, 502, "bad_upstream_response"),
    "error-inside": (
        raw(b'{"error":{"code":502,"message":"x"}}'),
        openai.InternalServerError,
        502,
        "bad_upstream_response",
    ),
    "reset": (rst(), openai.InternalServerError, 503, "connect"),
}


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("name", ERRORS)
async def test_errors_are_the_sdks_own_and_are_asked_for_once(name: str, stream: bool) -> None:
    behaviour, kind, code, error_class = ERRORS[name]
    values = {"defaults": NO_RETRY}
    async with Upstream("p", default=behaviour) as p, lab(config({"p": p}, **values)) as g, sdk(g) as client:
        with pytest.raises(kind) as caught:
            await client.chat.completions.create(model="r", messages=HI, stream=stream)
        error = caught.value
        assert error.status_code == code
        assert isinstance(error.body, dict)
        assert error.body["class"] == error_class
        assert [entry["target"] for entry in error.body["attempts"]] == ["p"]
        assert error.request_id == g.turns[0]["request_id"]
        assert len(g.turns) == 1, "the SDK asked again for what was tried to the end"


async def test_a_key_a_route_and_a_model_that_are_refused() -> None:
    callers = [{"name": "one", "key": "key-of-one", "routes": ["other"]}]
    async with Upstream("p") as p:
        values = config({"p": p}, callers=callers)
        values["routes"]["other"] = {"targets": ["p"]}
        async with lab(values) as g:
            async with sdk(g, "wrong") as client:
                with pytest.raises(openai.AuthenticationError) as caught:
                    await client.chat.completions.create(model="r", messages=HI)
                assert caught.value.code == "invalid_api_key"
                with pytest.raises(openai.AuthenticationError):
                    await client.models.list()
            async with sdk(g, "key-of-one") as client:
                with pytest.raises(openai.PermissionDeniedError):
                    await client.chat.completions.create(model="r", messages=HI)
                with pytest.raises(openai.NotFoundError) as missing:
                    await client.chat.completions.create(model="gpt-9", messages=HI)
                assert missing.value.code == "model_not_found"
                assert (await client.chat.completions.create(model="other", messages=HI)).choices
        assert [turn["status"] for turn in g.turns] == [401, 403, 404, 200]
        assert p.attempts == 1


async def test_the_deadline_is_a_504_that_is_not_asked_for_again() -> None:
    clock = ManualClock()
    async with Upstream("p", default=silent()) as p, lab(config({"p": p}), clock) as g, sdk(g) as client:
        asking = asyncio.ensure_future(
            client.chat.completions.create(model="r", messages=HI, extra_headers={"x-stanchion-timeout": "3"})
        )
        await p.wait_for_requests(1)
        await clock.run(3)
        with pytest.raises(openai.InternalServerError) as caught:
            await asking
        assert caught.value.status_code == 504
        assert len(g.turns) == p.attempts == 1


async def test_a_refusal_that_names_a_time_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    waits: list[float] = []

    async def wait_on_the_clock(seconds: float) -> None:
        waits.append(seconds)
        await clock.run(seconds)

    monkeypatch.setattr("anyio.sleep", wait_on_the_clock)
    async with Upstream("p") as p, lab(config({"p": p}), clock) as g, sdk(g) as client:
        p.script(status(429, headers={"Retry-After": "7"}))
        completion = await client.chat.completions.create(model="r", messages=HI)
        assert completion.choices[0].message.content == "hello from p"
        assert waits == [7]
        assert [turn["outcome"] for turn in g.turns] == ["failed", "success"]


ENDS: dict[str, bytes | Behaviour] = {
    "cut": cut(),
    "reset": rst(),
    "error": chat.error_event({"message": "too much", "type": "overloaded_error"}),
    "nonsense": b"data: <html>\n\n",
}


@pytest.mark.parametrize("name", ENDS)
async def test_a_stream_that_breaks_off_raises(name: str) -> None:
    seen = asyncio.Event()
    script = sse(chat.role_chunk(), chat.text_chunk("one "), chat.text_chunk("two "), wait(seen), ENDS[name])
    async with Upstream("p", default=script) as p, lab(config({"p": p})) as g, sdk(g) as client:
        stream = await client.chat.completions.create(model="r", messages=HI, stream=True)
        text = ""
        with pytest.raises(openai.APIError) as caught:
            async for chunk in stream:
                text += chunk.choices[0].delta.content or ""
                if text == "one two ":
                    seen.set()
        assert text == "one two "
        assert isinstance(caught.value.body, dict)
        assert caught.value.body["code"] == "stream_interrupted"
        assert p.attempts == 1


async def test_a_stream_that_breaks_off_raises_in_the_helper() -> None:
    seen = asyncio.Event()
    script = sse(chat.role_chunk(), chat.text_chunk("one "), wait(seen), cut())
    async with Upstream("p", default=script) as p, lab(config({"p": p})) as g, sdk(g) as client:
        with pytest.raises(openai.APIError):
            async with client.chat.completions.stream(model="r", messages=HI) as stream:
                async for event in stream:
                    if event.type == "content.delta":
                        seen.set()
        await idle(g)


async def test_heartbeats_and_the_trail_are_no_events_to_the_sdk() -> None:
    clock, go = ManualClock(), asyncio.Event()
    async with Upstream("p", default=gate(go, answer())) as p, lab(config({"p": p}), clock) as g, sdk(g) as client:
        asking = asyncio.ensure_future(client.chat.completions.create(model="r", messages=HI, stream=True))
        await p.wait_for_requests(1)
        await clock.run(15)
        stream = await asking  # the head has come early
        go.set()
        assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream]) == "hello from p"


async def test_a_failure_after_a_heartbeat_raises() -> None:
    clock, go = ManualClock(), asyncio.Event()
    failing = gate(go, status(503))
    async with Upstream("p", default=failing) as p, lab(config({"p": p}, defaults=NO_RETRY), clock) as g:
        async with sdk(g) as client:
            asking = asyncio.ensure_future(client.chat.completions.create(model="r", messages=HI, stream=True))
            await p.wait_for_requests(1)
            await clock.run(15)
            stream = await asking
            go.set()
            with pytest.raises(openai.APIError) as caught:
                [chunk async for chunk in stream]
            assert isinstance(caught.value.body, dict)
            assert caught.value.body["class"] == "overloaded"


async def test_a_caller_that_closes_its_stream_has_left() -> None:
    script = sse(chat.text_chunk("one "), silent())
    async with Upstream("p", default=script) as p, lab(config({"p": p})) as g, sdk(g) as client:
        stream = await client.chat.completions.create(model="r", messages=HI, stream=True)
        async for _ in stream:
            break
        await stream.close()
        await p.requests[0].wait_closed()
        await idle(g)
        assert g.turns[-1]["outcome"] == "client_closed"


async def test_many_at_once() -> None:
    async with Upstream("p") as p, Upstream("s") as s, lab(config({"p": p, "s": s})) as g, sdk(g) as client:
        completions = await asyncio.gather(
            *(client.chat.completions.create(model="r", messages=HI, user=str(number)) for number in range(50))
        )
        assert {completion.choices[0].message.content for completion in completions} == {"hello from p"}
        assert len({json.loads(seen.body)["user"] for seen in p.requests}) == 50


async def test_the_sync_client() -> None:
    def talk(url: str) -> tuple[str | None, str]:
        with OpenAI(base_url=f"{url}/v1", api_key="unused") as client:
            plain = client.chat.completions.create(model="r", messages=HI)
            with client.chat.completions.create(model="r", messages=HI, stream=True) as stream:
                streamed = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
            with pytest.raises(openai.NotFoundError):
                client.chat.completions.create(model="gpt-9", messages=HI)
            return plain.choices[0].message.content, streamed

    async with Upstream("p", strict=True) as p, lab(config({"p": p})) as g:
        assert await asyncio.to_thread(talk, g.url) == ("hello from p", "hello from p")
