"""What the demo shows is what can be pasted, and what came back is read leniently."""

from __future__ import annotations

import json
import shlex
import socket

import pytest

from gateway.demo.app import curl_line
from gateway.demo.processes import StartError
from gateway.demo.stack import answer_text, check_port


def test_the_curl_line_is_one_shell_command() -> None:
    line = curl_line("127.0.0.1:8080", "demo")
    assert "\n" not in line
    words = shlex.split(line)
    assert words[:3] == ["curl", "-si", "http://127.0.0.1:8080/v1/chat/completions"]
    assert json.loads(words[-1])["model"] == "demo"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"choices":[{"message":{"content":" A fox. "}}]}', "A fox."),
        (b'{"error":{"message":"no target"}}', "no target"),
        (b'{"choices":[]}', '{"choices":[]}'),
        (b"[1]", "[1]"),
        (b"\xff<html>", "�<html>"),
    ],
)
def test_answers(body: bytes, text: str) -> None:
    assert answer_text(body) == text


def test_ports() -> None:
    assert check_port(0, "--port") > 0
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(StartError, match="--port N"):
            check_port(taken.getsockname()[1], "--port")
