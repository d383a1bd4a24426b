"""Addresses and TLS files."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.settings.exposure import is_loopback
from tests.settings.certificates import CERTIFICATE, ENCRYPTED_KEY, KEY
from tests.settings.writing import VALID, changed, load_text, problem, problems

CALLERS = "callers: [{name: a, key: k}]\n"
TOKEN = ("gateway:", "gateway:\n  admin_token: t")


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost", True),
        ("LocalHost", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("127.1", False),
        ("localhost.example.com", False),
        ("fe80::1%eth0", False),
    ],
)
def test_loopback(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


@pytest.mark.parametrize("host", ["0.0.0.0", '"[::]"', "192.0.2.1", "gateway.internal"])
def test_beyond_loopback_callers_and_a_token_are_needed(host: str) -> None:
    address = host.strip('"') + ":8080"
    text = changed(("127.0.0.1:8080", f'"{address}"'))
    assert problem(text).path == "gateway.listen"
    assert problem(text + "callers: []\n").path == "gateway.listen"
    load_text(text + CALLERS)
    text = changed(("127.0.0.1:8081", f'"{address[:-1]}1"'))
    assert problem(text).path == "gateway.admin"
    load_text(text.replace(*TOKEN))


@pytest.mark.parametrize(
    ("listen", "admin", "collide"),
    [
        ("127.0.0.1:80", "127.0.0.1:80", True),
        ("0.0.0.0:80", "127.0.0.1:80", True),
        ("127.0.0.1:80", "[::]:80", True),
        ("localhost:80", "127.0.0.1:80", True),
        ("127.0.0.1:80", "127.0.0.2:80", False),
        ("127.0.0.1:0", "127.0.0.1:0", False),
        ("127.0.0.1:80", "127.0.0.1:81", False),
    ],
)
def test_the_two_addresses_do_not_collide(listen: str, admin: str, collide: bool) -> None:
    text = changed(("127.0.0.1:8080", f'"{listen}"'), ("127.0.0.1:8081", f'"{admin}"'), TOKEN) + CALLERS
    if collide:
        assert "share one address" in problem(text).message
    else:
        load_text(text)


def test_listening_on_the_default_admin_address_is_a_collision_too() -> None:
    text = changed(("127.0.0.1:8080", "127.0.0.1:8081"), ("  admin: 127.0.0.1:8081\n", ""))
    assert problem(text).path == "gateway.listen"


@pytest.mark.parametrize("address", ["8080", "host", "h:99999", "::1:80", "[::1]", "http://h:80"])
def test_what_is_no_address(address: str) -> None:
    found = problem(changed(("127.0.0.1:8080", f'"{address}"')))
    assert found.path == "gateway.listen"
    assert "write HOST:PORT" in found.message


def _tls(directory: Path, cert: str, key: str) -> str:
    for name, content in (("c.pem", cert), ("k.pem", key)):
        if content:
            (directory / name).write_text(content)
    files = f"{{cert: '{directory / 'c.pem'}', key: '{directory / 'k.pem'}'}}"
    return changed(("gateway:", f"gateway:\n  tls: {files}"))


def test_tls_files_that_fit(tmp_path: Path) -> None:
    assert load_text(_tls(tmp_path, CERTIFICATE, KEY)).gateway.tls is not None


@pytest.mark.parametrize(("cert", "key"), [(CERTIFICATE, ENCRYPTED_KEY), (CERTIFICATE, "x"), ("x", KEY), (KEY, KEY)])
def test_tls_files_that_do_not_fit(tmp_path: Path, cert: str, key: str) -> None:
    found = problem(_tls(tmp_path, cert, key))
    assert found.path == "gateway.tls"
    assert "cannot be loaded" in found.message


def test_tls_files_that_are_not_there(tmp_path: Path) -> None:
    assert [each.path for each in problems(_tls(tmp_path, "", ""))] == ["gateway.tls.cert", "gateway.tls.key"]


def test_a_file_without_a_gateway_section_has_the_default_addresses() -> None:
    text = VALID.replace("gateway:\n  listen: 127.0.0.1:8080\n  admin: 127.0.0.1:8081\n", "")
    assert load_text(text).gateway.listen == "127.0.0.1:8080"
