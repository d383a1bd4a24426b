"""The signs by which a provider's error is told: codes, types and words, as data.

Each line names where the sign comes from. A sign counts only with one of its statuses; the first line that fits wins, so
the special ones stand before the general. Add a line for a new provider, never a branch.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from llm.classes import ErrorClass

ANY: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Sign:
    """`codes` are compared with the error's code and type, `words` looked for in its message, all in lower case.

    Words count only in an error whose code and type tell nothing, and outside of what its message quotes.
    """

    error_class: ErrorClass
    source: str
    statuses: frozenset[int] = frozenset()
    codes: frozenset[str] = field(default=frozenset())
    words: tuple[str, ...] = ()


def _sign(
    error_class: ErrorClass,
    source: str,
    statuses: tuple[int, ...],
    codes: str = "",
    words: tuple[str, ...] = (),
) -> Sign:
    return Sign(error_class, source, frozenset(statuses), frozenset(codes.split()), words)


SIGNS: tuple[Sign, ...] = (
    _sign(
        ErrorClass.QUOTA_EXHAUSTED,
        "OpenAI error codes guide; Azure OpenAI; OpenRouter errors page",
        (400, 401, 402, 403, 429),
        "insufficient_quota billing_hard_limit_reached billing_not_active account_deactivated insufficient_credits",
        (
            "exceeded your current quota",
            "credit balance is too low",
            "insufficient credits",
            "billing hard limit",
        ),
    ),
    _sign(ErrorClass.QUOTA_EXHAUSTED, "HTTP 402 Payment Required", (402,)),
    _sign(
        ErrorClass.CONTENT_POLICY,
        "OpenAI error codes; Azure OpenAI content filtering",
        (400, 403, 422),
        "content_policy_violation content_filter responsibleaipolicyviolation moderation_blocked",
        ("content management policy", "content policy", "safety system"),
    ),
    _sign(
        ErrorClass.CONTENT_POLICY,
        "OpenRouter errors page: a 403 for input that its moderation flagged",
        (403,),
        words=("requires moderation", "was flagged"),
    ),
    _sign(
        ErrorClass.CONTEXT_LENGTH,
        "OpenAI; vLLM protocol errors; llama.cpp server (exceed_context_size_error)",
        (400, 413, 422, 500),
        "context_length_exceeded exceed_context_size_error string_above_max_length context_window_exceeded",
        (
            "maximum context length",
            "model's context length",
            "context length exceeded",
            "context size",
            "context window",
            "prompt is too long",
        ),
    ),
    _sign(
        ErrorClass.MODEL_UNAVAILABLE,
        "OpenAI deprecations page; Groq error codes",
        (400, 403, 404, 410, 422),
        "model_not_found model_decommissioned model_not_available unknown_model deploymentnotfound",
        (
            "model has been deprecated",
            "model has been retired",
            "model has been decommissioned",
            "model does not exist",
        ),
    ),
    _sign(ErrorClass.MODEL_UNAVAILABLE, "HTTP 404 and 410", (404, 410)),
    _sign(
        ErrorClass.CREDENTIAL,
        "OpenAI error codes; Gemini's 400 for a bad key",
        (400, 401, 403),
        "invalid_api_key api_key_invalid authentication_error permission_error account_suspended",
        ("api key not valid", "incorrect api key"),
    ),
    _sign(ErrorClass.CREDENTIAL, "HTTP 401 and 403", (401, 403)),
    _sign(
        ErrorClass.OVERLOADED,
        "Anthropic errors page; OpenAI slow_down",
        ANY,
        "overloaded_error overloaded engine_overloaded slow_down service_unavailable",
    ),
    _sign(ErrorClass.OVERLOADED, "HTTP 503; 529 of Anthropic", (503, 529)),
    _sign(
        ErrorClass.RATE_LIMITED,
        "OpenAI and Anthropic rate limits",
        ANY,
        "rate_limit_exceeded rate_limit_error",
    ),
    _sign(ErrorClass.RATE_LIMITED, "HTTP 429", (429,)),
    _sign(ErrorClass.TOO_LARGE, "HTTP 413", (413,)),
)
