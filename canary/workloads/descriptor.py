"""What a workload says about itself, and the kinds of its settings."""

from dataclasses import MISSING, dataclass, field
from typing import Any, Literal

Kind = Literal["duration", "count", "size", "topic"]


def duration(default: float | None, text: str, **bounds: float) -> Any:
    """Declare a setting in seconds; ``bounds`` are pydantic's gt, ge and le. A default of None: it may be left out."""
    return _setting("duration", default, text, bounds)


def count(default: int, text: str, **bounds: float) -> Any:
    """Declare a setting that counts something; ``bounds`` as for ``duration``."""
    return _setting("count", default, text, bounds)


def size(default: int, text: str) -> Any:
    """Declare a setting in bytes."""
    return _setting("size", default, text, {})


def topic_name(text: str) -> Any:
    """Declare a setting that names a topic, and has to be there."""
    return _setting("topic", MISSING, text, {})


def _setting(kind: Kind, default: Any, text: str, bounds: dict[str, float]) -> Any:
    return field(default=default, metadata={"kind": kind, "description": text, "bounds": bounds})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What every workload has. canary.settings.modes makes the models of the settings file from these fields."""

    interval: float = duration(
        0.1,
        "Time between two probes to the same partition: one probe to every partition in each interval (duration).",
        gt=0,
    )
    record_length: int = size(96, "Length of a probe's value, a multiple of 8 from 64 to 65528 (bytes).")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One workload.

    Attributes:
        name: the mode's name in settings, facts, metrics and the probe log.
        number: the mode's number on the wire; never used again for another workload.
        topic: ``main``: it writes to the main topic; ``own``: to a topic of its own; ``none``: it writes nothing.
        writer: the workload whose writer it has; None: one of its own.
        source: the workload whose topic it reads, all partitions of it.
        transactional: its writes promise nothing until their transaction commits.
        ordered: it writes with acks=all and idempotence; without, copies, reordering and losses are warnings.
        every_partition: each of its rounds writes one record to each partition.
        shared: several runners may share its partitions, because each partition is probed for itself.
        fenced: each generation is fenced by the next one on purpose, and its zombies go on writing.
        rehearses: its topic is for drills of a live cluster: what is found there while one runs is the drill's.
        settings: what can be set, beside the name of a topic of its own.
        summary: one sentence for the reference of the settings.
        does: for docs/modes.md: what it does.
        finds: for docs/modes.md: which anomalies it finds.
        costs: for docs/modes.md: what it costs.
    """

    name: str
    number: int
    topic: Literal["main", "own", "none"] = "own"
    writer: str | None = None
    source: str | None = None
    transactional: bool = False
    ordered: bool = True
    every_partition: bool = False
    shared: bool = False
    fenced: bool = False
    rehearses: bool = False
    settings: type[Settings] = Settings
    summary: str
    does: str
    finds: str
    costs: str
