"""What providers say when they fail, in the shapes that they say it in, and what each is.

Facts only: statuses, codes and the form of messages, as the providers' pages and public reports have them; names, numbers
and ids are made up. One row for each form. `code` is the code that the caller is told, `wait` the hint in seconds.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from llm.classes import ErrorClass as C

WALL = 1_800_000_000.0
"""The Unix time of all rows: 2027-01-15 08:00:00 UTC."""

Body = bytes | str | dict[str, Any] | list[Any]


@dataclass(frozen=True)
class Row:
    provider: str
    status: int
    body: Body
    error_class: C
    code: str | None = None
    wait: float | None = None
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def bytes(self) -> bytes:
        if isinstance(self.body, bytes):
            return self.body
        return (self.body if isinstance(self.body, str) else json.dumps(self.body)).encode()

    def __str__(self) -> str:
        return f"{self.provider}-{self.status}-{self.error_class.value}"


def openai(message: str, kind: str | None = None, code: str | int | None = None, param: str | None = None) -> Body:
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def anthropic(kind: str, message: str, details: dict[str, Any] | None = None) -> Body:
    error = {"type": kind, "message": message} | ({"details": details} if details else {})
    return {"type": "error", "error": error, "request_id": "req_1"}


def gemini(code: int, status: str, message: str, *details: dict[str, Any]) -> dict[str, Any]:
    error: dict[str, Any] = {"code": code, "message": message, "status": status}
    return {"error": error | ({"details": list(details)} if details else {})}


def flat(message: Any, kind: str, code: str | int | None = None, **more: Any) -> Body:
    return {"object": "error", "message": message, "type": kind, "param": None, "code": code, **more}


def relayed(code: int, raw: Any, **metadata: Any) -> Body:
    return {
        "error": {
            "message": "Provider returned error",
            "code": code,
            "metadata": {"raw": raw, "provider_name": "X", **metadata},
        }
    }


def openrouter(code: int, message: str, **metadata: Any) -> Body:
    return {"error": {"message": message, "code": code} | ({"metadata": metadata} if metadata else {}), "user_id": "u"}


def litellm(code: str, message: str, kind: str | None = None) -> Body:
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


_RPC = "type.googleapis.com/google.rpc."
PER_MINUTE = {
    "@type": _RPC + "QuotaFailure",
    "violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier", "quotaValue": "10"}],
}
PER_DAY = {
    "@type": _RPC + "QuotaFailure",
    "violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier", "quotaValue": "250"}],
}
HELP = {"@type": _RPC + "Help", "links": [{"description": "Learn more about quotas"}]}
GEMINI_QUOTA = "You exceeded your current quota, please check your plan and billing details."
BAD_KEY = {"@type": _RPC + "ErrorInfo", "reason": "API_KEY_INVALID", "domain": "googleapis.com"}
PAGE = "<!DOCTYPE html>\n<html><head><title>Just a moment...</title></head><body>rate limit, quota</body></html>"


def retry_info(delay: str) -> dict[str, Any]:
    return {"@type": _RPC + "RetryInfo", "retryDelay": delay}


def tpm(limit: int, wanted: int) -> str:
    return (
        f"Request too large for model `m` in organization `org_1` service tier `on_demand` on tokens per minute (TPM): "
        f"Limit {limit}, Requested {wanted}, please reduce your message size and try again."
    )


OPENAI = [
    Row(
        "openai",
        401,
        openai("Incorrect API key provided: sk-***.", "invalid_request_error", "invalid_api_key"),
        C.CREDENTIAL,
        "invalid_api_key",
    ),
    Row(
        "openai",
        401,
        openai("You must be a member of an organization to use the API", "invalid_request_error"),
        C.CREDENTIAL,
    ),
    Row(
        "openai",
        403,
        {
            "error": {
                "code": "unsupported_country_region_territory",
                "type": "request_forbidden",
                "message": "Country, region, or territory not supported",
                "param": None,
            }
        },
        C.MODEL_UNAVAILABLE,
        "unsupported_country_region_territory",
    ),
    Row(
        "openai",
        403,
        {
            "code": "unsupported_country_region_territory",
            "type": "request_forbidden",
            "message": "Country, region, or territory not supported",
            "param": None,
        },
        C.MODEL_UNAVAILABLE,
        "unsupported_country_region_territory",
    ),
    Row(
        "openai",
        403,
        openai("Project `proj_1` does not have access to model `gpt-x`", "invalid_request_error", "model_not_found"),
        C.MODEL_UNAVAILABLE,
        "model_not_found",
    ),
    Row(
        "openai",
        404,
        openai(
            "The model `gpt-x` does not exist or you do not have access to it.",
            "invalid_request_error",
            "model_not_found",
        ),
        C.MODEL_UNAVAILABLE,
        "model_not_found",
    ),
    Row(
        "openai",
        404,
        openai("Invalid URL (POST /v1/v1/chat/completions)", "invalid_request_error"),
        C.MODEL_UNAVAILABLE,
    ),
    Row("openai", 404, openai("No such File object: file-1", "invalid_request_error", None, "id"), C.BAD_REQUEST),
    Row(
        "openai",
        429,
        openai(
            "Rate limit reached for gpt-x in organization org-1 on tokens per min (TPM): Limit 90000, "
            "Used 89000, Requested 2000. Please try again in 666ms. Visit the rate limits page.",
            "tokens",
            "rate_limit_exceeded",
        ),
        C.RATE_LIMITED,
        "rate_limit_exceeded",
        0.666,
    ),
    Row(
        "openai",
        429,
        openai(
            "Rate limit reached for gpt-x on requests per day (RPD): Limit 200. Please try again in 7m12s.",
            "requests",
            "rate_limit_exceeded",
        ),
        C.RATE_LIMITED,
        "rate_limit_exceeded",
        432,
    ),
    Row(
        "openai",
        429,
        openai("Rate limit reached. Please try again in 114h18m0s.", "tokens", "rate_limit_exceeded"),
        C.RATE_LIMITED,
        "rate_limit_exceeded",
        411_480,
    ),
    Row(
        "openai",
        429,
        openai("Rate limit reached.", "tokens", "rate_limit_exceeded"),
        C.RATE_LIMITED,
        "rate_limit_exceeded",
        90.5,
        {
            "x-ratelimit-remaining-requests": "99",
            "x-ratelimit-reset-requests": "8m",
            "x-ratelimit-remaining-tokens": "0",
            "x-ratelimit-reset-tokens": "1m30.5s",
        },
    ),
    Row(
        "openai",
        429,
        openai(
            "Request too large for gpt-x in organization org-1 on tokens per min (TPM): Limit 30000, "
            "Requested 30601. The input or output tokens must be reduced in order to run successfully.",
            "tokens",
            "rate_limit_exceeded",
        ),
        C.TOO_LARGE,
        "rate_limit_exceeded",
    ),
    Row(
        "openai",
        429,
        openai(
            "You exceeded your current quota, please check your plan and billing details.",
            "insufficient_quota",
            "insufficient_quota",
        ),
        C.QUOTA_EXHAUSTED,
        "insufficient_quota",
    ),
    Row(
        "openai",
        429,
        openai("No credits.", "insufficient_quota", "credit_balance_exhausted"),
        C.QUOTA_EXHAUSTED,
        "credit_balance_exhausted",
    ),
    Row(
        "openai",
        429,
        openai("Limit.", "billing_error", "project_spend_limit_exceeded"),
        C.QUOTA_EXHAUSTED,
        "project_spend_limit_exceeded",
    ),
    Row(
        "openai",
        429,
        openai("Limit.", "billing_error", "organization_spend_limit_exceeded"),
        C.QUOTA_EXHAUSTED,
        "organization_spend_limit_exceeded",
    ),
    Row(
        "openai",
        429,
        openai("Limit.", "requests", "organization_usage_limit_exceeded"),
        C.QUOTA_EXHAUSTED,
        "organization_usage_limit_exceeded",
    ),
    Row(
        "openai",
        429,
        openai(
            "Your account is not active, please check your billing details.", "billing_not_active", "billing_not_active"
        ),
        C.QUOTA_EXHAUSTED,
        "billing_not_active",
    ),
    Row("openai", 429, openai("Slow down.", "rate_limit_error", "slow_down"), C.RATE_LIMITED, "slow_down"),
    Row("openai", 503, openai("Slow down.", "service_unavailable_error", "slow_down"), C.OVERLOADED, "slow_down"),
    Row(
        "openai",
        503,
        openai("The model is overloaded.", "service_unavailable_error", "server_is_overloaded"),
        C.OVERLOADED,
        "server_is_overloaded",
        12,
        {"retry-after": "12"},
    ),
    Row(
        "openai", 500, openai("The server had an error while processing your request.", "server_error"), C.SERVER_ERROR
    ),
    Row(
        "openai",
        400,
        openai(
            "This model's maximum context length is 8192 tokens. However, your messages resulted in "
            "9000 tokens. Please reduce the length of the messages.",
            "invalid_request_error",
            "context_length_exceeded",
            "messages",
        ),
        C.CONTEXT_LENGTH,
        "context_length_exceeded",
    ),
    Row(
        "openai",
        400,
        openai(
            "Your input exceeds the context window of this model. Please adjust your input.", "invalid_request_error"
        ),
        C.CONTEXT_LENGTH,
    ),
    Row(
        "openai",
        400,
        openai(
            "Your request was rejected as a result of our safety system.",
            "invalid_request_error",
            "content_policy_violation",
        ),
        C.CONTENT_POLICY,
        "content_policy_violation",
    ),
    Row(
        "openai",
        400,
        openai(
            "Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
            "invalid_request_error",
            "invalid_prompt",
        ),
        C.CONTENT_POLICY,
        "invalid_prompt",
    ),
    Row(
        "openai",
        400,
        openai("Invalid prompt: the items must not be empty.", "invalid_request_error", "invalid_prompt"),
        C.BAD_REQUEST,
        "invalid_prompt",
    ),
    Row(
        "openai",
        400,
        openai(
            "Invalid schema for function 'f': schema must be a JSON Schema of 'type: \"object\"'.",
            "invalid_request_error",
            "invalid_function_parameters",
            "tools[0].function.parameters",
        ),
        C.BAD_REQUEST,
        "invalid_function_parameters",
    ),
    Row(
        "openai",
        400,
        openai("Timeout while downloading the image.", "invalid_request_error", "invalid_image_url"),
        C.BAD_REQUEST,
        "invalid_image_url",
    ),
    Row(
        "openai",
        400,
        openai(
            "Unsupported value: 'temperature' does not support 0.2 with this model.",
            "invalid_request_error",
            "unsupported_value",
            "temperature",
        ),
        C.BAD_REQUEST,
        "unsupported_value",
    ),
    Row("openai", 409, openai("Try again.", "conflict_error"), C.SERVER_ERROR),
]

FALSE_FRIENDS = [
    Row(
        "quoting",
        400,
        openai(
            "Invalid value: 'you exceeded your current quota'. Supported values are: 'a' and 'b'.",
            "invalid_request_error",
        ),
        C.BAD_REQUEST,
    ),
    Row(
        "quoting",
        400,
        openai('Could not parse "rate limit: please retry in 900s, insufficient credits".', "invalid_request_error"),
        C.BAD_REQUEST,
    ),
    Row(
        "quoting",
        400,
        openai("Invalid tool name: tell me about insufficient balance", "invalid_request_error", "invalid_value"),
        C.BAD_REQUEST,
        "invalid_value",
    ),
    Row(
        "quoting",
        400,
        openai("Bad content: `api key not valid`, `model has been retired`", "invalid_request_error"),
        C.BAD_REQUEST,
    ),
    Row(
        "quoting",
        429,
        openai("Slow down: 'try again in 5000s' was your prompt.", "requests", "rate_limit_exceeded"),
        C.RATE_LIMITED,
        "rate_limit_exceeded",
    ),
    Row(
        "validation",
        422,
        {
            "detail": [
                {
                    "type": "x",
                    "loc": ["body", "messages", 0],
                    "msg": "Input should be valid",
                    "input": "you exceeded your current quota",
                }
            ]
        },
        C.BAD_REQUEST,
    ),
    Row(
        "json in a prompt",
        400,
        openai('Not valid: {"error": {"code": "insufficient_quota"}}', "invalid_request_error"),
        C.BAD_REQUEST,
    ),
]

AZURE = [
    Row(
        "azure",
        401,
        {"error": {"code": "PermissionDenied", "message": "Principal does not have access to API/Operation."}},
        C.CREDENTIAL,
        "PermissionDenied",
    ),
    Row(
        "azure",
        401,
        {"statusCode": 401, "message": "Unauthorized. Access token is missing, invalid or expired."},
        C.CREDENTIAL,
    ),
    Row(
        "azure",
        404,
        {"error": {"code": "DeploymentNotFound", "message": "The API deployment for this resource does not exist."}},
        C.MODEL_UNAVAILABLE,
        "DeploymentNotFound",
    ),
    Row("azure", 404, {"error": {"code": "404", "message": "Resource not found"}}, C.MODEL_UNAVAILABLE, "404"),
    Row(
        "azure",
        429,
        {
            "error": {
                "code": "429",
                "message": "Requests to the ChatCompletions_Create Operation under Azure "
                "OpenAI API version 2024-08-01 have exceeded token rate limit of your current OpenAI S0 pricing tier. Please "
                "retry after 26 seconds.",
            }
        },
        C.RATE_LIMITED,
        "429",
        26,
    ),
    Row(
        "azure",
        429,
        {"error": {"code": "429", "message": "Rate limit is exceeded. Try again in 2 seconds."}},
        C.RATE_LIMITED,
        "429",
        2,
    ),
    Row(
        "azure",
        429,
        {"error": {"code": "429", "message": "Requests have been limited. Please retry after 86400 seconds."}},
        C.RATE_LIMITED,
        "429",
        1.5,
        {"retry-after-ms": "1500", "retry-after": "2"},
    ),
    Row(
        "azure",
        429,
        {
            "error": {
                "code": "429",
                "message": "The system is currently experiencing high demand and cannot "
                "process your request. Please retry after 20 seconds.",
            }
        },
        C.OVERLOADED,
        "429",
        20,
    ),
    Row(
        "azure",
        400,
        {
            "error": {
                "message": "The response was filtered",
                "type": None,
                "param": "prompt",
                "status": 400,
                "code": "content_filter",
                "innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {}},
            }
        },
        C.CONTENT_POLICY,
        "content_filter",
    ),
    Row(
        "azure",
        400,
        {"error": {"message": "Refused", "code": "BadRequest", "innererror": {"code": "ResponsibleAIPolicyViolation"}}},
        C.CONTENT_POLICY,
        "BadRequest",
    ),
]

ANTHROPIC = [
    Row("anthropic", 400, anthropic("invalid_request_error", "messages: roles must alternate"), C.BAD_REQUEST),
    Row(
        "anthropic",
        400,
        anthropic("invalid_request_error", "prompt is too long: 213462 tokens > 200000 maximum"),
        C.CONTEXT_LENGTH,
    ),
    Row(
        "anthropic",
        400,
        anthropic(
            "invalid_request_error",
            "input length and `max_tokens` exceed context limit: 190000 "
            "+ 20000 > 200000, decrease input length or `max_tokens`",
        ),
        C.CONTEXT_LENGTH,
    ),
    Row(
        "anthropic",
        400,
        anthropic("invalid_request_error", "Your credit balance is too low to access the API."),
        C.QUOTA_EXHAUSTED,
    ),
    Row(
        "anthropic",
        400,
        anthropic(
            "invalid_request_error",
            "You have reached your specified API usage limits. You will regain access on 2027-02-01 at 00:00 UTC.",
        ),
        C.QUOTA_EXHAUSTED,
        None,
        16 * 86_400 + 16 * 3600,
    ),
    Row(
        "anthropic",
        400,
        anthropic(
            "invalid_request_error",
            "You have reached your specified workspace API usage limits. You will regain access on 2027-01-16.",
        ),
        C.QUOTA_EXHAUSTED,
        None,
        16 * 3600,
    ),
    Row(
        "anthropic",
        400,
        anthropic("invalid_request_error", "Output blocked by content filtering policy"),
        C.CONTENT_POLICY,
    ),
    Row("anthropic", 401, anthropic("authentication_error", "invalid x-api-key"), C.CREDENTIAL),
    Row("anthropic", 402, anthropic("billing_error", "Payment."), C.QUOTA_EXHAUSTED),
    Row("anthropic", 403, anthropic("permission_error", "Your API key does not have permission."), C.CREDENTIAL),
    Row("anthropic", 404, anthropic("not_found_error", "model: claude-x"), C.MODEL_UNAVAILABLE),
    Row("anthropic", 413, anthropic("request_too_large", "Request exceeds the maximum size"), C.TOO_LARGE),
    Row(
        "anthropic",
        429,
        anthropic("rate_limit_error", "This request would exceed your account's rate limit. Please try again later."),
        C.RATE_LIMITED,
        None,
        17,
        {
            "retry-after": "17",
            "anthropic-ratelimit-requests-remaining": "0",
            "anthropic-ratelimit-requests-reset": "2027-01-15T08:01:00Z",
        },
    ),
    Row(
        "anthropic",
        429,
        anthropic("rate_limit_error", "Tokens."),
        C.RATE_LIMITED,
        None,
        45,
        {
            "anthropic-ratelimit-requests-remaining": "7",
            "anthropic-ratelimit-requests-reset": "2027-01-15T09:00:00Z",
            "anthropic-ratelimit-input-tokens-remaining": "0",
            "anthropic-ratelimit-input-tokens-reset": "2027-01-15T08:00:45Z",
        },
    ),
    Row(
        "anthropic",
        429,
        anthropic("rate_limit_error", "Usage.", {"error_code": "enforced_spend_limit_reached"}),
        C.QUOTA_EXHAUSTED,
    ),
    Row("anthropic", 500, anthropic("api_error", "Internal server error"), C.SERVER_ERROR),
    Row("anthropic", 529, anthropic("overloaded_error", "Overloaded"), C.OVERLOADED),
    Row("anthropic-openai", 429, openai("Rate limited.", "rate_limit_error"), C.RATE_LIMITED),
    Row("anthropic-openai", 529, openai("Overloaded", "overloaded_error"), C.OVERLOADED),
    Row(
        "anthropic-openai",
        400,
        openai("prompt is too long: 3 tokens > 2 maximum", "invalid_request_error"),
        C.CONTEXT_LENGTH,
    ),
]

GEMINI = [
    Row(
        "gemini",
        400,
        gemini(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.", BAD_KEY),
        C.CREDENTIAL,
        "400",
    ),
    Row("gemini", 400, gemini(400, "INVALID_ARGUMENT", "Bad.", BAD_KEY), C.CREDENTIAL, "400"),
    Row(
        "gemini-openai",
        400,
        [gemini(400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.")],
        C.CREDENTIAL,
        "400",
    ),
    Row(
        "gemini",
        400,
        gemini(400, "FAILED_PRECONDITION", "User location is not supported for the API use."),
        C.MODEL_UNAVAILABLE,
        "400",
    ),
    Row("gemini", 403, gemini(403, "PERMISSION_DENIED", "The caller does not have permission"), C.CREDENTIAL, "403"),
    Row(
        "gemini",
        403,
        gemini(403, "PERMISSION_DENIED", "You do not have permission to access the File f1 or it may not exist."),
        C.BAD_REQUEST,
        "403",
    ),
    Row(
        "gemini",
        404,
        gemini(
            404,
            "NOT_FOUND",
            "models/gemini-x is not found for API version v1beta, or is not supported for generateContent.",
        ),
        C.MODEL_UNAVAILABLE,
        "404",
    ),
    Row(
        "gemini",
        400,
        gemini(
            400,
            "INVALID_ARGUMENT",
            "The input token count (1091639) exceeds the maximum number of tokens allowed (1048576).",
        ),
        C.CONTEXT_LENGTH,
        "400",
    ),
    Row(
        "gemini-openai",
        400,
        [
            gemini(
                400, "INVALID_ARGUMENT", "The input token count exceeds the maximum number of tokens allowed (1048576)."
            )
        ],
        C.CONTEXT_LENGTH,
        "400",
    ),
    Row(
        "gemini",
        400,
        gemini(400, "INVALID_ARGUMENT", 'Invalid JSON payload received. Unknown name "x"'),
        C.BAD_REQUEST,
        "400",
    ),
    Row(
        "gemini",
        429,
        gemini(
            429,
            "RESOURCE_EXHAUSTED",
            GEMINI_QUOTA + "\nPlease retry in 34.074824224s.",
            PER_MINUTE,
            HELP,
            retry_info("34s"),
        ),
        C.RATE_LIMITED,
        "429",
        34,
    ),
    Row(
        "gemini-openai",
        429,
        [gemini(429, "RESOURCE_EXHAUSTED", GEMINI_QUOTA, PER_MINUTE, retry_info("34.07s"))],
        C.RATE_LIMITED,
        "429",
        34.07,
    ),
    Row(
        "gemini",
        429,
        gemini(429, "RESOURCE_EXHAUSTED", GEMINI_QUOTA + "\nPlease retry in 20.04466179s."),
        C.RATE_LIMITED,
        "429",
        20.04466179,
    ),
    Row(
        "gemini",
        429,
        gemini(429, "RESOURCE_EXHAUSTED", GEMINI_QUOTA, PER_DAY, retry_info("20s")),
        C.RATE_LIMITED,
        "429",
        600,
    ),
    Row(
        "gemini", 429, gemini(429, "RESOURCE_EXHAUSTED", GEMINI_QUOTA, PER_MINUTE, PER_DAY), C.RATE_LIMITED, "429", 600
    ),
    Row(
        "gemini",
        429,
        gemini(429, "RESOURCE_EXHAUSTED", GEMINI_QUOTA, PER_DAY, retry_info("8000s")),
        C.RATE_LIMITED,
        "429",
        8000,
    ),
    Row("gemini", 429, gemini(429, "RESOURCE_EXHAUSTED", GEMINI_QUOTA, HELP), C.RATE_LIMITED, "429"),
    Row(
        "gemini",
        429,
        gemini(429, "RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."),
        C.RATE_LIMITED,
        "429",
    ),
    Row(
        "gemini-sdk",
        429,
        {
            "error": {
                "message": json.dumps(gemini(429, "RESOURCE_EXHAUSTED", GEMINI_QUOTA, retry_info("7s"))),
                "code": 429,
                "status": "Too Many Requests",
            }
        },
        C.RATE_LIMITED,
        "429",
        7,
    ),
    Row(
        "gemini-sdk",
        400,
        {
            "error": {
                "message": json.dumps(gemini(400, "INVALID_ARGUMENT", "API key not valid.", BAD_KEY)),
                "code": 400,
                "status": "Bad Request",
            }
        },
        C.CREDENTIAL,
        "400",
    ),
    Row(
        "gemini",
        429,
        gemini(429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted. Please go to AI Studio."),
        C.QUOTA_EXHAUSTED,
        "429",
    ),
    Row(
        "gemini",
        402,
        gemini(402, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted."),
        C.QUOTA_EXHAUSTED,
        "402",
    ),
    Row("gemini", 499, gemini(499, "CANCELLED", "The operation was cancelled."), C.SERVER_ERROR, "499"),
    Row("gemini", 500, gemini(500, "INTERNAL", "An internal error has occurred."), C.SERVER_ERROR, "500"),
    Row(
        "gemini",
        503,
        gemini(503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
        C.OVERLOADED,
        "503",
    ),
    Row(
        "gemini",
        504,
        gemini(504, "DEADLINE_EXCEEDED", "Deadline expired before operation could complete."),
        C.SERVER_ERROR,
        "504",
    ),
    Row(
        "vertex",
        429,
        [gemini(429, "RESOURCE_EXHAUSTED", "Resource exhausted. Please try again later.")],
        C.RATE_LIMITED,
        "429",
    ),
]

LOCAL = [
    Row(
        "vllm",
        400,
        flat(
            "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in "
            "the messages, 1000 in the completion).",
            "BadRequestError",
            400,
        ),
        C.CONTEXT_LENGTH,
        "400",
    ),
    Row(
        "vllm",
        400,
        openai(
            "'max_tokens' or 'max_completion_tokens' is too large: 8192. This model's maximum context "
            "length is 65536 tokens and your request has 57879 input tokens (8192 > 65536 - 57879). None",
            "BadRequestError",
            400,
        ),
        C.CONTEXT_LENGTH,
        "400",
    ),
    Row("vllm", 400, flat("max_tokens must be at least 1, got -186.", "BadRequestError", 400), C.BAD_REQUEST, "400"),
    Row("vllm", 404, flat("The model `m` does not exist.", "NotFoundError", 404), C.MODEL_UNAVAILABLE, "404"),
    Row("vllm", 404, {"detail": "Not Found"}, C.MODEL_UNAVAILABLE),
    Row("vllm", 401, {"error": "Unauthorized"}, C.CREDENTIAL),
    Row("fastapi", 405, {"detail": "Method Not Allowed"}, C.BAD_UPSTREAM_RESPONSE),
    Row(
        "llama.cpp",
        503,
        {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}},
        C.OVERLOADED,
        "503",
    ),
    Row(
        "llama.cpp",
        400,
        {
            "error": {
                "code": 400,
                "message": "request (4390 tokens) exceeds the available context size (4096 tokens), try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 4390,
                "n_ctx": 4096,
            }
        },
        C.CONTEXT_LENGTH,
        "400",
    ),
    Row(
        "llama.cpp",
        500,
        {"error": {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}},
        C.CONTEXT_LENGTH,
        "500",
    ),
    Row(
        "llama.cpp",
        501,
        {"error": {"code": 501, "message": "This server does not support multimodal", "type": "not_supported_error"}},
        C.BAD_REQUEST,
        "501",
    ),
    Row(
        "llama.cpp",
        404,
        {"error": {"code": 404, "message": "File Not Found", "type": "not_found_error"}},
        C.MODEL_UNAVAILABLE,
        "404",
    ),
    Row(
        "llama.cpp",
        401,
        {"error": {"code": 401, "message": "Invalid API Key", "type": "authentication_error"}},
        C.CREDENTIAL,
        "401",
    ),
    Row("ollama", 404, openai('model "m" not found, try pulling it first', "api_error"), C.MODEL_UNAVAILABLE),
    Row("ollama", 404, {"error": "model 'm' not found"}, C.MODEL_UNAVAILABLE),
    Row("ollama", 404, "404 page not found", C.MODEL_UNAVAILABLE),
    Row(
        "ollama",
        500,
        {"error": "model requires more system memory (5.3 GiB) than is available (4.7 GiB)"},
        C.SERVER_ERROR,
    ),
    Row(
        "ollama",
        503,
        openai("server busy, please try again.  maximum pending requests exceeded", "api_error"),
        C.OVERLOADED,
    ),
    Row(
        "ollama",
        400,
        openai("prompt too long; exceeded max context length by 100918 tokens", "api_error"),
        C.CONTEXT_LENGTH,
    ),
    Row(
        "ollama",
        429,
        {"error": "you (x) have reached your weekly usage limit, upgrade for higher limits"},
        C.QUOTA_EXHAUSTED,
    ),
    Row(
        "ollama",
        429,
        {"error": "you've reached your hourly usage limit, please wait or upgrade to continue"},
        C.QUOTA_EXHAUSTED,
    ),
    Row(
        "lmstudio",
        400,
        {"error": "The number of tokens to keep from the initial prompt is greater than the context length."},
        C.CONTEXT_LENGTH,
    ),
    Row("huggingface", 503, {"error": "Model m is currently loading", "estimated_time": 20.0}, C.OVERLOADED, None, 20),
]

AGGREGATORS = [
    Row("openrouter", 400, openrouter(400, "x is not a valid model ID"), C.MODEL_UNAVAILABLE, "400"),
    Row("openrouter", 401, openrouter(401, "No auth credentials found"), C.CREDENTIAL, "401"),
    Row(
        "openrouter",
        402,
        openrouter(402, "This request requires more credits, or fewer max_tokens.", provider_name=None),
        C.QUOTA_EXHAUSTED,
        "402",
    ),
    Row(
        "openrouter",
        402,
        openrouter(402, "In flight.", limit_source="openrouter_in_flight_budget"),
        C.RATE_LIMITED,
        "402",
        3,
        {"retry-after": "3"},
    ),
    Row(
        "openrouter",
        403,
        openrouter(403, "Forbidden", reasons=["violence"], flagged_input="…", provider_name="X"),
        C.CONTENT_POLICY,
        "403",
    ),
    Row(
        "openrouter",
        403,
        openrouter(403, 'x/y requires moderation on X. Your input was flagged for "violence".'),
        C.CONTENT_POLICY,
        "403",
    ),
    Row("openrouter", 404, openrouter(404, "No endpoints found for x/y."), C.MODEL_UNAVAILABLE, "404"),
    Row(
        "openrouter",
        404,
        openrouter(404, "No endpoints found that support tool use. To learn more, see the docs."),
        C.BAD_REQUEST,
        "404",
    ),
    Row(
        "openrouter", 404, openrouter(404, "No endpoints found matching your data policy."), C.MODEL_UNAVAILABLE, "404"
    ),
    Row("openrouter", 408, openrouter(408, "Your request timed out"), C.SERVER_ERROR, "408"),
    Row(
        "openrouter",
        429,
        openrouter(
            429,
            "Rate limit exceeded: free-models-per-day. Add 10 credits to unlock more",
            headers={"X-RateLimit-Limit": "50", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1800003600000"},
        ),
        C.RATE_LIMITED,
        "429",
        3600,
    ),
    Row(
        "openrouter",
        429,
        relayed(
            429,
            "x/y is temporarily rate-limited upstream. Please retry shortly.",
            limit_source="upstream_provider_shared_pool",
        ),
        C.RATE_LIMITED,
        "429",
    ),
    Row(
        "openrouter",
        429,
        relayed(429, {"error": {"message": "The engine is currently overloaded", "type": "engine_overloaded_error"}}),
        C.OVERLOADED,
        "429",
    ),
    Row(
        "openrouter",
        429,
        relayed(
            429,
            '{"error":{"message":"Your account org-1 is suspended due to insufficient '
            'balance","type":"exceeded_current_quota_error"}}',
        ),
        C.RATE_LIMITED,
        "429",
    ),
    Row(
        "openrouter",
        400,
        relayed(400, '{"error":{"message":"This is too long","code":"context_length_exceeded"}}'),
        C.CONTEXT_LENGTH,
        "context_length_exceeded",
    ),
    Row(
        "openrouter",
        400,
        relayed(400, "Invalid prompt: your prompt was flagged as potentially violating our usage policy."),
        C.CONTENT_POLICY,
        "400",
    ),
    Row(
        "openrouter",
        403,
        relayed(
            403,
            {
                "error": {
                    "code": "unsupported_country_region_territory",
                    "message": "Country not supported",
                    "type": "request_forbidden",
                }
            },
        ),
        C.MODEL_UNAVAILABLE,
        "unsupported_country_region_territory",
    ),
    Row(
        "openrouter",
        401,
        relayed(401, '{"error":{"message":"invalid key","code":"invalid_api_key"}}'),
        C.MODEL_UNAVAILABLE,
        "invalid_api_key",
    ),
    Row("openrouter", 402, relayed(402, '{"error":{"message":"Insufficient Balance"}}'), C.MODEL_UNAVAILABLE, "402"),
    Row("openrouter", 502, relayed(502, "upstream connect error"), C.SERVER_ERROR, "502"),
    Row(
        "openrouter",
        503,
        openrouter(503, "There is no available model provider that meets your routing requirements"),
        C.OVERLOADED,
        "503",
    ),
    Row(
        "litellm",
        400,
        litellm("400", "litellm.ContextWindowExceededError: OpenAIException - Error code: 400 - {'error': 'x'}"),
        C.CONTEXT_LENGTH,
        "400",
    ),
    Row(
        "litellm",
        400,
        litellm("400", "litellm.ContentPolicyViolationError: AzureException - refused"),
        C.CONTENT_POLICY,
        "400",
    ),
    Row("litellm", 400, litellm("400", "litellm.BadRequestError: OpenAIException - no"), C.BAD_REQUEST, "400"),
    Row(
        "litellm",
        400,
        litellm("400", "Budget has been exceeded! Current cost: 26.0, Max budget: 0.25"),
        C.QUOTA_EXHAUSTED,
        "400",
    ),
    Row(
        "litellm",
        429,
        litellm("429", "LiteLLM User: x, exceeded budget for model=m", "budget_exceeded"),
        C.QUOTA_EXHAUSTED,
        "429",
    ),
    Row(
        "litellm",
        429,
        litellm("429", "litellm.RateLimitError: AzureException - Please retry after 9 seconds.", "throttling_error"),
        C.RATE_LIMITED,
        "429",
        9,
    ),
    Row(
        "one-api",
        422,
        openai(" (request id: 1)", "upstream_error", "bad_response_status_code", "422"),
        C.BAD_REQUEST,
        "bad_response_status_code",
    ),
    Row(
        "cloudflare-ai",
        400,
        {"success": False, "errors": [{"code": 5006, "message": "must have required property"}]},
        C.BAD_REQUEST,
        "5006",
    ),
    Row("nim", 429, {"status": 429, "title": "Too Many Requests"}, C.RATE_LIMITED),
    Row(
        "problem",
        403,
        {"type": "https://x/errors/spend", "title": "Spend Limit Exceeded", "status": 403, "detail": "no"},
        C.CREDENTIAL,
    ),
    Row(
        "stanchion",
        429,
        {"error": {"message": "no target", "type": "rate_limit_error", "code": None, "retry_after_s": 4.2}},
        C.RATE_LIMITED,
        None,
        4.2,
    ),
]

OTHERS = [
    Row("mistral", 401, {"message": "Unauthorized", "request_id": "1"}, C.CREDENTIAL),
    Row("mistral", 401, {"detail": "Unauthorized"}, C.CREDENTIAL),
    Row(
        "mistral",
        422,
        {
            "detail": [
                {
                    "type": "extra_forbidden",
                    "loc": ["body", "store"],
                    "msg": "Extra inputs are not permitted",
                    "input": False,
                }
            ]
        },
        C.BAD_REQUEST,
    ),
    Row(
        "mistral",
        422,
        flat({"detail": [{"loc": ["body"], "msg": "Extra inputs are not permitted"}]}, "invalid_request_error"),
        C.BAD_REQUEST,
    ),
    Row("mistral", 429, {"message": "Requests rate limit exceeded"}, C.RATE_LIMITED),
    Row(
        "mistral", 429, flat("Rate limit exceeded", "rate_limited", "1300", raw_status_code=429), C.RATE_LIMITED, "1300"
    ),
    Row(
        "mistral",
        429,
        flat("Service tier capacity exceeded for this model.", "service_tier_capacity_exceeded", "3505"),
        C.OVERLOADED,
        "3505",
    ),
    Row("mistral", 429, flat("Service tier capacity exceeded for this model.", "invalid_request_error"), C.OVERLOADED),
    Row(
        "mistral",
        400,
        flat(
            "Prompt contains 140000 tokens and 0 draft tokens, too large for model with 131072 maximum context length",
            "invalid_request_error",
            "3051",
        ),
        C.CONTEXT_LENGTH,
        "3051",
    ),
    Row("groq", 413, openai(tpm(6000, 12328), "tokens", "rate_limit_exceeded"), C.TOO_LARGE, "rate_limit_exceeded"),
    Row(
        "groq",
        413,
        openai("Request Entity Too Large", "invalid_request_error", "request_too_large"),
        C.TOO_LARGE,
        "request_too_large",
    ),
    Row(
        "groq",
        429,
        openai(
            "Rate limit reached for model `m` on tokens per day (TPD): Limit 100000, Used 97050, Requested "
            "3619. Please try again in 9m38.016s. Need more tokens?",
            "tokens",
            "rate_limit_exceeded",
        ),
        C.RATE_LIMITED,
        "rate_limit_exceeded",
        578.016,
    ),
    Row(
        "groq",
        429,
        openai("Slow.", "requests", "rate_limit_exceeded"),
        C.RATE_LIMITED,
        "rate_limit_exceeded",
        2,
        {"retry-after": "2", "x-ratelimit-remaining-requests": "14370", "x-ratelimit-reset-requests": "2m59.56s"},
    ),
    Row(
        "groq",
        400,
        openai(
            "The model `m` has been decommissioned and is no longer supported.",
            "invalid_request_error",
            "model_decommissioned",
        ),
        C.MODEL_UNAVAILABLE,
        "model_decommissioned",
    ),
    Row(
        "groq",
        400,
        openai("The model `m` has been decommissioned and is no longer supported.", "invalid_request_error"),
        C.MODEL_UNAVAILABLE,
    ),
    Row(
        "groq",
        400,
        openai("Spend limit.", "invalid_request_error", "blocked_api_access"),
        C.QUOTA_EXHAUSTED,
        "blocked_api_access",
    ),
    Row(
        "groq",
        400,
        openai("Failed to call a function.", "invalid_request_error", "tool_use_failed"),
        C.BAD_REQUEST,
        "tool_use_failed",
    ),
    Row(
        "groq",
        403,
        openai("The model is blocked at the project level.", "permissions_error", "model_permission_blocked_project"),
        C.MODEL_UNAVAILABLE,
        "model_permission_blocked_project",
    ),
    Row("groq", 424, openai("A dependency of the request failed.", "invalid_request_error"), C.BAD_REQUEST),
    Row(
        "groq",
        498,
        openai("Flex tier capacity exceeded.", "capacity", "capacity_exceeded"),
        C.OVERLOADED,
        "capacity_exceeded",
    ),
    Row(
        "together",
        400,
        openai("Unable to access non-serverless model m.", "invalid_request_error", "model_not_available"),
        C.MODEL_UNAVAILABLE,
        "model_not_available",
    ),
    Row(
        "together",
        400,
        openai(
            "The dedicated endpoint for m is not running.", "invalid_request_error", "dedicated_endpoint_not_running"
        ),
        C.MODEL_UNAVAILABLE,
        "dedicated_endpoint_not_running",
    ),
    Row(
        "together",
        429,
        openai("You have been rate limited. Your rate limit is 60 queries per minute.", "credit_limit"),
        C.RATE_LIMITED,
    ),
    Row(
        "together",
        422,
        openai(
            "The input (300 tokens) is longer than the model's context length (200 tokens).", "invalid_request_error"
        ),
        C.CONTEXT_LENGTH,
    ),
    Row(
        "deepseek",
        402,
        openai("Insufficient Balance", "unknown_error", "invalid_request_error"),
        C.QUOTA_EXHAUSTED,
        "invalid_request_error",
    ),
    Row(
        "deepseek",
        401,
        openai("Authentication Fails", "authentication_error", "invalid_request_error"),
        C.CREDENTIAL,
        "invalid_request_error",
    ),
    Row(
        "deepseek",
        400,
        openai("Content Exists Risk", "invalid_request_error", "invalid_request_error"),
        C.CONTENT_POLICY,
        "invalid_request_error",
    ),
    Row(
        "deepseek",
        400,
        openai("Model Not Exist", "invalid_request_error", "invalid_request_error"),
        C.MODEL_UNAVAILABLE,
        "invalid_request_error",
    ),
    Row(
        "deepseek",
        400,
        openai(
            "This model's maximum context length is 65536 tokens. However, you requested 72814.",
            "invalid_request_error",
            "invalid_request_error",
        ),
        C.CONTEXT_LENGTH,
        "invalid_request_error",
    ),
    Row("deepseek", 503, openai("Server overloaded", "server_error"), C.OVERLOADED),
    Row(
        "xai",
        400,
        {"code": "Client specified an invalid argument", "error": "Incorrect API key provided: xa***23."},
        C.CREDENTIAL,
        "Client specified an invalid argument",
    ),
    Row(
        "xai",
        400,
        {
            "code": "Client specified an invalid argument",
            "error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        },
        C.CONTEXT_LENGTH,
        "Client specified an invalid argument",
    ),
    Row(
        "xai",
        429,
        {
            "code": "x y",
            "error": "Your team t has either used all available credits or reached its monthly spending limit.",
        },
        C.QUOTA_EXHAUSTED,
        "x y",
    ),
    Row(
        "xai",
        403,
        {
            "code": "permission-denied",
            "error": "Your team t has either used all available credits or reached its monthly spending limit.",
        },
        C.QUOTA_EXHAUSTED,
        "permission-denied",
    ),
    Row(
        "xai",
        403,
        {"code": "permission-denied", "error": "You have run out of credits or need a Grok subscription."},
        C.QUOTA_EXHAUSTED,
        "permission-denied",
    ),
    Row(
        "xai",
        403,
        {
            "code": "permission-denied",
            "error": "Content violates usage guidelines. Failed check: SAFETY_CHECK_TYPE_BIO",
        },
        C.CONTENT_POLICY,
        "permission-denied",
    ),
    Row(
        "moonshot",
        429,
        {
            "error": {
                "message": "The engine is currently overloaded, please try again later",
                "type": "engine_overloaded_error",
            }
        },
        C.OVERLOADED,
    ),
    Row(
        "moonshot",
        429,
        anthropic("rate_limit_error", "The engine is currently overloaded, please try again later"),
        C.OVERLOADED,
    ),
    Row(
        "moonshot",
        403,
        {
            "error": {
                "message": "Your account is not active, organization exceeded current quota, please "
                "check your plan and billing details",
                "type": "exceeded_current_quota_error",
            }
        },
        C.QUOTA_EXHAUSTED,
    ),
    Row(
        "moonshot",
        429,
        {
            "error": {
                "message": "request reached organization max RPM: 3, please try again after 1 seconds",
                "type": "rate_limit_reached_error",
            }
        },
        C.RATE_LIMITED,
        None,
        1,
    ),
    Row(
        "moonshot",
        400,
        openai("Your request exceeded model token limit: 131072 (requested: 140000)", "invalid_request_error"),
        C.CONTEXT_LENGTH,
    ),
    Row(
        "z.ai",
        429,
        {
            "type": "error",
            "error": {
                "type": "rate_limit_error",
                "code": "1113",
                "message": "[1113][Insufficient balance or no resource package. Please recharge.]",
            },
        },
        C.QUOTA_EXHAUSTED,
        "1113",
    ),
    Row("z.ai", 429, anthropic("1113", "Insufficient balance or no resource package."), C.QUOTA_EXHAUSTED),
    Row(
        "alibaba",
        429,
        openai(
            "You exceeded your current quota, please check your plan and billing details. For details, "
            "see error-code#token-limit",
            "insufficient_quota",
            "insufficient_quota",
        ),
        C.RATE_LIMITED,
        "insufficient_quota",
    ),
    Row(
        "alibaba",
        400,
        openai("Input data may contain inappropriate content.", "data_inspection_failed", "data_inspection_failed"),
        C.CONTENT_POLICY,
        "data_inspection_failed",
    ),
    Row(
        "bedrock",
        429,
        {"message": "Too many tokens, please wait before trying again."},
        C.RATE_LIMITED,
        None,
        None,
        {"x-amzn-errortype": "ThrottlingException:http://internal/"},
    ),
    Row(
        "bedrock",
        400,
        {"message": "The request exceeds a quota."},
        C.RATE_LIMITED,
        None,
        None,
        {"x-amzn-errortype": "ServiceQuotaExceededException"},
    ),
    Row(
        "bedrock",
        403,
        {"message": "You don't have access to the model with the specified model ID."},
        C.MODEL_UNAVAILABLE,
        None,
        None,
        {"x-amzn-errortype": "AccessDeniedException"},
    ),
    Row(
        "bedrock",
        403,
        {"message": "User is not authorized to perform this action."},
        C.CREDENTIAL,
        None,
        None,
        {"x-amzn-errortype": "AccessDeniedException"},
    ),
    Row(
        "bedrock",
        400,
        {"message": "Input is too long for requested model."},
        C.CONTEXT_LENGTH,
        None,
        None,
        {"x-amzn-errortype": "ValidationException"},
    ),
    Row(
        "bedrock",
        400,
        {"__type": "com.amazon.coral#ValidationException", "message": "Malformed input request."},
        C.BAD_REQUEST,
    ),
    Row(
        "bedrock",
        424,
        {"message": "The model failed."},
        C.SERVER_ERROR,
        None,
        None,
        {"x-amzn-errortype": "ModelErrorException"},
    ),
    Row(
        "bedrock",
        429,
        {"message": "The model is not ready."},
        C.OVERLOADED,
        None,
        None,
        {"x-amzn-errortype": "ModelNotReadyException"},
    ),
    Row("zen", 403, anthropic("RegionError", "This model is not available in your country."), C.MODEL_UNAVAILABLE),
]

FRONT_ENDS = [
    *(
        Row("cdn", status, PAGE, C.SERVER_ERROR)
        for status in (500, 502, 504, 520, 521, 522, 523, 524, 525, 526, 527, 530)
    ),
    Row("cdn", 503, PAGE, C.OVERLOADED, None, 5, {"retry-after": "5"}),
    Row("cdn", 403, PAGE, C.BAD_UPSTREAM_RESPONSE),
    Row("cdn", 403, b"\n  <html><head><title>403 Forbidden</title></head></html>", C.BAD_UPSTREAM_RESPONSE),
    Row("cdn", 400, "<html><head><title>400 Bad Request</title></head></html>", C.BAD_UPSTREAM_RESPONSE),
    Row("cdn", 401, "<html><head><title>401 Authorization Required</title></head></html>", C.CREDENTIAL),
    Row("cdn", 404, "<html><head><title>404 Not Found</title></head></html>", C.MODEL_UNAVAILABLE),
    Row("cdn", 413, "<html><head><title>413 Request Entity Too Large</title></head></html>", C.TOO_LARGE),
    Row("cdn", 429, PAGE, C.RATE_LIMITED),
    Row("cdn", 502, "error code: 502", C.SERVER_ERROR),
    Row("proxy", 503, "no healthy upstream", C.OVERLOADED),
    Row("proxy", 504, "upstream request timeout", C.SERVER_ERROR),
    Row("proxy", 408, "", C.SERVER_ERROR),
    Row("proxy", 409, "{}", C.SERVER_ERROR),
    Row("proxy", 425, "", C.SERVER_ERROR),
    Row("proxy", 499, "", C.SERVER_ERROR),
    Row("proxy", 451, "", C.MODEL_UNAVAILABLE),
    Row("proxy", 407, "", C.BAD_UPSTREAM_RESPONSE),
    Row("proxy", 421, "", C.BAD_UPSTREAM_RESPONSE),
    Row("proxy", 431, "", C.BAD_UPSTREAM_RESPONSE),
    Row("proxy", 302, PAGE, C.BAD_UPSTREAM_RESPONSE),
    Row("proxy", 418, "", C.BAD_REQUEST),
    Row("sdk header", 400, "{}", C.SERVER_ERROR, None, None, {"x-should-retry": "true"}),
    Row("sdk header", 400, "{}", C.BAD_REQUEST, None, None, {"x-should-retry": "false"}),
]

MORE = [
    Row(
        "openai",
        429,
        openai("That model is currently overloaded with other requests.", "requests_busy", None),
        C.RATE_LIMITED,
    ),
    Row("openai", 429, openai("That model is currently overloaded with other requests.", "server_error"), C.OVERLOADED),
    Row(
        "openai",
        500,
        openai("The engine is currently overloaded, please try again later.", "server_error"),
        C.OVERLOADED,
    ),
    Row(
        "xai",
        403,
        {"code": "personal-team-blocked:spending-limit", "error": "Blocked."},
        C.QUOTA_EXHAUSTED,
        "personal-team-blocked:spending-limit",
    ),
    Row(
        "xai",
        403,
        {"code": "permission-denied", "error": "Your newly created team doesn't have any credits yet."},
        C.QUOTA_EXHAUSTED,
        "permission-denied",
    ),
    Row(
        "azure-apim",
        403,
        {"statusCode": 403, "message": "Out of call volume quota. Quota will be replenished in 01:02:03."},
        C.QUOTA_EXHAUSTED,
    ),
    Row(
        "github",
        413,
        openai("Request body too large for m. Max size: 8000 tokens.", None, "tokens_limit_reached"),
        C.CONTEXT_LENGTH,
        "tokens_limit_reached",
    ),
    Row(
        "tgi",
        422,
        {
            "error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 "
            "`inputs` tokens and 100 `max_new_tokens`",
            "error_type": "validation",
        },
        C.CONTEXT_LENGTH,
    ),
    Row(
        "tgi",
        422,
        {"error": "Input validation error: `temperature` must be strictly positive", "error_type": "validation"},
        C.BAD_REQUEST,
    ),
    Row(
        "tgi",
        424,
        {"error": "Request failed during generation: Server error", "error_type": "generation"},
        C.SERVER_ERROR,
    ),
    Row("tgi", 429, {"error": "Model is overloaded", "error_type": "overloaded"}, C.OVERLOADED),
    Row(
        "litellm",
        400,
        litellm(
            "400",
            'litellm.BadRequestError: OpenAIException - {"error":{"message":"x","code":"context_length_exceeded"}}',
        ),
        C.CONTEXT_LENGTH,
        "400",
    ),
    Row(
        "litellm",
        400,
        litellm("400", 'litellm.BadRequestError: OpenAIException - {"error":{"message":"x","code":"invalid_api_key"}}'),
        C.BAD_REQUEST,
        "400",
    ),
    Row(
        "litellm",
        400,
        litellm("400", "/chat/completions: Invalid model name passed in model=m. Call `/v1/models`"),
        C.MODEL_UNAVAILABLE,
        "400",
    ),
    Row(
        "litellm",
        401,
        litellm("401", "key not allowed to access model", "key_model_access_denied"),
        C.MODEL_UNAVAILABLE,
        "401",
    ),
    Row("litellm", 401, litellm("401", "Authentication Error, expired", "expired_key"), C.CREDENTIAL, "401"),
    Row("mistral", 400, flat("Invalid model: m", "invalid_model", "1500"), C.MODEL_UNAVAILABLE, "1500"),
    Row(
        "azure",
        400,
        {
            "error": {
                "code": "OperationNotSupported",
                "message": "The chatCompletion operation does not work with the specified model, m.",
            }
        },
        C.MODEL_UNAVAILABLE,
        "OperationNotSupported",
    ),
    Row(
        "bedrock",
        400,
        {"message": "The provided model identifier is invalid."},
        C.MODEL_UNAVAILABLE,
        None,
        None,
        {"x-amzn-errortype": "ValidationException"},
    ),
    Row(
        "gemini-openai",
        400,
        [gemini(400, "INVALID_ARGUMENT", "Missing or invalid Authorization header.")],
        C.CREDENTIAL,
        "400",
    ),
    Row("anthropic", 400, anthropic("invalid_request_error", "This organization has been disabled."), C.CREDENTIAL),
    Row(
        "groq",
        400,
        openai("Organization has been restricted.", "invalid_request_error", "organization_restricted"),
        C.CREDENTIAL,
        "organization_restricted",
    ),
    Row("cdn", 403, {"success": False}, C.BAD_UPSTREAM_RESPONSE, None, None, {"cf-mitigated": "challenge"}),
]

ROWS = MORE + OPENAI + FALSE_FRIENDS + AZURE + ANTHROPIC + GEMINI + LOCAL + AGGREGATORS + OTHERS + FRONT_ENDS

CALLERS = frozenset({C.BAD_REQUEST, C.CONTEXT_LENGTH, C.CONTENT_POLICY, C.TOO_LARGE})
"""Classes in which the caller is at fault."""
