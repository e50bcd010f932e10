"""What one segment hands to the next: probes and transactions without an outcome, ids of topics, modes of producers.

The carry is the file ``probe-log.carry`` beside the ledger: one line of JSON and its CRC-32, because a segment number
that rots would have segments skipped. It names the last segment that it covers: a segment that was shipped, but not
dropped before a crash, must not be converted again with a later carry.
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

import orjson
import structlog

from canary.probe.identity import Identity
from storage.ledger.files import DISK, Disk
from storage.probe_log.errors import ProbeLogError

_log = structlog.get_logger(__name__)
_VERSION = 1


class OpenProbe(NamedTuple):
    """A probe that was sent and has no outcome yet; ``topic_id`` is `Place.seen` of its sending."""

    topic: str
    topic_id: str | None
    mode: str
    transaction_id: int | None
    sent_at_ns: int


class OpenTransaction(NamedTuple):
    """A transaction that began and did not end yet."""

    began_at_ns: int
    commit_at_ns: int | None


GenerationKey = tuple[int, int]
"""(producer_id, generation)."""
TransactionKey = tuple[int, int, int]
"""(producer_id, generation, transaction_id)."""


@dataclass(frozen=True, slots=True)
class Carry:
    """The state between two segments; ``segment`` is the last one covered (0: none), of the ledger ``ledger_id``."""

    ledger_id: str = ""
    segment: int = 0
    probes: Mapping[Identity, OpenProbe] = field(default_factory=dict)
    transactions: Mapping[TransactionKey, OpenTransaction] = field(default_factory=dict)
    topic_ids: Mapping[str, str | None] = field(default_factory=dict)
    dead_ids: Mapping[str, list[str]] = field(default_factory=dict)
    modes: Mapping[int, str] = field(default_factory=dict)
    marked: Mapping[GenerationKey, str | None] = field(default_factory=dict)
    """The topic id in a producer's records (None: not known), from a generation on until the next one that is here."""
    clock_ahead_ns: int = 0
    """How far the machine's clock is ahead of the runner's (ClockSeen)."""
    cluster_id: str = ""
    elsewhere: bool = False
    in_doubt: bool = False
    """The known cluster; whether a client is in another one, and whether the known one has not answered since (see
    Incarnations).
    """

    def encode(self) -> bytes:
        """Return the carry as JSON, and its checksum (8 hex digits) in a line below."""
        data = orjson.dumps(
            {
                "version": _VERSION,
                "ledger_id": self.ledger_id,
                "segment": self.segment,
                "probes": [[*identity, *probe] for identity, probe in self.probes.items()],
                "transactions": [[*key, *transaction] for key, transaction in self.transactions.items()],
                "topic_ids": dict(self.topic_ids),
                "dead_ids": dict(self.dead_ids),
                "modes": [[producer_id, mode] for producer_id, mode in self.modes.items()],
                "marked": [[*key, topic_id] for key, topic_id in self.marked.items()],
                "clock_ahead_ns": self.clock_ahead_ns,
                "cluster_id": self.cluster_id,
                "elsewhere": self.elsewhere,
                "in_doubt": self.in_doubt,
            }
        )
        return data + b"\n%08x" % zlib.crc32(data)

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Return the carry that ``encode`` wrote.

        Raises:
            ValueError: the data is something else.
        """
        data, line, checksum = data.partition(b"\n")  # a version before 0.3 wrote no checksum
        if line and checksum != b"%08x" % zlib.crc32(data):
            raise ValueError("its checksum is wrong")
        try:
            read = orjson.loads(data)
            if read["version"] != _VERSION:
                raise ValueError(f"version {read['version']}")
            return cls(
                read["ledger_id"],
                read["segment"],
                {Identity(*row[:4]): OpenProbe(*row[4:]) for row in read["probes"]},
                {(row[0], row[1], row[2]): OpenTransaction(*row[3:]) for row in read["transactions"]},
                read["topic_ids"],
                read["dead_ids"],
                {row[0]: row[1] for row in read["modes"]},
                {(row[0], row[1]): row[2] for row in read.get("marked", ())},
                read.get("clock_ahead_ns", 0),
                read.get("cluster_id", ""),
                read.get("elsewhere", False),
                read.get("in_doubt", False),
            )
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError(f"no carry of the probe log: {error}") from error


def load_carry(path: Path, disk: Disk = DISK) -> Carry:
    """Return the carry at ``path``; an empty one if there is none, or it is not readable (which is logged).

    Raises:
        ProbeLogError: the file cannot be read.
    """
    try:
        return Carry.decode(disk.read(path))
    except FileNotFoundError:
        return Carry()
    except ValueError as error:
        _log.error("probe_log_carry_lost", path=str(path), error=str(error))
        return Carry()
    except OSError as error:
        raise ProbeLogError(f"{path} cannot be read: {error.strerror}") from error


def save_carry(path: Path, carry: Carry, disk: Disk = DISK) -> None:
    """Replace the carry at ``path``, durably.

    Raises:
        ProbeLogError: it cannot be written.
    """
    try:
        disk.close(disk.replace(path, carry.encode()))
    except OSError as error:
        raise ProbeLogError(f"{path} cannot be written: {error.strerror}") from error
