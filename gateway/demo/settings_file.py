"""The settings file that the demo's gateway runs with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from gateway.demo.model_server import MODEL_ALIAS

ROUTE = "demo"
"""The model name that the demo's callers ask for."""

LOCAL_ROUTE = "local"
"""The local models alone, where a cloud provider stands in front of them in `demo`."""

_HEADER = """\
# Written by `stanchion demo`; it is written anew at every start. Keys are named, never stored here.
"""


@dataclass(frozen=True, slots=True)
class CloudProvider:
    """A provider that is put in front when its key is in the environment, through its OpenAI-compatible address."""

    name: str
    base_url: str
    key_variable: str
    model_variable: str
    default_model: str


CLOUD = (
    CloudProvider("openai", "https://api.openai.com/v1", "OPENAI_API_KEY", "OPENAI_MODEL", "gpt-4.1-mini"),
    CloudProvider(
        "anthropic", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", "ANTHROPIC_MODEL", "claude-haiku-4-5"
    ),
    CloudProvider(
        "gemini",
        "https://generativelanguage.googleapis.com/v1beta/openai",
        "GEMINI_API_KEY",
        "GEMINI_MODEL",
        "gemini-flash-latest",
    ),
)


def cloud_providers(environ: Mapping[str, str]) -> tuple[CloudProvider, ...]:
    """Those whose key is set."""
    return tuple(provider for provider in CLOUD if environ.get(provider.key_variable))


def demo_settings(
    *,
    listen: str,
    admin: str,
    models: Sequence[tuple[str, str]],
    cloud: Sequence[CloudProvider] = (),
    environ: Mapping[str, str] | None = None,
) -> str:
    """The file's text. `models`: name and base URL of each local model, the preferred one first."""
    environ = environ or {}
    providers: dict[str, Any] = {}
    targets: dict[str, Any] = {}
    for entry in cloud:
        providers[entry.name] = {
            "dialect": "openai",
            "base_url": entry.base_url,
            "api_key": f"${{{entry.key_variable}}}",
        }
        # A name from the environment is text, whatever it holds: a dollar in it refers to nothing.
        model = (environ.get(entry.model_variable) or entry.default_model).replace("$", "$$")
        targets[entry.name] = {"provider": entry.name, "model": model}
    for name, base_url in models:
        providers[f"llama-{name}"] = {"dialect": "openai", "base_url": base_url, "auth": "none"}
        targets[name] = {"provider": f"llama-{name}", "model": MODEL_ALIAS}
    limits = {"deadline": "60s", "timeouts": {"connect": "2s", "first_output": "20s"}}
    routes = {ROUTE: {"targets": list(targets), **limits}}
    if cloud:
        routes[LOCAL_ROUTE] = {"targets": [name for name, _ in models], **limits}
    document = {
        "version": 1,
        "gateway": {"listen": listen, "admin": admin, "drain": "2s", "log": {"format": "text", "level": "info"}},
        "providers": providers,
        "targets": targets,
        "defaults": {"breaker": {"window": "30s", "minimum": 1, "failure_ratio": 0.5, "cooldown": "5s"}},
        "routes": routes,
    }
    return _HEADER + str(yaml.dump(document, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=120))


class _Plain(yaml.SafeDumper):
    """Without anchors: a file that people read repeats itself."""

    def ignore_aliases(self, data: Any) -> bool:
        return True
