"""The signs by which a provider's error is told: codes, types and words, as data.

Each line names where the sign comes from: a provider's own page or source, or public reports that quote the error. A sign
counts only with one of its statuses; the first line that fits wins, so the special ones stand before the general. Add a line
for a new provider, never a branch. `tests/llm/error_corpus.py` has an error for every line: add one there too.

What decides doubtful cases: a hold or a breaker's failure stops a target for everybody, so what one caller's request can
bring about must do neither.
"""

from __future__ import annotations

from llm.classes import ErrorClass as C
from llm.sign import ANY, Sign
from llm.sign import sign as _sign

_GENERIC_OF = {
    "OpenAI, Anthropic, and who speaks their dialects": (
        "invalid_request_error invalid_request bad_request bad_request_error server_error internal_error "
        "internal_server_error api_error error unknown_error unknown"
    ),
    "vLLM: names of exceptions": "badrequesterror internalservererror notfounderror",
    "Gemini: canonical states": (
        "invalid_argument failed_precondition permission_denied not_found internal resource_exhausted badrequest"
    ),
    "Bedrock": "validationexception validationerror",
    "xAI": "permission-denied",
    "TGI": "validation",
    "Proxies, around another's error: OpenRouter, LiteLLM (which writes `None` as a text), one-api": (
        "provider_error upstream_error apierror bad_response_status_code failure throttling_error none"
    ),
}

GENERIC = frozenset(name for names in _GENERIC_OF.values() for name in names.split())
"""Names that say nothing beyond the status, numbers apart."""

ACCOUNT = frozenset({C.QUOTA_EXHAUSTED, C.CREDENTIAL})
"""Classes that speak of an account. An aggregator that hands on such an error tells of its own account at the provider behind
it, which is not the caller's: the key that it was asked with is good, and so are its other models."""

SIGNS: tuple[Sign, ...] = (
    # Errors that bear another one's name or status.
    _sign(
        C.RATE_LIMITED,
        "OpenRouter errors page: a 402 for credit that running requests hold passes by itself",
        (402,),
        "in_flight_budget_exhausted openrouter_in_flight_budget",
    ),
    _sign(
        C.TOO_LARGE,
        "Groq (413) and OpenAI (429): one request above a whole minute's tokens, which no wait cures",
        (413, 429),
        "rate_limit_exceeded",
        begins=("request too large for",),
        both=True,
    ),
    _sign(
        C.RATE_LIMITED,
        "Alibaba Model Studio error codes (#token-limit): tokens a minute, under OpenAI's name for a spent account",
        (429,),
        "insufficient_quota",
        ("error-code#token-limit",),
        both=True,
    ),
    _sign(C.RATE_LIMITED, "OpenAI error codes: slow_down with 429, requests that grow too fast", (429,), "slow_down"),
    _sign(
        C.OVERLOADED,
        "OpenAI error codes guide; Moonshot, under Anthropic's name for a rate limit",
        (429,),
        "rate_limit_error",
        ("currently overloaded",),
        both=True,
    ),
    _sign(
        C.OVERLOADED,
        "Mistral: capacity of the model, not the caller's limit (said by its engineers); Azure OpenAI at peak load",
        (429,),
        "service_tier_capacity_exceeded",
        ("service tier capacity exceeded", "currently experiencing high demand", "currently overloaded"),
    ),
    _sign(
        C.QUOTA_EXHAUSTED,
        "Gemini billing: prepaid credit used up",
        (402, 429),
        words=("prepayment credits are depleted",),
    ),
    _sign(
        C.RATE_LIMITED,
        "Gemini rate limits: a spent window, in the words of OpenAI's spent account; it counts each model for itself, a day's "
        "requests too. Vertex AI error code 429",
        (429,),
        "resource_exhausted",
    ),
    # The account has no money or no quota left.
    _sign(
        C.QUOTA_EXHAUSTED,
        "OpenAI error codes guide and spend limits; Azure OpenAI; OpenRouter errors page",
        (400, 401, 402, 403, 429),
        "insufficient_quota billing_hard_limit_reached billing_not_active account_deactivated insufficient_credits "
        "credit_balance_exhausted organization_usage_limit_exceeded organization_spend_limit_exceeded "
        "project_spend_limit_exceeded",
        (
            "exceeded your current quota",
            "credit balance is too low",
            "insufficient credits",
            "billing hard limit",
        ),
    ),
    _sign(
        C.QUOTA_EXHAUSTED,
        "Anthropic errors and rate limits: billing, spend limits of an organization or a workspace",
        (400, 402, 403, 429),
        "billing_error enforced_spend_limit_reached",
        begins=(
            "you have reached your specified api usage limits",
            "you have reached your specified workspace api usage limits",
        ),
    ),
    _sign(
        C.QUOTA_EXHAUSTED,
        "Groq spend limits; Moonshot errors page; Z.ai (1113)",
        (400, 403, 429),
        "blocked_api_access exceeded_current_quota_error 1113",
        ("insufficient balance",),
    ),
    _sign(
        C.QUOTA_EXHAUSTED,
        "LiteLLM proxy/_types.py: ProxyErrorTypes",
        (400, 401, 403, 429),
        "budget_exceeded",
        begins=("budget has been exceeded",),
    ),
    _sign(
        C.QUOTA_EXHAUSTED,
        "xAI: 429 or 403 of a team without credits",
        (403, 429),
        "personal-team-blocked:spending-limit",
        ("used all available credits", "doesn't have any credits", "have run out of credits"),
    ),
    _sign(
        C.QUOTA_EXHAUSTED,
        "Ollama's cloud: windows of hours and weeks that count for the account",
        (429,),
        words=("hourly usage limit", "session usage limit", "weekly usage limit"),
    ),
    _sign(
        C.QUOTA_EXHAUSTED,
        "Azure API Management, quota policy: 403",
        (403,),
        begins=("out of call volume quota",),
    ),
    _sign(
        C.MODEL_UNAVAILABLE,
        "OpenRouter: the provider behind a model refuses the aggregator itself",
        (401, 402, 403),
        relayed=True,
    ),
    _sign(C.QUOTA_EXHAUSTED, "HTTP 402 Payment Required; DeepSeek: Insufficient Balance", (402,)),
    # The provider's policy on content.
    _sign(
        C.CONTENT_POLICY,
        "OpenAI error codes; Azure OpenAI content filtering (and its inner error); Alibaba Model Studio error codes",
        (400, 403, 422),
        "content_policy_violation content_filter responsibleaipolicyviolation moderation_blocked data_inspection_failed "
        "datainspectionfailed",
        ("content management policy", "content policy", "safety system"),
    ),
    _sign(
        C.CONTENT_POLICY,
        "OpenAI reasoning models: invalid_prompt stands for other faults too",
        (400,),
        begins=("invalid prompt: your prompt was flagged",),
    ),
    _sign(
        C.CONTENT_POLICY,
        "Anthropic: a 400 of its output filter; DeepSeek: a 400; xAI: a 400 or 403",
        (400, 403),
        words=("content filtering policy",),
        begins=("content exists risk", "content violates usage guidelines"),
    ),
    _sign(
        C.CONTENT_POLICY,
        "LiteLLM exceptions.py, in front of the provider's words",
        (400,),
        begins=("litellm.contentpolicyviolationerror", "litellm.badrequesterror: litellm.contentpolicyviolationerror"),
    ),
    _sign(
        C.CONTENT_POLICY,
        "OpenRouter errors page: a 403 for input that its moderation flagged",
        (403,),
        "flagged_input",
        ("requires moderation", "was flagged"),
    ),
    # The request is longer than the model's window.
    _sign(
        C.CONTEXT_LENGTH,
        "OpenAI; vLLM protocol errors; llama.cpp server (exceed_context_size_error); GitHub (tokens_limit_reached); Z.ai",
        (400, 413, 422, 500),
        "context_length_exceeded exceed_context_size_error string_above_max_length context_window_exceeded "
        "tokens_limit_reached model_context_window_exceeded",
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
        C.CONTEXT_LENGTH,
        "Anthropic (input and max_tokens together); Gemini and Vertex AI; xAI; Groq; Bedrock",
        (400, 413, 422),
        words=(
            "exceed context limit",
            "exceeds the maximum number of tokens",
            "maximum prompt length is",
            "reduce the length of the messages",
            "input is too long for requested model",
        ),
        begins=("input length and `max_tokens` exceed context limit",),
    ),
    _sign(
        C.CONTEXT_LENGTH,
        "Moonshot; LM Studio; Ollama",
        (400, 413, 422),
        words=("exceeded model token limit", "greater than the context length", "max context length"),
    ),
    _sign(
        C.CONTEXT_LENGTH,
        "TGI router/src/validation.rs; Together error codes (403)",
        (400, 403, 422),
        begins=(
            "input validation error: `inputs` tokens + `max_new_tokens` must be <=",
            "input validation error: `inputs` must have less than",
        ),
    ),
    _sign(
        C.CONTEXT_LENGTH,
        "LiteLLM exceptions.py, in front of the provider's words",
        (400,),
        begins=("litellm.contextwindowexceedederror", "litellm.badrequesterror: litellm.contextwindowexceedederror"),
    ),
    # What the caller names or asks for is not there.
    _sign(
        C.BAD_REQUEST,
        "OpenRouter: no endpoint that supports tools, images or parameters of this one request",
        (404,),
        begins=("no endpoints found that support",),
    ),
    _sign(
        C.BAD_REQUEST,
        "OpenAI and Gemini files: one that the caller names and that is not there",
        (403, 404),
        "file_not_found",
        begins=("no such file object", "you do not have permission to access the file"),
    ),
    _sign(C.BAD_REQUEST, "llama.cpp server: a feature that it was not started with", (501,), "not_supported_error"),
    # Nobody serves the model here.
    _sign(
        C.MODEL_UNAVAILABLE,
        "OpenAI deprecations page; Groq error codes; Azure OpenAI (DeploymentNotFound and kin); Together; Mistral",
        (400, 403, 404, 410, 422),
        "model_not_found model_decommissioned model_not_available unknown_model deploymentnotfound operationnotsupported "
        "dedicated_endpoint_not_running invalid_model",
        (
            "model has been deprecated",
            "model has been retired",
            "model has been decommissioned",
            "model does not exist",
            "has been decommissioned and is no longer supported",
        ),
    ),
    _sign(
        C.MODEL_UNAVAILABLE,
        "OpenRouter; DeepSeek; LiteLLM proxy: a 400",
        (400,),
        words=("is not a valid model id", "invalid model name passed in"),
        begins=("model not exist",),
    ),
    _sign(
        C.MODEL_UNAVAILABLE,
        "LiteLLM proxy: a key that may not use the model; Groq: a project or an organization that may not",
        (401, 403),
        "key_model_access_denied team_model_access_denied model_permission_blocked_org model_permission_blocked_project",
    ),
    _sign(
        C.MODEL_UNAVAILABLE,
        "Bedrock user guide: access to the model not granted, or not offered on demand",
        (400, 403),
        "accessdeniedexception validationexception",
        (
            "access to the model with the specified model id",
            "provided model identifier is invalid",
            "on-demand throughput isn",
        ),
        both=True,
    ),
    _sign(
        C.MODEL_UNAVAILABLE,
        "OpenAI supported countries (403); Gemini troubleshooting page (400); OpenCode Zen: the key is good elsewhere",
        (400, 403),
        "unsupported_country_region_territory regionerror",
        ("user location is not supported",),
    ),
    _sign(
        C.MODEL_UNAVAILABLE,
        "HTTP 404 and 410; also a wrong base_url, which is no caller's fault; 451, for the place",
        (404, 410, 451),
    ),
    # The key or the account is refused.
    _sign(C.BAD_UPSTREAM_RESPONSE, "A page of a CDN or a firewall, such as a challenge", (400, 403), page=True),
    _sign(
        C.CREDENTIAL,
        "OpenAI error codes; Gemini's 400 for a bad key; xAI's too; LiteLLM (expired_key); Groq (organization_restricted)",
        (400, 401, 403),
        "invalid_api_key api_key_invalid authentication_error permission_error account_suspended expired_key "
        "organization_restricted",
        ("api key not valid", "incorrect api key"),
    ),
    _sign(
        C.CREDENTIAL,
        "Gemini's OpenAI-compatible address; Anthropic: 400s",
        (400,),
        begins=("missing or invalid authorization header", "this organization has been disabled"),
    ),
    _sign(C.CREDENTIAL, "HTTP 401 and 403", (401, 403)),
    # The provider cannot now.
    _sign(
        C.OVERLOADED,
        "Anthropic errors page; OpenAI error codes; llama.cpp (unavailable_error); google.rpc.Code; Moonshot; Bedrock; TGI",
        ANY,
        "overloaded_error overloaded engine_overloaded engine_overloaded_error slow_down service_unavailable "
        "service_unavailable_error server_is_overloaded unavailable_error unavailable capacity_exceeded "
        "modelnotreadyexception serviceunavailableexception",
    ),
    _sign(
        C.OVERLOADED,
        "OpenAI error codes guide: the engine, or that model, is currently overloaded",
        (500, 502),
        words=("currently overloaded",),
    ),
    _sign(C.OVERLOADED, "HTTP 503; 529 of Anthropic; 498 of Groq", (498, 503, 529)),
    # Too fast.
    _sign(
        C.RATE_LIMITED,
        "OpenAI and Anthropic rate limits; google.rpc.Code; Mistral (rate_limited); Bedrock; Moonshot; Azure OpenAI",
        ANY,
        "rate_limit_exceeded rate_limit_error rate_limited rate_limit_reached_error ratelimitreached resource_exhausted "
        "throttlingexception servicequotaexceededexception",
    ),
    _sign(C.RATE_LIMITED, "HTTP 429", (429,)),
    _sign(C.TOO_LARGE, "HTTP 413", (413,)),
    # The rest goes by its status.
    _sign(
        C.SERVER_ERROR,
        "TGI router/src/server.rs; Bedrock ModelErrorException: the model failed (424)",
        (424,),
        "generation incomplete_generation modelerrorexception",
    ),
    _sign(
        C.SERVER_ERROR,
        "HTTP 408 and 425; 409, as the SDKs of OpenAI and Anthropic take it; 499, a front end that gave its server up",
        (408, 409, 425, 499),
    ),
    _sign(
        C.BAD_UPSTREAM_RESPONSE,
        "HTTP 405 406 407 411 421 426 431: about the message that the gateway itself makes, not what is asked in it",
        (405, 406, 407, 411, 421, 426, 431),
    ),
)
