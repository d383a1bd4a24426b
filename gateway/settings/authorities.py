"""The certificates that providers are believed by: each `ca_file` read once, for the check and for the connections."""

from __future__ import annotations

import re
import ssl
from pathlib import Path as FilePath

from gateway.settings.nodes import Mapping
from gateway.settings.problems import Findings

_LARGEST = 4_000_000
"""Bytes; the bundles of whole systems have a quarter of a megabyte."""

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----\s[A-Za-z0-9+/=\s]*-----END CERTIFICATE-----")


def read_authorities(root: Mapping, findings: Findings) -> dict[str, str]:
    """The certificates of each provider that names a file, as PEM without the comments of bundles.

    Notes every file that cannot be read, and every one that is no certificate.
    """
    found: dict[str, str] = {}
    for path, provider in root.mappings("providers"):
        named = provider.text("ca_file")
        if named is None or not named.value:
            continue
        try:
            with FilePath(named.value).open("rb") as file:
                data = file.read(_LARGEST + 1)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "not a path"
            message = f"the file cannot be read ({reason}): check the path, seen from where the gateway starts"
            findings.add(named.mark, (*path, "ca_file"), message)
            continue
        pem = b"\n".join(_CERTIFICATE.findall(data)).decode("ascii")
        if len(data) > _LARGEST or not _usable(pem):
            message = "the file is not one of certificates: name a PEM file, -----BEGIN CERTIFICATE----- and so on"
            findings.add(named.mark, (*path, "ca_file"), message)
        else:
            found[str(path[-1])] = pem
    return found


def _usable(pem: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError):  # the latter: nothing at all
        return False
    return True
