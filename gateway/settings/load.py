"""Loads the settings: one file and the environment in, frozen settings or every problem at once out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gateway.policy import GatewayPolicy
from gateway.settings.authorities import read_authorities
from gateway.settings.credentials import check_credentials
from gateway.settings.exposure import check_exposure
from gateway.settings.interpolate import fill
from gateway.settings.model import Settings, version_of
from gateway.settings.problems import Findings, Mark
from gateway.settings.references import check_references
from gateway.settings.regional import check_regional
from gateway.settings.residency import check_residency
from gateway.settings.resolve import resolve
from gateway.settings.running import check_running
from gateway.settings.validate import validate
from gateway.settings.yaml_nodes import parse

LARGEST = 1_000_000
"""Bytes of settings that are read."""


def load(path: Path, environ: Mapping[str, str], running: GatewayPolicy | None = None) -> Settings:
    """The settings of the file at `path`, its variables taken from `environ`.

    `running`: what a process runs with that shall take them over. What cannot change there is a problem too.

    Raises `SettingsError` with every problem that the file has; with the first one only where it is no YAML,
    since nothing after it can be known then. The files that it names (certificates) are opened, nothing else is.
    """
    findings = Findings(str(path))
    data = _read(path, findings)
    text = _text(data, findings) if data is not None else None
    tree = parse(text, findings) if text is not None else None
    if tree is None or data is None:
        findings.raise_any()
        raise AssertionError("a file without a tree has a problem")
    root = fill(tree, environ, findings)
    file = validate(root, findings)
    check_references(root, findings)
    check_residency(root, findings)
    check_credentials(root, findings)
    check_exposure(root, findings)
    authorities = read_authorities(root, findings)
    if file is not None:
        check_regional(root, file, findings)
    if running is not None and file is not None:
        check_running(root, file.gateway, running, findings)
    findings.raise_any()
    if file is None:
        raise AssertionError("a file that does not fit its model has a problem")
    return resolve(file, str(path), version_of(data), authorities)


def _read(path: Path, findings: Findings) -> bytes | None:
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        findings.add(Mark(1, 1), (), f"the file cannot be read ({reason}): check the path and its permissions")
        return None
    except ValueError:  # a NUL in the path
        findings.add(Mark(1, 1), (), "the path is not one of a file: check it")
        return None
    if len(data) > LARGEST:
        findings.add(Mark(1, 1), (), f"the file is larger than {LARGEST} bytes, which no settings are: check the path")
        return None
    return data


def _text(data: bytes, findings: Findings) -> str | None:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        findings.add(Mark(line, column), (), "a byte here is not UTF-8: save the file as UTF-8")
        return None
