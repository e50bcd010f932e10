"""Who may do what: access control lists of the brokers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from canary.drills.rig import guarded
from canary.drills.rig.rig import Rig
from canary.drills.stage import PROBES
from canary.drills.steps.step import Step

AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
"""Properties of nodes with access control lists, which let everybody do what no list says anything of."""
_OPERATIONS: Final = {
    "write": AclOperation.WRITE,
    "read": AclOperation.READ,
    "delete": AclOperation.DELETE,
    "describe": AclOperation.DESCRIBE,
}
_EVERYBODY: Final = ("User:ANONYMOUS", "*")
_REQUEST_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Deny(Step):
    """An operation on a topic is denied to everybody: "write", "read", "delete" or "describe"; all else stays open."""

    operation: str
    topic: str = PROBES

    def take(self, rig: Rig) -> None:
        """Add two entries: a list that exists would deny what it does not name."""
        place = ResourceType.TOPIC, self.topic, ResourcePatternType.LITERAL, *_EVERYBODY
        entries = [
            AclBinding(*place, AclOperation.ALL, AclPermissionType.ALLOW),
            AclBinding(*place, _OPERATIONS[self.operation], AclPermissionType.DENY),
        ]
        for done in rig.admin.create_acls(entries, request_timeout=_REQUEST_S).values():
            done.result(_REQUEST_S)

    def __str__(self) -> str:
        """Say it."""
        return f"the right to {self.operation} is taken away: {self.topic}"


@dataclass(frozen=True, slots=True)
class Permit(Step):
    """What was denied is permitted again."""

    operation: str
    topic: str = PROBES

    def take(self, rig: Rig) -> None:
        """Delete the entry."""
        place = ResourceType.TOPIC, self.topic, ResourcePatternType.LITERAL, *_EVERYBODY
        denied = AclBindingFilter(*place, _OPERATIONS[self.operation], AclPermissionType.DENY)
        for done in rig.admin.delete_acls([denied], request_timeout=_REQUEST_S).values():
            done.result(_REQUEST_S)

    def __str__(self) -> str:
        """Say it."""
        return f"the right to {self.operation} is given back: {self.topic}"


@dataclass(frozen=True, slots=True)
class TurnAway(Step):
    """The canary's credentials are deleted: at its next authentication the brokers do not know it."""

    def take(self, rig: Rig) -> None:
        """Delete them."""
        guarded.turn_away(rig.admin)

    def __str__(self) -> str:
        """Say it."""
        return "the canary's credentials are deleted"


@dataclass(frozen=True, slots=True)
class Admit(Step):
    """The canary's credentials are there again, the same as before."""

    def take(self, rig: Rig) -> None:
        """Set them."""
        guarded.admit(rig.admin)

    def __str__(self) -> str:
        """Say it."""
        return "the canary's credentials are set"
