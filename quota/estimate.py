"""How many output tokens a request is expected to use, for its reservation."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque

PERCENTILE = 90
"""High enough that most answers stay within their reservation; what is over is given back when they end."""

TRUSTED_ANSWERS = 20
"""With fewer answers than this a ninth decile says little: the default stands as the least that is expected."""


class OutputEstimate:
    """Expected output of one target's answers.

    A caller's cap is reserved in full, since the target may use it. Without one the estimate is the 90th percentile
    (nearest rank) of the last `window` answers; until there are `TRUSTED_ANSWERS` of them, at least `default` tokens.
    `context_window`: the model's, in tokens, where it is known; no single answer is expected to be longer.
    """

    def __init__(self, default: int = 512, window: int = 256, context_window: int | None = None) -> None:
        if default < 0 or window < 1:
            raise ValueError(f"needs a default of 0 or more and a window of 1 or more, not {default} and {window}")
        self._default = default
        self._window = window
        self.context_window = context_window
        self._answers: deque[int] = deque()
        self._sorted: list[int] = []

    def expect(self, cap: int | None, n: int = 1) -> int:
        """Tokens to reserve for the output of a request.

        `cap`: the largest of the caps that the request sets for one answer (`max_tokens`, `max_completion_tokens`),
        None if it sets none. `n`: answers asked for in one request. Numbers that make no sense count as the least.
        """
        each = self._learned() if cap is None else max(cap, 0)
        if self.context_window is not None:
            each = min(each, self.context_window)
        return each * max(n, 1)

    def learn(self, tokens: int, n: int = 1) -> None:
        """Note the output of an answer that came to its end; of `n` answers together, in tokens."""
        each = -(-max(tokens, 0) // max(n, 1))
        if len(self._answers) == self._window:
            del self._sorted[bisect_left(self._sorted, self._answers.popleft())]
        self._answers.append(each)
        insort(self._sorted, each)

    def _learned(self) -> int:
        count = len(self._sorted)
        if not count:
            return self._default
        rank = -(-count * PERCENTILE // 100)  # nearest rank: rounded up
        quantile = self._sorted[rank - 1]
        return quantile if count >= min(TRUSTED_ANSWERS, self._window) else max(quantile, self._default)
