"""The quick start, whole: two real models, a gateway, a kill, and the return."""

from __future__ import annotations

import json
import os

import aiohttp
import pytest

from tests.cli.running import stanchion
from tests.models import two_models, weights

pytestmark = [pytest.mark.models, pytest.mark.timeout(300)]


async def test_walk() -> None:
    weights()  # downloading is not what the time limit below is for
    done = await stanchion("demo", "--walk", "--json", "--port", "0", "--admin-port", "0", timeout_s=150)
    assert done.code == 0, done.text
    seen = json.loads(done.out)
    assert seen["ok"] is True
    steps = {step["name"]: step for step in seen["steps"]}
    assert list(steps) == ["ask", "kill", "ask while it is dead", "status", "return", "ask when it is back"]
    assert all(step["ok"] for step in steps.values())
    assert steps["ask"]["answer"]["target"] == "local-a"
    dead = steps["ask while it is dead"]["answer"]
    assert dead["target"] == "local-b"
    assert dead["status"] == 200
    assert dead["text"]
    assert "local-a;class=connect" in dead["attempts"]
    assert steps["ask when it is back"]["answer"]["target"] == "local-a"
    assert seen["breakers"] == ["open", "closed"]
    assert "Traceback" not in done.err


async def test_two_models() -> None:
    async with two_models() as models:
        assert len(set(models.pids)) == 2
        body = {"model": "smollm2", "max_tokens": 4, "messages": [{"role": "user", "content": "Name one animal."}]}
        stream = {**body, "stream": True, "stream_options": {"include_usage": True}}
        async with aiohttp.ClientSession() as session:
            for base_url in models.base_urls:
                async with session.post(f"{base_url}/chat/completions", json=body) as response:
                    answer = await response.json()
                assert answer["model"] == "smollm2"
                assert answer["usage"]["completion_tokens"] <= 4
                async with session.post(f"{base_url}/chat/completions", json=stream) as response:
                    text = await response.text()
                assert '"usage":{' in text
                assert text.rstrip().endswith("data: [DONE]")
    for pid in models.pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
