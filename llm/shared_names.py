"""What breakers and holds are called on a board that replicas share.

A name is readable up to a `#`; what follows is a digest of all that makes the thing the same one. So replicas whose settings
differ, as they do while new ones are rolled out, do not take one for the other: a target that moved to another address is
another name. A provider's key is never a part of a name: only a digest of it, with its address and its name, is, and only of
what holds the key itself. A digest cannot be turned back, but tells whoever guesses a key that it is the one; a key that can be
guessed is none.
"""

from __future__ import annotations

import hashlib
import hmac
import json

from llm.holds import HoldKey
from llm.spec import Credential, ProviderSpec, TargetSpec

_DIGEST_BYTES = 12
_LONGEST = 80
"""Characters of a readable part; the digest has all of it."""


def provider_name(provider: ProviderSpec) -> str:
    """The breaker of a provider: an address on the way that leads there."""
    return _name("provider", provider.name, *_place(provider))


def target_name(target: TargetSpec) -> str:
    """The breaker of a target. Its key may change under the same name, as it may within a process."""
    provider = target.provider
    return _name("target", target.name, provider.name, *_place(provider), target.model, target.credential.name)


def hold_name(target: TargetSpec, key: HoldKey) -> str:
    """A hold of `target` that goes by `key`."""
    provider, credential = target.provider, target.credential
    match key[0]:
        case "target":
            return _name("overload", target.name, provider.name, provider.base_url, target.model, credential.name)
        case "model":
            return _name("model", target.model, provider.name, provider.base_url)
    if isinstance(key[-1], Credential):
        return _name("credential", credential.name, provider.name, provider.base_url, _of_key(provider, credential))
    return _name("rate", credential.name, provider.name, provider.base_url, target.model)


def _place(provider: ProviderSpec) -> tuple[str, ...]:
    proxy = provider.proxy
    return (provider.dialect, provider.base_url, *((proxy.host, str(proxy.port)) if proxy is not None else ()))


def _of_key(provider: ProviderSpec, credential: Credential) -> str:
    text = json.dumps([provider.base_url, credential.name])
    key = (credential.api_key or "").encode("utf-8", "surrogateescape")
    return hmac.digest(key, text.encode(), "sha256").hex()


def _name(kind: str, name: str, *rest: str) -> str:
    digest = hashlib.sha256(json.dumps([kind, name, *rest]).encode()).digest()[:_DIGEST_BYTES]
    return f"{kind} {name[:_LONGEST]}#{digest.hex()}"
