"""Keys and headers: each provider has the key it asks for, each caller its own, and all of it can be sent.

No message here repeats a value.
"""

from __future__ import annotations

import hashlib
import re

from gateway.settings.nodes import Broken, Mapping, Text, key_mark
from gateway.settings.problems import Findings, Mark, Path

_SENDABLE = re.compile(r"[\x21-\x7e]+")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

OWN_HEADERS = frozenset(
    {
        "accept-encoding",
        "authorization",
        "connection",
        "content-encoding",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""Headers of the connection, the framing and the authorization: a provider's `headers` may not set them."""


def check_credentials(root: Mapping, findings: Findings) -> None:
    """Note every key that is missing, doubled or cannot be sent, and every header that may not be."""
    for path, provider in root.mappings("providers"):
        _provider(path, provider, root, findings)
        _headers((*path, "headers"), provider, findings)
    _callers(root, findings)
    gateway = root.mapping("gateway")
    if gateway is not None:
        _sendable(gateway.get("admin_token"), ("gateway", "admin_token"), findings)


def _provider(path: Path, provider: Mapping, root: Mapping, findings: Findings) -> None:
    own, several = provider.get("api_key"), provider.get("credentials")
    _sendable(own, (*path, "api_key"), findings)
    for at, each in provider.mappings("credentials"):
        _sendable(each.get("api_key"), (*path, *at, "api_key"), findings)
    auth = provider.text("auth")
    asks_for_none = auth is not None and auth.value == "none"
    written = [key for key in ("api_key", "credentials") if key in provider.entries]
    if own is not None and several is not None:
        mark = provider.entries["credentials"].mark
        findings.add(mark, (*path, "credentials"), "both api_key and credentials are written: keep one of them")
    if asks_for_none and written:
        message = f"auth: none sends no key, but {written[0]} is written: remove one of them"
        findings.add(provider.entries[written[0]].mark, (*path, written[0]), message)
    base_url = provider.text("base_url")
    if (
        not written
        and base_url is not None
        and base_url.value.lower().startswith("https:")
        and not asks_for_none
        and not isinstance(provider.get("auth"), Broken)
    ):
        message = "api_key is missing: write it, or auth: none if the provider asks for none"
        findings.add(key_mark(root, path), (*path, "api_key"), message)


def _headers(path: Path, provider: Mapping, findings: Findings) -> None:
    headers = provider.mapping("headers")
    seen: dict[str, Mark] = {}
    for name, entry in headers.entries.items() if headers is not None else ():
        lower, at = name.lower(), (*path, name)
        if not _HEADER_NAME.fullmatch(name):
            findings.add(entry.mark, at, "this is not the name of a header: use letters, digits and -")
        elif lower in OWN_HEADERS:
            advice = "write the key under api_key" if "auth" in lower else "remove it"
            findings.add(entry.mark, at, f"the header {lower!r} is the gateway's own to set: {advice}")
        elif lower in seen:
            findings.add(entry.mark, at, f"the header stands twice, first in line {seen[lower].line}: keep one of them")
        seen.setdefault(lower, entry.mark)
        if isinstance(entry.value, Text):
            _header_value(entry.value, at, findings)


def _header_value(value: Text, path: Path, findings: Findings) -> None:
    if _CONTROL.search(value.value):
        findings.add(value.mark, path, "the header holds a line break or a control character: write one line")
    elif any(ord(character) > 0xFF for character in value.value):
        findings.add(value.mark, path, "the header holds a character that headers cannot carry: use Latin-1 or ASCII")


def _callers(root: Mapping, findings: Findings) -> None:
    first: dict[str, Mark] = {}
    for path, caller in root.mappings("callers"):
        key, sha256 = caller.get("key"), caller.get("key_sha256")
        _sendable(key, (*path, "key"), findings)
        if key is None and sha256 is None:
            message = "a caller needs a key: write key, or key_sha256 with its SHA-256"
            findings.add(key_mark(root, path), (*path, "key"), message)
        elif key is not None and sha256 is not None:
            mark = caller.entries["key_sha256"].mark
            findings.add(mark, (*path, "key_sha256"), "both key and key_sha256 are written: keep one of them")
        for name, node in (("key", key), ("key_sha256", sha256)):
            if not isinstance(node, Text) or not node.value:
                continue
            digest = hashlib.sha256(node.value.encode()).hexdigest() if name == "key" else node.value
            if digest in first and key is not None and sha256 is not None:
                continue  # one caller that wrote both forms of its key, which has been said
            if digest in first:
                message = f"another caller has the same key, in line {first[digest].line}: give each caller its own"
                findings.add(node.mark, (*path, name), message)
            else:
                first[digest] = node.mark


def _sendable(node: object, path: Path, findings: Findings) -> None:
    if not isinstance(node, Text):
        return
    if not node.value:
        source = f": set {' and '.join(node.variables)}" if node.variables else ": write it"
        findings.add(node.mark, path, f"the key is empty{source}")
    elif not _SENDABLE.fullmatch(node.value):
        message = "a blank, a line break or a character beyond ASCII is in the key, which cannot be sent: remove it"
        findings.add(node.mark, path, message)
