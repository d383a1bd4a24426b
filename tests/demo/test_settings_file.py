"""The demo's settings file is one that the gateway takes, and holds no key."""

from __future__ import annotations

from pathlib import Path

from gateway.demo.settings_file import CLOUD, cloud_providers, demo_settings
from gateway.settings.load import load
from gateway.settings.model import Settings

MODELS = (("local-a", "http://127.0.0.1:5001/v1"), ("local-b", "http://127.0.0.1:5002/v1"))
KEYS = {"OPENAI_API_KEY": "sk-one", "ANTHROPIC_API_KEY": "sk-two", "GEMINI_API_KEY": "sk-three"}


def loaded(folder: Path, environ: dict[str, str]) -> tuple[str, Settings]:
    text = demo_settings(
        listen="127.0.0.1:8080",
        admin="127.0.0.1:8081",
        models=MODELS,
        cloud=cloud_providers(environ),
        environ=environ,
    )
    path = folder / "settings.yaml"
    path.write_text(text, encoding="utf-8")
    return text, load(path, environ)


def routes(settings: Settings) -> dict[str, list[str]]:
    return {route.name: [stop.target.name for stop in route.stops] for route in settings.routes}


def test_local_models_alone(tmp_path: Path) -> None:
    _, settings = loaded(tmp_path, {})
    assert routes(settings) == {"demo": ["local-a", "local-b"]}
    stop = settings.routes[0].stops[0]
    assert settings.routes[0].deadline_s == 60
    assert (stop.timeouts.connect, stop.timeouts.first_output) == (2, 20)
    assert (stop.target.breaker.minimum, stop.target.breaker.cooldown) == (1, 5)
    assert stop.target.credential.api_key is None


def test_cloud_providers_stand_in_front(tmp_path: Path) -> None:
    text, settings = loaded(tmp_path, {**KEYS, "OPENAI_MODEL": "my-$model: x"})
    assert routes(settings) == {
        "demo": ["openai", "anthropic", "gemini", "local-a", "local-b"],
        "local": ["local-a", "local-b"],
    }
    assert not any(key in text for key in KEYS.values())
    first = settings.targets[0]
    assert first.credential.api_key == "sk-one"
    assert first.model == "my-$model: x"
    assert first.provider.base_url == CLOUD[0].base_url


def test_an_empty_key_is_none() -> None:
    assert cloud_providers({"OPENAI_API_KEY": "", "GEMINI_API_KEY": "x"}) == (CLOUD[2],)
