"""Asks a running gateway's admin address, and turns every way that can fail into one sentence that says what to do."""

from __future__ import annotations

import http.client
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

DEFAULT_ADMIN = "http://127.0.0.1:8081"
TARGETS_PATH, RELOAD_PATH, REGIONS_PATH = "/admin/v1/targets", "/admin/v1/reload", "/admin/v1/regions"
_LARGEST_ANSWER = 16_000_000


class AdminError(Exception):
    """The gateway could not be asked. The message is for the person at the terminal."""


def admin_url(text: str) -> str:
    """`text` as a base URL without a trailing slash; `HOST:PORT` alone means http. Raises ValueError."""
    url = text if "://" in text else f"http://{text}"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{text!r} is not an admin address: write http://HOST:PORT, such as {DEFAULT_ADMIN}")
    try:
        _ = parts.port
    except ValueError:
        raise ValueError(f"{text!r} has a port that is not one: write a number up to 65535") from None
    return url.rstrip("/")


def url_of_address(host: str, port: int) -> str:
    """The URL under which this machine reaches a listen address, a wildcard one included."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def fetch_targets(base_url: str, token: str | None = None, *, timeout_s: float = 5.0) -> dict[str, Any]:
    """The object of `GET /admin/v1/targets`. Blocking. Raises AdminError."""
    answer = _ask(base_url, "GET", TARGETS_PATH, token, timeout_s)
    if not isinstance(answer.get("targets"), list):
        raise AdminError(_stranger(base_url))
    return answer


def ask_reload(base_url: str, token: str | None = None, *, timeout_s: float = 30.0) -> dict[str, Any]:
    """The object of `POST /admin/v1/reload`, whether applied or refused (then `problems` is a list of objects). Blocking.

    Raises AdminError.
    """
    answer = _ask(base_url, "POST", RELOAD_PATH, token, timeout_s, good=422)
    applied, problems = answer.get("applied"), answer.get("problems")
    listed = isinstance(problems, list) and bool(problems) and all(isinstance(one, dict) for one in problems)
    if applied is not True and not (applied is False and listed):
        raise AdminError(_stranger(base_url))
    return answer


def fetch_regions(base_url: str, token: str | None = None, *, timeout_s: float = 5.0) -> dict[str, Any]:
    """The object of `GET /admin/v1/regions`. Blocking. Raises AdminError."""
    answer = _ask(base_url, "GET", REGIONS_PATH, token, timeout_s)
    if not isinstance(answer.get("shards"), list):
        raise AdminError(_stranger(base_url))
    return answer


def post_lines(
    base_url: str, path: str, token: str | None, body: Mapping[str, Any], *, timeout_s: float
) -> Iterator[dict[str, Any]]:
    """What a POST answers, line by line as it comes; an error answer is one line with its `error`. Blocking.

    Raises AdminError.
    """
    headers = {"accept": "application/x-ndjson", "content-type": "application/json"}
    request = urllib.request.Request(  # noqa: S310
        base_url + path, data=json.dumps(body).encode(), headers=headers, method="POST"
    )
    _sign(request, token)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        try:
            with opener.open(request, timeout=timeout_s) as response:
                for line in response:
                    yield _object(base_url, line)
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 401:
                    raise AdminError(_refusal(base_url, error.code, bool(token))) from None
                answer = _object(base_url, error.read(_LARGEST_ANSWER))
                if not isinstance(answer.get("error"), dict):
                    raise AdminError(_refusal(base_url, error.code, bool(token))) from None
                yield {**answer, "status": error.code}
    except (OSError, http.client.HTTPException) as error:  # URLError is an OSError
        raise AdminError(_unreachable(base_url, error, timeout_s)) from None


def _ask(
    base_url: str, method: str, path: str, token: str | None, timeout_s: float, *, good: int = 200
) -> dict[str, Any]:
    """The JSON object of an answer with 2xx or the status `good`."""
    # The token must not travel on to wherever a redirect points, nor through a proxy: this is the gateway itself.
    request = urllib.request.Request(base_url + path, headers={"accept": "application/json"}, method=method)  # noqa: S310
    _sign(request, token)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        try:
            with opener.open(request, timeout=timeout_s) as response:
                body = response.read(_LARGEST_ANSWER)
        except urllib.error.HTTPError as error:
            with error:
                if error.code != good:
                    raise AdminError(_refusal(base_url, error.code, bool(token))) from None
                body = error.read(_LARGEST_ANSWER)
    except (OSError, http.client.HTTPException) as error:  # URLError is an OSError
        raise AdminError(_unreachable(base_url, error, timeout_s)) from None
    return _object(base_url, body)


def _sign(request: urllib.request.Request, token: str | None) -> None:
    if token:
        if not token.isascii() or not token.isprintable():
            raise AdminError(
                "the admin token holds characters that no HTTP header can carry: check it for a stray line end"
            )
        request.add_unredirected_header("authorization", f"Bearer {token}")


def _object(base_url: str, body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        raise AdminError(_stranger(base_url)) from None
    if not isinstance(answer, dict):
        raise AdminError(_stranger(base_url))
    return answer


def _refusal(base_url: str, status: int, had_token: bool) -> str:
    if status in (401, 403):
        what = "refused the admin token" if had_token else "asks for the admin token"
        return f"the gateway at {base_url} {what}: pass --token TOKEN or set STANCHION_ADMIN_TOKEN"
    if status >= 500:
        return f"the gateway at {base_url} answered with status {status}: look into its log"
    return _stranger(base_url)


def _unreachable(base_url: str, error: Exception, timeout_s: float) -> str:
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    start = "start one with `stanchion serve --config FILE`, or say where its admin address is with --admin URL"
    if isinstance(cause, TimeoutError):
        return f"{base_url} did not answer within {timeout_s:g} s: the gateway hangs, or the address is wrong"
    if isinstance(cause, ConnectionRefusedError):
        return f"no gateway listens at {base_url}: {start}"
    if isinstance(cause, socket.gaierror):
        return f"the host of {base_url} is not known: {start}"
    if isinstance(cause, http.client.HTTPException):
        return _stranger(base_url)
    text = cause.strerror if isinstance(cause, OSError) and cause.strerror else str(cause)
    return f"{base_url} cannot be reached ({text}): {start}"


def _stranger(base_url: str) -> str:
    return (
        f"what answers at {base_url} is not a Stanchion admin address: "
        "the admin port is not the one that agents use (8081 if the settings do not say otherwise); pass it with --admin URL"
    )
