"""`check`, `serve`, help texts and usage errors, by their exit codes and what they print."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest

from stanchion import __version__
from tests.cli.running import stanchion

GOOD = """\
version: 1
gateway: {{listen: "127.0.0.1:{port}", admin: "127.0.0.1:0"}}
providers: {{p: {{dialect: openai, base_url: "http://127.0.0.1:1/v1", auth: none}}}}
targets:
  first: {{provider: p, model: big}}
  second: {{provider: p, model: small}}
routes: {{support: {{targets: [first, second], deadline: 30s}}}}
"""


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.yaml"
    path.write_text(GOOD.format(port=0))
    return path


@pytest.fixture
def broken(tmp_path: Path) -> Path:
    path = tmp_path / "broken.yaml"
    path.write_text(
        GOOD.format(port=0).replace("deadline: 30s", "deadlin: 30s").replace("small}", "small, region: 7, x: 1}")
    )
    return path


async def test_check_says_what_the_file_means(good: Path) -> None:
    done = await stanchion("check", "--config", str(good))
    assert done.code == 0, done.text
    assert "support: first (big at p, local) → second (small at p, local), deadline 30 s" in done.out
    as_json = json.loads((await stanchion("check", "--config", str(good), "--json")).out)
    assert as_json["ok"] is True
    assert as_json["problems"] == []
    assert as_json["routes"][0]["targets"] == ["first", "second"]


async def test_check_prints_every_problem_with_its_place(broken: Path) -> None:
    done = await stanchion("check", "--config", str(broken))
    assert done.code == 1
    lines = done.out.splitlines()
    assert len(lines) >= 2
    assert all(line.startswith(f"{broken}:") for line in lines)
    assert any(line.startswith(f"{broken}:7:") and "deadlin" in line for line in lines)


async def test_check_as_json(broken: Path) -> None:
    done = await stanchion("check", "--config", str(broken), "--json")
    told = json.loads(done.out)
    assert done.code == 1
    assert told["ok"] is False
    assert set(told["problems"][0]) == {"file", "line", "column", "path", "message"}


@pytest.mark.parametrize("command", ["check", "serve"])
async def test_a_missing_file(command: str, tmp_path: Path) -> None:
    done = await stanchion(command, "--config", str(tmp_path / "nowhere.yaml"))
    assert done.code == 1
    assert "nowhere.yaml" in done.out
    assert "Traceback" not in done.text


async def test_serve_refuses_broken_settings(broken: Path) -> None:
    done = await stanchion("serve", "--config", str(broken))
    assert done.code == 1
    assert f"{broken}:7:" in done.out


async def test_serve_on_a_taken_port(tmp_path: Path) -> None:
    config = tmp_path / "taken.yaml"
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        config.write_text(GOOD.format(port=taken.getsockname()[1]))
        done = await stanchion("serve", "--config", str(config))
    assert done.code == 3
    assert "cannot listen" in done.text
    assert "Traceback" not in done.text


async def test_demo_on_a_taken_port(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = await stanchion("demo", "--port", port, "--admin-port", "0", env={"STANCHION_CACHE": str(tmp_path)})
    assert done.code == 2
    assert f"port {port}" in done.err
    assert "--port" in done.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("check",),
        ("status", "--config", "x", "--admin", "y"),
        ("demo", "--port", "x"),
        ("demo", "--json"),
        ("demo", "--restart-after", "nan"),
        (),
    ],
)
async def test_wrong_usage(arguments: tuple[str, ...]) -> None:
    done = await stanchion(*arguments)
    assert done.code == 2
    assert done.err
    assert not done.out
    assert "Traceback" not in done.err


@pytest.mark.parametrize("command", ["serve", "check", "status", "demo"])
async def test_every_help_has_examples_and_exit_codes(command: str) -> None:
    done = await stanchion(command, "--help")
    assert done.code == 0
    assert f"stanchion {command}" in done.out
    assert "exit codes:" in done.out
    assert "--json" in done.out


async def test_version_and_help() -> None:
    assert (await stanchion("--version")).out == f"stanchion {__version__}\n"
    overview = await stanchion("--help")
    assert overview.code == 0
    assert all(command in overview.out for command in ("serve", "check", "status", "demo"))
