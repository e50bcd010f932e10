"""When certificates expire: those that the canary shows or trusts, from the files or texts in the settings."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

FILES: Final = {"ssl.certificate.location": "client", "ssl.ca.location": "authority"}
"""librdkafka properties that name a PEM file, and what the certificate is to us."""
TEXTS: Final = {"ssl.certificate.pem": "client", "ssl.ca.pem": "authority"}
"""Those that hold the PEM itself."""
MOST: Final = 50
"""A file with more certificates than that is a system's bundle: which of them matters is not known."""

_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


def expiry_s(pem: bytes) -> float | None:
    """Return when the first of the certificates in ``pem`` expires (s since the epoch); None: it holds none."""
    blocks = _PEM.findall(pem)
    if not 0 < len(blocks) <= MOST:
        return None
    from cryptography import x509  # noqa: PLC0415  # takes its time, and most have no certificate

    try:
        return min(x509.load_pem_x509_certificate(block).not_valid_after_utc.timestamp() for block in blocks)
    except ValueError:
        return None


def file_expiry_s(path: str | Path) -> float | None:
    """Return when the first certificate of a file expires; None: it cannot be read, or holds none."""
    try:
        return expiry_s(Path(path).read_bytes())
    except OSError:
        return None


def expiries(properties: Mapping[str, object]) -> dict[str, float]:
    """Return when the certificates expire that librdkafka's ``properties`` name, by what they are to us."""
    found: dict[str, float] = {}
    for name, role in (FILES | TEXTS).items():
        value = properties.get(name)
        if not isinstance(value, str):
            continue
        at_s = file_expiry_s(value) if name in FILES else expiry_s(value.encode())
        if at_s is not None:
            found[role] = min(at_s, found.get(role, at_s))
    return found
