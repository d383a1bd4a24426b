"""The one classifier: what a provider said, in any form, becomes one failure of one class.

`llm/error_shapes.py` reads the shape, `llm/signs.py` are the signs, `llm/hints.py` the forms of a wait.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from llm import hints
from llm.classes import ErrorClass
from llm.error_shapes import Said, of_body, of_value
from llm.errors import Failure
from llm.sign import Sign
from llm.signs import ACCOUNT, GENERIC, SIGNS

_READ_LIMIT = 20_000
"""Characters of a message that are searched for words."""

_QUOTED = re.compile(
    r"""(?<!\w)'(?:.*'(?!\w)|.*)|"(?:.*"|.*)|`(?:.*`|.*)|“(?:.*”|.*)""",
    re.DOTALL,
)
"""From the first quotation mark of a kind to the last, or to the end where none closes: what is quoted may hold marks of
its own. The apostrophe in `model's` is none."""

_BEGIN_LIMIT = 300
"""Characters of a message that a beginning is looked for in."""

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})

_PASSING = frozenset(
    {ErrorClass.RATE_LIMITED, ErrorClass.QUOTA_EXHAUSTED, ErrorClass.OVERLOADED, ErrorClass.SERVER_ERROR}
)
"""Classes that a wait may cure: for these a hint is looked for in the error too. In others its words may be the caller's."""


class _Heard:
    """What is matched of one error: its names, its messages without what they quote, and their beginnings."""

    def __init__(self, said: Said | None) -> None:
        self.names = said.names if said else set()
        texts = [text[:_READ_LIMIT].lower() for text in said.texts] if said else []
        self.begins = [text[:_BEGIN_LIMIT] for text in texts]
        self.texts = [_QUOTED.sub(" ", text) for text in texts]
        # A message may repeat what the caller sent: words count where nothing else tells, and only the provider's own.
        telling = any(name not in GENERIC and not name.isdigit() for name in self.names)
        self.words = [] if telling else self.texts

    def fits(self, sign: Sign) -> bool:
        """Whether a sign that asks for more than a status is there."""
        coded = not sign.codes.isdisjoint(self.names)
        begins = any(text.startswith(sign.begins) for text in self.begins)
        if sign.both:
            return coded and (begins or _any(sign.words, self.texts))
        return coded or begins or _any(sign.words, self.words)


def classify_status(status: int, headers: Mapping[str, str], body: bytes, wall: float) -> Failure:
    """The failure that an answer with a status other than 2xx is. `wall`: Unix time, for hints that are dates."""
    if 300 <= status < 400:
        return Failure(
            ErrorClass.BAD_UPSTREAM_RESPONSE,
            f"the provider answered with a redirect ({status}), which is not followed",
            status,
        )
    said = of_body(body, headers)
    return _failure(said, status, headers, wall, _unsaid(status, said))


def classify_error(error: Any, status: int | None, otherwise: str = "") -> Failure:
    """The failure that an error is: the object alone, or a whole body or event around it.

    `status` is the HTTP status, or None inside an answer that began with 200: then the status that the error gives itself
    stands for it. An error that says nothing is a bad answer of the provider when there is no status either.

    The failure has the provider's words at their full length: they are masked before they are cut (see `llm.provider`).
    """
    otherwise = otherwise or "the provider reported an error without a message"
    return _failure(of_value(error), status, _NO_HEADERS, None, otherwise)


def bad_response(message: str, status: int | None = 200) -> Failure:
    """An answer that began well and is not one."""
    return Failure(ErrorClass.BAD_UPSTREAM_RESPONSE, message, status)


def _failure(said: Said, status: int | None, headers: Mapping[str, str], wall: float | None, otherwise: str) -> Failure:
    told = said.status if status is None else status
    own, upstream = _Heard(said), _Heard(said.upstream)
    sign = _sign_of(said, told, own, upstream)
    error_class = sign.error_class if sign is not None else _by_status(told, headers)
    return Failure(
        error_class,
        said.message or otherwise,
        told,
        said.type,
        said.code,
        said.param,
        _wait(said, error_class, headers, wall, own.texts + upstream.texts),
        quoted=bool(said.message),
    )


def _sign_of(said: Said, status: int | None, own: _Heard, upstream: _Heard) -> Sign | None:
    """The first sign that fits. What an aggregator hands on counts as its own, but for what speaks of an account."""
    for sign in SIGNS:
        if sign.statuses and status is not None and status not in sign.statuses:
            continue
        if (sign.relayed and said.upstream is None) or (sign.page and not said.page):
            continue
        if sign.special:
            if own.fits(sign) or (sign.error_class not in ACCOUNT and upstream.fits(sign)):
                return sign
        elif status is not None:
            return sign
    return None


def _by_status(status: int | None, headers: Mapping[str, str]) -> ErrorClass:
    """Where no sign tells: the status, or the header that OpenAI's and Anthropic's SDKs obey before it."""
    if status is None:
        return ErrorClass.BAD_UPSTREAM_RESPONSE
    passing = headers.get("x-should-retry", "").strip().lower() == "true"
    return ErrorClass.SERVER_ERROR if status >= 500 or passing else ErrorClass.BAD_REQUEST


def _wait(
    said: Said, error_class: ErrorClass, headers: Mapping[str, str], wall: float | None, texts: list[str]
) -> float | None:
    """Seconds to wait, in the order that `llm.hints` gives."""
    wait = hints.told(headers, wall)
    if wait is None and error_class in _PASSING:
        wait = hints.of_values(said.waits + (said.upstream.waits if said.upstream else []), wall)
        if wait is None:
            wait = hints.of_texts(texts, wall)
        if wait is None and error_class is ErrorClass.RATE_LIMITED:
            wait = hints.resets({**said.headers, **headers}, wall)
    if said.day and error_class is ErrorClass.RATE_LIMITED:
        wait = max(wait or 0.0, hints.DAY_LEAST_S)
    return hints.bounded(wait)


def _unsaid(status: int, said: Said) -> str:
    """What a status without words says."""
    if status == 404:
        return "the provider answered 404: it knows no such path or model; check the provider's base_url and the model"
    if said.page:
        return f"the provider answered {status} with a page, not with an error of its API"
    return f"the provider answered {status}"


def _any(words: tuple[str, ...], texts: list[str]) -> bool:
    return any(word in text for text in texts for word in words)
