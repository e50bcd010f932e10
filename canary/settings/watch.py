"""What is watched of a cluster besides the probe topics, and how long a condition must hold before it is said."""

from __future__ import annotations

import re
from typing import Final

from pydantic import Field, SecretStr, field_validator

from canary.settings.fields import Seconds, Secret, Section, problem

_PLACE: Final = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249})(:(?P<partition>\d{1,9}))?")
_PATTERN: Final = re.compile(r"[A-Za-z0-9._*?\[\]!-]{1,249}")


class RedpandaSettings(Section):
    """Redpanda's admin API, for what the Kafka protocol does not tell. Untested against a live Redpanda."""

    admin_url: str | None = Field(
        None, description="Address of the admin API, like http://10.0.0.1:9644. Left out: it is not asked (URL)."
    )
    username: str | None = Field(None, description="User name, where the admin API wants one (name).")
    password: Secret | None = Field(None, description="Its password; may come from a file: {file: PATH}.")

    @property
    def credentials(self) -> tuple[str, str] | None:
        """User name and password, revealed: for the client alone."""
        if self.username is None or not isinstance(self.password, SecretStr):
            return None
        return self.username, self.password.get_secret_value()


class WatchSettings(Section):
    """Other topics than the probe topics. Only metadata is read; no record of theirs."""

    topics: tuple[str, ...] = Field(
        ("*",),
        description="Names or patterns (* and ?) of the topics whose leaders and replicas are watched, internal ones "
        "too; none: []. Stored as changes only.",
    )
    offsets: tuple[str, ...] = Field(
        (),
        description="TOPIC or TOPIC:PARTITION, of topics that are not probed, whose start and end offsets are watched: "
        "an end that goes back is loss. Costs a request for each of their leaders and round.",
    )
    audit: tuple[str, ...] = Field(
        (),
        description="Names or patterns of further topics whose settings the audit looks at; those under offsets are.",
    )
    audit_interval: Seconds = Field(600.0, ge=10, description="How often the audit is done (duration).")
    offline_after: Seconds = Field(
        5.0,
        ge=1,
        description="How long a partition has no leader before that is said; longer than an election takes (duration).",
    )
    isr_of_one_after: Seconds = Field(
        10.0,
        ge=1,
        description="How long one replica alone may hold what is acknowledged in a probe topic before that is said "
        "(duration).",
    )
    under_replicated_after: Seconds = Field(
        600.0,
        ge=1,
        description="How long replicas may be out of sync before that is said (under-replicated, isr-below-half, "
        "under-min-isr, isr-of-one of a topic that is not probed, and an offline partition that has one replica); "
        "longer than a broker's restart (duration).",
    )
    redpanda: RedpandaSettings = Field(default_factory=RedpandaSettings, description="Redpanda only.")  # type: ignore[arg-type]

    @field_validator("topics", "audit")
    @classmethod
    def _patterns(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for at, one in enumerate(value):
            if not _PATTERN.fullmatch(one):
                raise problem(f"{one!r} is no topic name or pattern", "write a name; * and ? stand for anything", at)
        return value

    @field_validator("offsets")
    @classmethod
    def _places(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for at, one in enumerate(value):
            if not _PLACE.fullmatch(one):
                raise problem(f"{one!r} is no partition", "write TOPIC or TOPIC:PARTITION, like orders:0", at)
        return value
