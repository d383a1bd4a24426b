"""The context that most decorators are: something before the inner attempt, something after it on every ending.

Written out instead of `asynccontextmanager`, whose generators cost several times what the decorators themselves do (the
event loop tracks each one; measured at eight layers a request).
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType

from llm.answer import LlmStream


class Around:
    """One attempt around an inner one. Subclasses say what happens `before` it and `after` it."""

    __slots__ = ("_inner",)

    def __init__(self, inner: AbstractAsyncContextManager[LlmStream]) -> None:
        self._inner = inner

    def before(self) -> None:
        """Acquire. What it raises is raised on entering, and `after` is not called."""

    def began(self, stream: LlmStream) -> LlmStream:
        """The answer has begun; the stream that goes on to the outer decorator."""
        return stream

    def after(self, error: BaseException | None) -> None:
        """Give back, once, on every ending. `error` is what ended the attempt, None for a whole answer or one left early."""

    async def __aenter__(self) -> LlmStream:
        self.before()
        try:
            return self.began(await self._inner.__aenter__())
        except BaseException as error:
            self.after(error)
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self._inner.__aexit__(kind, error, trace)
        except BaseException as raised:
            self.after(raised)
            raise
        self.after(error)
