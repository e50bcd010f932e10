"""The ways of probing, by name, each with its own settings. A new mode is a model here and a field of Modes."""

from __future__ import annotations

from typing import Final

from pydantic import Field, field_validator, model_validator

from canary.probe.record import check_length
from canary.settings.fields import Bytes, Seconds, Section, TopicName, problem


class ModeSettings(Section):
    """What every mode has."""

    interval: Seconds = Field(
        0.1,
        gt=0,
        description="Time between two probes to the same partition: one probe to every partition in each interval "
        "(duration).",
    )
    record_length: Bytes = Field(96, description="Length of a probe's value, a multiple of 8 from 64 to 65528 (bytes).")

    @field_validator("record_length")
    @classmethod
    def _possible(cls, value: int) -> int:
        try:
            check_length(value)
        except ValueError as error:
            raise problem(str(error), "set a multiple of 8, or leave it out for 96") from None
        return value


class IdempotentMode(ModeSettings):
    """The main mode: one idempotent producer with acks=all, each acknowledged probe a promise."""


class OwnTopicMode(ModeSettings):
    """A mode beside the main one: it writes to a topic of its own."""

    topic: TopicName | None = Field(
        None, description="Name of this mode's topic. Left out: the cluster's topic name, '-' and the mode's name."
    )


class PlainMode(OwnTopicMode):
    """acks=1 without idempotence: shows what these settings cost those whose applications have them."""


class TransactionalMode(OwnTopicMode):
    """Transactions over several partitions, some aborted and some abandoned on purpose."""

    interval: Seconds = Field(0.5, gt=0, description="Time between two transactions (duration).")
    partitions: int = Field(2, ge=1, le=100, description="Partitions that a transaction writes to at most (count).")
    records: int = Field(2, ge=1, le=1000, description="Records of a transaction in each of its partitions (count).")
    abort_percent: int = Field(
        10, ge=0, le=100, description="How many of 100 transactions are aborted on purpose (count)."
    )
    abandon_every: Seconds = Field(
        600.0,
        gt=0,
        description="How often a transaction is left open until the coordinator's timeout ends it; readers of the "
        "mode's topic wait for that long (duration).",
    )
    timeout: Seconds = Field(
        15.0, ge=1, le=30, description="transaction.timeout.ms: after it the coordinator aborts (duration)."
    )
    most_ids: int = Field(
        12,
        ge=1,
        le=200,
        description="Transactional ids at most; as many are used as it takes to probe every coordinator (count).",
    )


class MirrorMode(OwnTopicMode):
    """The main mode's probes in a topic that is set like a production topic, whose durability they then show."""

    of: TopicName = Field(
        description="The production topic. The mode's topic is made with its replication factor and the settings that "
        "were made on it; where the two drift apart, the audit says so. No record of it is read."
    )


class FencingMode(OwnTopicMode):
    """A deliberate zombie: a second producer with its transactional id takes over, and the first writes on."""

    interval: Seconds = Field(
        300.0,
        gt=0,
        description="Time between two take-overs; each costs a generation, which is remembered until all that it wrote "
        "has expired (duration).",
    )
    timeout: Seconds = Field(15.0, ge=1, le=900, description="transaction.timeout.ms of both (duration).")


class RelayMode(OwnTopicMode):
    """Consume, process, produce: copies the main topic's probes, offsets sent within the transaction."""

    interval: Seconds = Field(0.5, gt=0, description="Time between two transactions (duration).")
    most: int = Field(500, ge=1, le=100_000, description="Records of a transaction at most (count).")
    rebalance_every: Seconds | None = Field(
        None,
        gt=0,
        description="How often another member joins the relay's group while a transaction is open, which must abort. "
        "Left out: never, and partitions are assigned (duration).",
    )
    timeout: Seconds = Field(15.0, ge=1, le=900, description="transaction.timeout.ms (duration).")


class GroupMode(ModeSettings):
    """A consumer group on the main topic: members join and leave on purpose, and commit explicitly."""

    interval: Seconds = Field(0.5, gt=0, description="Time between two commits of a member (duration).")
    members: int = Field(2, ge=1, le=50, description="Members of the group (count).")
    rebalance_every: Seconds = Field(
        30.0, gt=0, description="How often a member leaves and another one joins (duration)."
    )
    session_timeout: Seconds = Field(10.0, ge=1, le=1800, description="session.timeout.ms of members (duration).")


class Modes(Section):
    """Each mode by name; one that is named is on. With none named, ``idempotent`` is."""

    idempotent: IdempotentMode | None = Field(
        None,
        description="Idempotent producer, acks=all, no transactions. On when no mode is named.",
    )
    transactional: TransactionalMode | None = Field(
        None, description="Transactions over several partitions: committed, aborted, abandoned."
    )
    relay: RelayMode | None = Field(
        None, description="Consume, process, produce: exactly once from the main topic to its own."
    )
    group: GroupMode | None = Field(None, description="A consumer group on the main topic, with rebalances.")
    fencing: FencingMode | None = Field(None, description="Zombies with the same transactional id must be fenced.")
    plain: PlainMode | None = Field(
        None, description="acks=1 and no idempotence: what these settings cost, reported under this mode."
    )
    mirror: MirrorMode | None = Field(
        None, description="Like idempotent, in a topic that is set like a production topic."
    )

    @model_validator(mode="before")
    @classmethod
    def _named_is_on(cls, value: object) -> object:
        if isinstance(value, Modes) or (value is not None and not isinstance(value, dict)):
            return value
        named = {name: {} if settings is None else settings for name, settings in (value or {}).items()}
        return named or {"idempotent": {}}

    @model_validator(mode="after")
    def _sources(self) -> Modes:
        for mode in ("relay", "group"):
            if getattr(self, mode) is not None and self.idempotent is None:
                raise problem(f"{mode} reads what idempotent writes, which is off", "switch idempotent on, too", mode)
        return self

    def enabled(self) -> dict[str, ModeSettings]:
        """Return the modes that are on, by name."""
        found = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: mode for name, mode in found.items() if mode is not None}


MODE_NAMES: Final = tuple(Modes.model_fields)
