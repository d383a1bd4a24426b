"""What is installed: our import names are ours alone, the command is there, and importing does nothing."""

from __future__ import annotations

import importlib.metadata
import pkgutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAMES = ("availability", "gateway", "llm", "quota", "regions", "sessions", "stanchion")
MODULES = sorted(
    {*NAMES}
    | {
        module.name
        for name in NAMES
        for module in pkgutil.walk_packages([str(ROOT / name)], f"{name}.")
        if not module.name.endswith(".__main__")
    }
)
PROBE = """
import asyncio, importlib, logging, os, signal, socket, sys, threading

def forbidden(*_args, **_kwargs):
    raise AssertionError("importing must not do this")

before = (
    dict(os.environ), os.getcwd(), signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT),
    logging.root.level, list(logging.root.handlers), list(sys.path), sys.excepthook,
)
asyncio.get_event_loop = asyncio.get_running_loop = asyncio.new_event_loop = forbidden
socket.socket.connect = socket.socket.bind = forbidden
for name in sys.argv[1:]:
    importlib.import_module(name)
after = (
    dict(os.environ), os.getcwd(), signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT),
    logging.root.level, list(logging.root.handlers), list(sys.path), sys.excepthook,
)
for old, new in zip(before, after, strict=True):
    assert old == new, (old, new)
assert threading.enumerate() == [threading.main_thread()]
"""


def test_no_other_distribution_owns_our_import_names() -> None:
    owners = importlib.metadata.packages_distributions()
    for name in NAMES:
        assert set(owners.get(name, ["stanchion"])) == {"stanchion"}, name


def test_our_names_hide_no_module_of_the_standard_library() -> None:
    assert not set(NAMES) & set(sys.stdlib_module_names)


def test_the_command_is_installed() -> None:
    try:
        distribution = importlib.metadata.distribution("stanchion")
    except importlib.metadata.PackageNotFoundError:
        pytest.skip("stanchion runs from its folder here; `make install` installs it")
    scripts = distribution.entry_points.select(group="console_scripts", name="stanchion")
    assert [script.value for script in scripts] == ["gateway.cli:main"]
    assert callable(next(iter(scripts)).load())


def test_every_package_is_packed_and_typed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert sorted(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) == sorted(NAMES)
    assert project["project"]["scripts"] == {"stanchion": "gateway.cli:main"}
    assert [name for name in NAMES if not (ROOT / name / "py.typed").is_file()] == []


def test_all_modules_are_found() -> None:
    written = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for name in NAMES
        for path in (ROOT / name).rglob("*.py")
        if path.name != "__main__.py"
    }
    assert written == set(MODULES)  # a folder without __init__.py would be missed


def test_importing_a_module_does_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROBE, *MODULES], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
