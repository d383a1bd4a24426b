"""Settings files for tests: a small valid one, changed in one place, loaded from a real file."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from gateway.settings.load import load
from gateway.settings.model import Settings
from gateway.settings.problems import Problem, SettingsError

VALID = """\
version: 1
gateway:
  listen: 127.0.0.1:8080
  admin: 127.0.0.1:8081
providers:
  p:
    dialect: openai
    base_url: http://127.0.0.1:9/v1
targets:
  gpt-eu:
    provider: p
    model: m
  gpt-us:
    provider: p
    model: m
routes:
  support:
    targets: [gpt-eu, gpt-us]
"""


def changed(*changes: tuple[str, str]) -> str:
    """The valid file with each first text, which has to be in it, replaced by the second."""
    text = VALID
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def load_bytes(data: bytes, environ: Mapping[str, str] | None = None) -> Settings:
    """The settings of a file with these bytes."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "settings.yaml"
        file.write_bytes(data)
        return load(file, environ or {})


def load_text(text: str, environ: Mapping[str, str] | None = None) -> Settings:
    """The settings of a file with this text."""
    return load_bytes(text.encode(), environ)


def problems(text: str, environ: Mapping[str, str] | None = None) -> tuple[Problem, ...]:
    """The problems of a file that has to have some."""
    with pytest.raises(SettingsError) as caught:
        load_text(text, environ)
    assert caught.value.problems
    return caught.value.problems


def problem(text: str, environ: Mapping[str, str] | None = None) -> Problem:
    """The problem of a file that has to have exactly one."""
    found = problems(text, environ)
    assert len(found) == 1, [str(each) for each in found]
    return found[0]
