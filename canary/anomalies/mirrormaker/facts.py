"""What one round of reading a topic and its mirror tells."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from canary.probe.identity import Identity

Anew = Literal["source", "mirror", "cut"]
"""Why both sides are read anew: the one or the other topic was made anew, or records were gone before they were read
or were cut off."""


class Row(NamedTuple):
    """A record that was read, read_committed.

    ``identity`` is None if it is no intact probe, and ``refusal`` says why. ``sent_ns`` by the clock of its sender.
    ``whole``: key and headers are those that a probe of this identity is sent with.
    """

    offset: int
    identity: Identity | None
    sent_ns: int = 0
    whole: bool = True
    refusal: Literal["", "foreign", "corrupt", "unknown-version"] = ""


@dataclass(frozen=True, slots=True)
class PartitionRound:
    """What a round has read of one partition, in the order of offsets.

    Attributes:
        source: New records of the source.
        target: New records of the mirror; they were read before the end of the source was asked for.
        source_complete: The source is read up to that end, as far as it can be read: what the mirror has and it has not
            is not the source's, unless it is hidden.
        target_complete: The mirror is read up to the end that it had in this round.
        hidden: Offsets of the source, [first, end), that a transaction hides while it is open; None: nothing is hidden.
        restarted: Why reading begins anew, on both sides; None: it goes on where it was.
        expired: What the mirror had before the first record that was read may have expired.
        missing: Why nothing can be read of it now; None: nothing hinders.
    """

    source: tuple[Row, ...] = ()
    target: tuple[Row, ...] = ()
    source_complete: bool = False
    target_complete: bool = False
    hidden: tuple[int, int] | None = None
    restarted: Anew | None = None
    expired: bool = False
    missing: str | None = None


class Checkpoint(NamedTuple):
    """Where a group of the source would go on in the mirror (KIP-382, KIP-545): offsets of both logs."""

    group: str
    partition: int
    upstream: int
    downstream: int


@dataclass(frozen=True, slots=True)
class Round:
    """A round of one mirrored topic. ``checkpoints``: new ones; None: there is no topic of them, or it is not read."""

    at_ns: int
    partitions: Mapping[int, PartitionRound] = field(default_factory=dict)
    checkpoints: tuple[Checkpoint, ...] | None = ()


class Question(NamedTuple):
    """What is read once more before a gap is said: [start, end) of the source, and of the mirror what is between."""

    partition: int
    source: tuple[int, int]
    target: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a fresh client read of a question's ranges.

    ``source_start``: the first offset that the source still has.
    """

    source: frozenset[tuple[int, Identity]]
    source_start: int
    target: frozenset[Identity]
