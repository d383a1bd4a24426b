"""Refusing bodies that are all structure: parsers make an object of every few bytes, and all other callers wait for that.

A body is bounded in size, and most of a large one is text, which costs next to nothing. Thirty megabytes of `[],` are ten
million lists, which take seconds and a gigabyte to make. So what would become an object is counted before it is parsed.
"""

from __future__ import annotations

from gateway.http_errors import HttpError
from llm.jsonspan import without_escaped_marks, without_texts

MOST_PARTS = 500_000
"""Names, objects and lists. Measured, these take a tenth of a second to parse where they are the dearest; two megabytes of
records with short members have half as many."""

MOST_ITEMS = 1_000_000
"""Values between commas. Numbers and short texts are parsed ten times as fast."""


def check_structure(body: bytes) -> None:
    """Raises HttpError 413 for a body that has more structure than any conversation.

    What stands inside of texts is not counted. Bytes that are no JSON may pass or not; reading them says what is wrong.
    """
    if len(body) <= MOST_PARTS or not _too_much(body):  # a short body cannot have more
        return
    plain = without_escaped_marks(body)
    texts = plain.count(b'"') // 2  # each is a name or a value
    if texts > MOST_PARTS + MOST_ITEMS or _too_much(without_texts(plain)):
        message = (
            f"the body has more than {MOST_PARTS} objects, lists and names, or more than {MOST_ITEMS} values: "
            "send fewer messages, or send large data as one text"
        )
        raise HttpError(413, "too_large", message, code="request_too_large", retry=False)


def _too_much(body: bytes) -> bool:
    parts = body.count(b":") + body.count(b"{") + body.count(b"[")
    return parts > MOST_PARTS or body.count(b",") > MOST_ITEMS
