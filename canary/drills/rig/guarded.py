"""A second listener of each broker that asks for a password (SCRAM), for the canary alone; all else stays open."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)

from canary.lab import Lab, NodeProperties
from canary.lab.state import free_ports

REAUTHENTICATE_S: Final = 5.0
"""Whoever is in has to show the password again after so long."""
_BROKERS: Final = (1, 2, 3)
_USER: Final = "canary"
_PASSWORD: Final = "that of a drill"  # noqa: S105  # no secret
_LOGIN: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_REQUEST_S: Final = 30.0
_ADDRESS: Final = re.compile(r"GUARDED://([^,\s]+)")


def guarded(properties: NodeProperties) -> NodeProperties:
    """Return properties that give each broker the listener as well."""
    single = dict(properties.single)
    for node, port in zip(_BROKERS, free_ports(len(_BROKERS)), strict=True):
        single[node] = {
            "listeners": f"PLAINTEXT://127.0.0.1:{{port}},GUARDED://127.0.0.1:{port}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,GUARDED:SASL_PLAINTEXT",
            "listener.name.guarded.sasl.enabled.mechanisms": "SCRAM-SHA-256",
            "listener.name.guarded.scram-sha-256.sasl.jaas.config": _LOGIN,
            "listener.name.guarded.scram-sha-256.connections.max.reauth.ms": round(1000 * REAUTHENTICATE_S),
            **single.get(node, {}),
        }
    return replace(properties, single=single)


def client(lab: Lab) -> dict[str, Any]:
    """Return the properties of a client that comes in by these listeners."""
    return {
        "bootstrap.servers": ",".join(_addresses(lab)),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "SCRAM-SHA-256",
        "sasl.username": _USER,
        "sasl.password": _PASSWORD,
    }


def admit(admin: AdminClient) -> None:
    """Let the canary's user in."""
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    change = UserScramCredentialUpsertion(_USER, info, _PASSWORD.encode())
    admin.alter_user_scram_credentials([change])[_USER].result(_REQUEST_S)


def turn_away(admin: AdminClient) -> None:
    """Let it in no more."""
    change = UserScramCredentialDeletion(_USER, ScramMechanism.SCRAM_SHA_256)
    admin.alter_user_scram_credentials([change])[_USER].result(_REQUEST_S)


def _addresses(lab: Lab) -> Iterator[str]:
    for file in sorted(lab.directory.glob("broker-*/server.properties")):
        yield from _ADDRESS.findall(file.read_text())
