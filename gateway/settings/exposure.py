"""What the gateway opens to the network: its two addresses, who may call them, and the files for TLS."""

from __future__ import annotations

import ipaddress
import ssl
from pathlib import Path as FilePath

from gateway.policy import GatewayPolicy, split_address
from gateway.settings.nodes import Listing, Mapping, Text, value_mark
from gateway.settings.problems import Findings, Path

_EVERYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, not bound to


def check_exposure(root: Mapping, findings: Findings) -> None:
    """Note addresses that collide or are open to strangers, and TLS files that cannot be used."""
    gateway = root.mapping("gateway") or Mapping({}, root.mark)
    listen, admin = _address(gateway, "listen"), _address(gateway, "admin")
    if listen is not None and admin is not None and _collide(listen, admin):
        path: Path = ("gateway", "admin" if "admin" in gateway.entries else "listen")
        message = "agents and administration would share one address: write another port for one of them"
        findings.add(value_mark(root, path), path, message)
    if listen is not None and not is_loopback(listen[0]) and _no_callers(root):
        message = "beyond loopback everybody could spend your keys: write callers, or listen on 127.0.0.1"
        findings.add(value_mark(root, ("gateway", "listen")), ("gateway", "listen"), message)
    if admin is not None and not is_loopback(admin[0]) and "admin_token" not in gateway.entries:
        message = "beyond loopback everybody could administer the gateway: write admin_token, or use 127.0.0.1"
        findings.add(value_mark(root, ("gateway", "admin")), ("gateway", "admin"), message)
    tls = gateway.mapping("tls")
    if tls is not None:
        _tls(tls, findings)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches `host`. Names other than localhost count as reachable."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host.lower() == "localhost"
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def _address(gateway: Mapping, key: str) -> tuple[str, int] | None:
    """Host and port, the default ones if not written; None if what is written is none."""
    if key not in gateway.entries:
        return split_address(GatewayPolicy.model_fields[key].default)
    text = gateway.text(key)
    try:
        return split_address(text.value) if text is not None else None
    except ValueError:  # the model says so
        return None


def _collide(one: tuple[str, int], other: tuple[str, int]) -> bool:
    if one[1] != other[1] or one[1] == 0:
        return False
    hosts = {one[0].lower(), other[0].lower()}
    if len(hosts) == 1 or hosts & _EVERYWHERE:
        return True
    return "localhost" in hosts and all(map(is_loopback, hosts))


def _no_callers(root: Mapping) -> bool:
    callers = root.get("callers")
    return callers is None or (isinstance(callers, Listing) and not callers.items)


def _tls(tls: Mapping, findings: Findings) -> None:
    files: dict[str, Text] = {}
    for key in ("cert", "key"):
        text = tls.text(key)
        if text is None:
            continue
        path: Path = ("gateway", "tls", key)
        try:
            with FilePath(text.value).open("rb"):
                files[key] = text
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not a path"
            message = f"the file cannot be read ({reason}): check the path, seen from where the gateway starts"
            findings.add(text.mark, path, message)
    if len(files) == 2:
        problem = _unusable(files["cert"].value, files["key"].value)
        if problem:
            findings.add(files["cert"].mark, ("gateway", "tls"), problem)


def _unusable(cert: str, key: str) -> str | None:
    """Why certificate and key cannot serve, None if they can."""
    try:
        # The password is for keys that ask for one: without it OpenSSL would ask the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password=lambda: b"")
    except (OSError, ValueError):
        return "certificate and key cannot be loaded: name two PEM files that fit, without passphrase"
    return None
