"""What a workload says about itself, and the kinds of its settings."""

from dataclasses import MISSING, dataclass, field
from typing import Any, Literal

Kind = Literal["duration", "count", "size", "sizes", "topic", "choice"]


def duration(default: float | None, text: str, **bounds: float) -> Any:
    """Declare a setting in seconds; ``bounds`` are pydantic's gt, ge and le. A default of None: it may be left out."""
    return _setting("duration", default, text, bounds)


def count(default: int | None, text: str, **bounds: float) -> Any:
    """Declare a setting that counts something; ``default`` and ``bounds`` as for ``duration``."""
    return _setting("count", default, text, bounds)


def size(default: int | None, text: str, **bounds: float) -> Any:
    """Declare a setting in bytes; ``default`` and ``bounds`` as for ``duration``."""
    return _setting("size", default, text, bounds)


def sizes(text: str) -> Any:
    """Declare a setting that is a list of sizes in bytes, empty unless set."""
    return _setting("sizes", (), text, {})


def choice(default: str | None, text: str, *choices: str) -> Any:
    """Declare a setting that is one of ``choices``; a default of None: it may be left out."""
    return _setting("choice", default, text, {}, choices)


def topic_name(text: str) -> Any:
    """Declare a setting that names a topic, and has to be there."""
    return _setting("topic", MISSING, text, {})


def _setting(kind: Kind, default: Any, text: str, bounds: dict[str, float], choices: tuple[str, ...] = ()) -> Any:
    said = {"kind": kind, "description": text, "bounds": bounds, "choices": choices}
    return field(default=default, metadata=said)


@dataclass(frozen=True, slots=True, kw_only=True)
class Common:
    """What every workload has. canary.settings.modes makes the models of the settings file from these fields."""

    interval: float = duration(
        0.1,
        "Time between two probes to the same partition: one probe to every partition in each interval (duration).",
        gt=0,
    )
    record_length: int = size(96, "Length of a probe's value, a multiple of 8 from 64 to 65528 (bytes).")

    @property
    def lengths(self) -> tuple[int, ...]:
        """Lengths of values (bytes): a partition's probes have them in turn."""
        return (self.record_length,)

    @property
    def record_bytes(self) -> float:
        """Bytes of a probe's value and headers, on average."""
        return sum(self.lengths) / len(self.lengths)

    @property
    def rate(self) -> float:
        """Probes a second to a partition, of a workload that writes to every partition in each interval."""
        return 1 / self.interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Writing(Common):
    """What every workload that writes has: what its records look like."""

    record_lengths: tuple[int, ...] = sizes(
        "Several lengths in place of `record_length`: a partition's probes have them in turn, by sequence number "
        "(bytes)."
    )
    filling: str = choice(
        "random",
        "What fills a value behind the first 64 bytes: `random` cannot be compressed; `repeated` is one word of 8 "
        "bytes again and again. Versions of the canary before this setting cannot read `repeated` probes, nor those "
        "with headers.",
        "random",
        "repeated",
    )
    headers: int = count(
        0, "Headers of a probe. Readers compare them with what was sent: other ones are `corrupt` (count).", ge=0, le=64
    )
    header_length: int = size(16, "Length of a header's value (bytes).", ge=1, le=1024)
    key: str = choice(
        "identity", "Key of a probe: its `identity`, or `none`, which a compacted topic refuses.", "identity", "none"
    )
    compression: str | None = choice(
        None,
        "Codec of the producer's batches (compression.type). Left out: as `kafka` has it, else none.",
        "none",
        "gzip",
        "snappy",
        "lz4",
        "zstd",
    )

    @property
    def lengths(self) -> tuple[int, ...]:
        """Lengths of values (bytes)."""
        return self.record_lengths or (self.record_length,)

    @property
    def record_bytes(self) -> float:
        """Bytes of a probe's value and headers, on average."""
        return sum(self.lengths) / len(self.lengths) + self.headers * self.header_length


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Writing):
    """What a workload has whose writer pipelines (canary.probing.idempotent)."""

    burst: int = count(
        1,
        "Probes to every partition in each interval, handed to the client one after the other without waiting for an "
        "answer (count).",
        ge=1,
        le=1000,
    )
    linger: float | None = duration(
        None,
        "How long the client gathers records for a batch (linger.ms); it is part of the produce latency. Left out: as "
        "`kafka` has it, else 5ms (duration).",
        ge=0,
        le=10,
    )
    batch: int | None = size(
        None, "Size at which a batch is sent without waiting (batch.size). Left out: the client's own (bytes).", ge=1
    )
    in_flight: int | None = count(
        None,
        "Requests on their way to a broker at most (max.in.flight.requests.per.connection). With one, nothing can "
        "overtake; without idempotence, a request that is sent again lands behind those. Left out: the client's own, "
        "which is 5 for an idempotent producer (count).",
        ge=1,
        le=5,
    )

    @property
    def rate(self) -> float:
        """Probes a second to a partition."""
        return self.burst / self.interval


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
        abandons: it leaves transactions open on purpose, and readers of its topic wait until they time out.
        rehearses: its topic is for drills of a live cluster: what is found there while one runs is the drill's.
        settings: what can be set, beside the name of a topic of its own: a ``Common``, ``Writing`` or ``Settings``.
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
    abandons: bool = False
    rehearses: bool = False
    settings: type[Common] = Settings
    summary: str
    does: str
    finds: str
    costs: str
