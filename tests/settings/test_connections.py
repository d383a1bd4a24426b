"""What stands between the gateway and a provider: its proxy, and the certificates that it is believed by."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.settings.problems import Problem
from llm.proxy import Proxy
from llm.spec import ProviderSpec
from tests.settings.certificates import CERTIFICATE, KEY
from tests.settings.writing import changed, load_text, problem, problems

CANARY = "canary-8f3e"


def with_key(line: str) -> str:
    return changed(("dialect: openai", f"dialect: openai\n    {line}"))


def provider(line: str, **environ: str) -> ProviderSpec:
    return load_text(with_key(line), environ).targets[0].provider


# proxy


def test_a_proxy() -> None:
    spec = provider('proxy: "http://agent:p%40ss@proxy.test:3128"')
    assert spec.proxy == Proxy("proxy.test", 3128, authorization="Basic YWdlbnQ6cEBzcw==", password="p@ss")
    assert provider("headers: {}").proxy is None


def test_the_environments_proxy_is_read_where_it_is_written_and_only_there() -> None:
    environ = {"HTTPS_PROXY": "http://proxy.test:3128", "HTTP_PROXY": "http://proxy.test:3128"}
    assert provider('proxy: "${HTTPS_PROXY:-}"', **environ).proxy == Proxy("proxy.test", 3128)
    assert provider('proxy: "${HTTPS_PROXY:-}"').proxy is None
    assert provider("headers: {}", **environ).proxy is None


@pytest.mark.parametrize(
    "url",
    [
        f"{CANARY}:3128",
        f"socks5://{CANARY}:{CANARY}@h:1",
        f"http://{CANARY}:{CANARY}@h:port",
        f"http://{CANARY}:#{CANARY}@h:1",
        f"http://h:1/{CANARY}",
        f"http://{CANARY} h",
        f"http://{CANARY}\\n@h:1",
        f"http://{CANARY}@[h:1",
        CANARY,
    ],
)
@pytest.mark.parametrize("variable", [False, True])
def test_what_is_no_proxy_is_a_problem_that_does_not_repeat_it(url: str, variable: bool) -> None:
    value = "${P}" if variable else url
    found = problem(with_key(f'proxy: "{value}"'), {"P": url.replace("\\n", "\n")})
    assert (found.path, found.line, found.column) == ("providers.p.proxy", 8, 12)
    assert "write http://HOST:PORT" in found.message
    assert CANARY not in found.message


@pytest.mark.parametrize("line", ["proxy: {{http: {}}}", "proxy: [{}]", "proxy: {{{}: x}}", "prxy: {}"])
def test_a_proxy_in_the_wrong_place_is_not_shown(line: str) -> None:
    for found in problems(with_key(line.format(f'"http://u:{CANARY}@h:1"'))):
        assert CANARY not in str(found)
        assert CANARY not in json.dumps(found.as_dict())


def test_settings_do_not_show_a_proxys_login() -> None:
    settings = load_text(with_key(f"proxy: 'http://{CANARY}:{CANARY}@h:1'"))
    assert CANARY not in repr(settings)
    assert "Basic" not in repr(settings)


# ca_file


def test_a_ca_file_is_read_with_the_settings(tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_text(f"# Főtanúsítvány\n{CERTIFICATE}\n# once more\n{CERTIFICATE}{KEY}", "utf-8")
    pem = provider(f"ca_file: '{path}'").ca_pem
    assert pem is not None
    assert pem.count("BEGIN CERTIFICATE") == 2
    assert "PRIVATE" not in pem
    assert pem.isascii()
    assert provider("headers: {}").ca_pem is None
    assert provider('ca_file: "${CA:-}"').ca_pem is None


def test_another_content_is_another_provider(tmp_path: Path) -> None:
    """So that a reload makes new connections."""
    path = tmp_path / "ca.pem"
    path.write_text(CERTIFICATE)
    line = f"ca_file: '{path}'"
    one = provider(line)
    assert provider(line) == one
    path.write_text(CERTIFICATE * 2)
    assert provider(line) != one


def of_ca_file(found: Problem) -> str:
    assert (found.path, found.line, found.column) == ("providers.p.ca_file", 8, 14)
    return found.message


@pytest.mark.parametrize("name", ["absent.pem", "", "a\\0b"], ids=["absent", "folder", "nul"])
def test_a_ca_file_that_cannot_be_read(name: str, tmp_path: Path) -> None:
    message = of_ca_file(problem(with_key(f'ca_file: "{tmp_path}/{name}"')))
    assert message.startswith("the file cannot be read (")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no certificate",
        KEY.encode(),
        CERTIFICATE[:300].encode(),
        CERTIFICATE.replace("MIIB", "MIIC").encode(),
        (CERTIFICATE + CERTIFICATE.replace("MIIB", "MIIC")).encode(),
        b"-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
        b"\x30\x82\x01\x7f\x30\x82",
        CERTIFICATE.encode() + b"#" * 4_000_000,
    ],
    ids=["empty", "text", "key", "half", "broken", "second-broken", "hollow", "der", "huge"],
)
def test_a_ca_file_that_holds_no_certificates(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "ca.pem"
    path.write_bytes(content)
    assert "not one of certificates" in of_ca_file(problem(with_key(f"ca_file: '{path}'")))


def test_verification_cannot_be_switched_off() -> None:
    for key in ("verify: false", "tls_verify: false", "insecure: true"):
        assert "not known here" in problem(with_key(key)).message
