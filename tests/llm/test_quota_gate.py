"""What is reserved for a call, and which counts of a provider are believed."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, cast

import pytest

from llm.answer import Llm, LlmStream, Progress, Usage
from llm.errors import QuotaShort
from llm.quota_gate import UNSEEN_TOKENS, Metered
from llm.request import LlmRequest
from quota.estimate import OutputEstimate
from quota.policy import QuotaPolicy
from quota.target_quota import TargetQuota
from tests.fakes.clock import ManualClock
from tests.llm.making import call, request


class Counted:
    """An `Llm` whose answers come whole, with the usage that a test names."""

    stream = True

    def __init__(self, usage: Usage | None = None) -> None:
        self.progress = Progress(ended=True, output_seen=True, output_tokens_seen=7, usage=usage)

    def generate(self, asked: LlmRequest) -> AbstractAsyncContextManager[LlmStream]:
        return cast(AbstractAsyncContextManager[LlmStream], self)

    async def __aenter__(self) -> Counted:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is held."""


def made(inner: Counted | None = None, *, per_minute: int = 30_000, window: int | None = None) -> Metered:
    quota = TargetQuota(QuotaPolicy(tokens_per_minute=per_minute), ManualClock().now)
    return Metered(cast(Llm, inner or Counted()), quota, OutputEstimate(context_window=window))


def level(metered: Metered) -> float:
    tokens = metered.quota.levels().tokens
    assert tokens is not None
    return tokens.level


async def ask(metered: Metered, **fields: Any) -> None:
    async with metered.generate(request(**fields)):
        pass


# What is reserved.


def test_what_was_learned_is_at_most_the_bucket() -> None:
    metered = made()
    metered.estimate.learn(6000)
    assert metered.expected(call()) == 5000
    assert metered.expected(call(n=3)) == 5000


@pytest.mark.parametrize("per_minute", [3000, 3001, 7])
def test_the_default_is_at_most_the_bucket(per_minute: int) -> None:
    metered = made(per_minute=per_minute)
    asked = call()
    assert metered.expected(asked) == max(asked.input_tokens, per_minute * 10 // 60)


async def test_the_callers_own_cap_has_to_fit() -> None:
    metered = made(per_minute=4000)
    with pytest.raises(QuotaShort) as refused:
        await ask(metered, max_tokens=800)
    assert refused.value.never


async def test_an_input_larger_than_the_bucket_never_fits() -> None:
    metered = made(per_minute=600)
    with pytest.raises(QuotaShort) as refused:
        await ask(metered, messages=[{"role": "user", "content": "word " * 200}])
    assert refused.value.never


# What is settled.


@pytest.mark.parametrize(
    "usage", [Usage(2**63, 5), Usage(5, 2**63), Usage(10, UNSEEN_TOKENS + 10_000), Usage(1_000_000, 1)]
)
async def test_a_count_above_all_that_can_be_is_neither_settled_nor_learned(usage: Usage) -> None:
    metered = made(Counted(usage), window=8000)
    await ask(metered)
    assert level(metered) == 5000 - call().input_tokens - 7
    assert metered.estimate.expect(None) == 512


@pytest.mark.parametrize(
    ("usage", "window", "fields"),
    [
        (Usage(10, 6000), None, {}),  # longer than the bucket
        (Usage(1105, 10), None, {"max_tokens": 10}),  # an image that the request only names
        (Usage(10, 30_000), None, {"max_tokens": 10}),  # reasoning beyond the cap
        (Usage(127_000, 50), 128_000, {"max_tokens": 100}),
        (Usage(10, 4 * 5000), 8000, {"n": 4}),
    ],
)
async def test_a_count_that_can_be_is_settled(usage: Usage, window: int | None, fields: dict[str, Any]) -> None:
    metered = made(Counted(usage), window=window)
    await ask(metered, **fields)
    assert level(metered) == 5000 - usage.total


async def test_the_belief_follows_the_declared_window() -> None:
    usage = Usage(50_000, 10)
    small, large = made(Counted(usage), window=8000), made(Counted(usage), window=128_000)
    for metered in (small, large):
        await ask(metered, max_tokens=100)
    assert level(small) > 0
    assert level(large) == 5000 - usage.total
