"""The OpenAI SDK in front of two real models: plain, streamed, with tools, and while one of them is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import openai
import pytest
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolParam

from tests.gateway.wire import idle, until
from tests.lab import Json, Lab, config, lab
from tests.models import TwoModels, two_models

pytestmark = [pytest.mark.models, pytest.mark.timeout(300)]

NAMES = ("a", "b")
HI: list[ChatCompletionMessageParam] = [{"role": "user", "content": "Say hi."}]
TOOL: ChatCompletionToolParam = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}


def settings_for(models: TwoModels) -> Json:
    """A target for each model, and a breaker that forgives enough for a test of kills."""
    values = config(dict(zip(NAMES, models.base_urls, strict=True)), defaults={"timeouts": {"first_output": "60s"}})
    for name in NAMES:
        values["targets"][name]["model"] = "smollm2"
    return values


@asynccontextmanager
async def running() -> AsyncIterator[tuple[TwoModels, Lab, AsyncOpenAI]]:
    async with two_models() as models, lab(settings_for(models)) as g:
        async with AsyncOpenAI(base_url=f"{g.url}/v1", api_key="unused", max_retries=0) as client:
            yield models, g, client


async def test_two_real_models_answer_and_replace_each_other() -> None:
    async with running() as (models, g, client):
        plain = await client.chat.completions.with_raw_response.create(model="r", messages=HI, max_tokens=8)
        completion = plain.parse()
        assert plain.headers["x-stanchion-target"] == "a"
        assert completion.choices[0].message.content
        assert completion.usage is not None
        assert 1 <= completion.usage.completion_tokens <= 8

        stream = await client.chat.completions.create(
            model="r", messages=HI, max_tokens=8, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] in ("stop", "length")
        assert sum(chunk.usage is not None for chunk in chunks) == 1

        # So small a model may answer in words: what counts is that a request with tools is taken and answered.
        choice = (await client.chat.completions.create(model="r", messages=HI, tools=[TOOL], max_tokens=12)).choices[0]
        assert choice.message.content or choice.message.tool_calls

        async with client.chat.completions.stream(model="r", messages=HI, max_tokens=8) as helper:
            async for _ in helper:
                pass
            try:
                final = await helper.get_final_completion()
            except openai.LengthFinishReasonError:
                final = None
        assert final is None or final.choices[0].message.content

        os.kill(models.pids[0], signal.SIGKILL)
        await until(lambda: not models.processes[0].running)
        for stream_it in (False, True):
            answered = await g.chat(messages=HI, max_tokens=8, stream=stream_it)
            assert answered.status == 200
            assert answered.headers["x-stanchion-target"] == "b"
            assert answered.trail[0].startswith("a class=connect") or answered.trail[0] == "a skip=breaker"
            assert (answered.clean and answered.streamed_text) if stream_it else answered.text
        await idle(g)
        assert [turn["outcome"] for turn in g.turns][-2:] in (["rescued"] * 2, ["rescued", "success"])

        await models.processes[0].start()
        os.kill(models.pids[1], signal.SIGKILL)
        await until(lambda: not models.processes[1].running)
        async with g.session.get(f"{models.base_urls[0]}/models") as response:
            assert response.status == 200
        await until_served_by(g, "a")


async def until_served_by(g: Lab, name: str) -> None:
    """Ask until the breaker has let a probe through and this target answers."""
    served = ""
    while served != name:
        answered = await g.chat(messages=HI, max_tokens=4)
        served = answered.headers.get("x-stanchion-target", "")
