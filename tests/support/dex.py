"""Dex, an identity provider (or $DEX), on a port of loopback: two people with passwords, the canary as a client."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import yaml

from canary.lab.state import free_ports
from tests.support.http_client import HTTP
from tests.support.prometheus import program, running
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PASSWORD = "password"  # noqa: S105  # of people who do not exist
HASH = "$2a$10$2b2cU8CPhOTaGrs1HRQuAueS7JTT5ZHsHSzYiFPm1leZck7Mc8T4W"
"""Its bcrypt, as in the examples of Dex."""
CLIENT, SECRET = "canary-pages", "a secret/with+signs"
OPERATOR, STRANGER, GROUP = "ann@example.org", "bob@example.org", "sre"


@contextmanager
def dex(directory: Path, canary: str) -> Iterator[str]:
    """Run Dex for the canary at an address; yield its issuer."""
    (port,) = free_ports(1)
    issuer = f"http://127.0.0.1:{port}/dex"
    people = [
        {"email": email, "hash": HASH, "username": email.partition("@")[0], "userID": email, "groups": groups}
        for email, groups in ((OPERATOR, [GROUP]), (STRANGER, ["others"]))
    ]
    client = {"id": CLIENT, "secret": SECRET, "name": "Canary", "redirectURIs": [f"{canary}/login/callback"]}
    config: dict[str, Any] = {
        "issuer": issuer,
        "storage": {"type": "memory"},
        "web": {"http": f"127.0.0.1:{port}"},
        "oauth2": {"skipApprovalScreen": True},
        "enablePasswordDB": True,
        "staticClients": [client],
        "staticPasswords": people,
    }
    (directory / "dex.yaml").write_text(yaml.safe_dump(config))
    with running(program("DEX", "dex"), "serve", f"{directory}/dex.yaml", log=directory / "dex.log"):
        described = f"{issuer}/.well-known/openid-configuration"
        until(lambda: HTTP.get(described, timeout=2).is_success, 30, f"Dex answers; see {directory}/dex.log")
        yield issuer
