"""What was found of one partition, as exact counts, and the manifest of all of them."""

from dataclasses import asdict, dataclass, field
from typing import Any, Final

from canary.salvage.directory import Replica
from canary.salvage.divergence import Fate, Holdings, Span
from canary.salvage.outcomes import Undecided
from canary.salvage.segments import Damage

FORMAT: Final = 1
"""Of the manifest and of the files beside it."""


@dataclass(slots=True)
class Counts:
    """Of one partition of the directory. Each record is counted once in ``held`` to ``undecided``.

    Attributes:
        batches: whole batches of records; ``markers``: those that end transactions.
        records: in these batches.
        held: the cluster has them.
        expired: below the start of the cluster's log: whether it had them is unknown.
        committed: gone from the cluster, and not of a transaction, or of one that committed.
        aborted: gone, and of a transaction that was aborted: never to be seen.
        undecided: gone, and of a transaction of whose end the directory does not tell.
        salvaged: what is written, or would be.
        collisions: of these, those whose key has a newer record in the cluster; None: nobody looked.
        missing: of committed to undecided, those within what the cluster should have; None: not verified.
        changed: records that the cluster has at the same offset in the same epoch, with other bytes;
            None: not verified.
        unverified: held, and behind what the cluster lets be read; None: not verified.
    """

    batches: int = 0
    markers: int = 0
    records: int = 0
    held: int = 0
    expired: int = 0
    committed: int = 0
    aborted: int = 0
    undecided: int = 0
    salvaged: int = 0
    collisions: int | None = 0
    missing: int | None = None
    changed: int | None = None
    unverified: int | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """What was found of one partition.

    Attributes:
        pieces: the directory's log, in spans of one leader epoch and one fate each.
        holdings: of the cluster, as it was asked.
        markers_since: of a producer whose transaction is undecided, how the cluster's log says that one ended, and at
            which offset: very likely this one.
        file: the name of its Parquet file; None: there is none.
        notes: what a person should know.
    """

    replica: Replica
    holdings: Holdings
    counts: Counts
    pieces: list[tuple[Fate, Span]]
    damage: list[Damage]
    undecided: list[Undecided]
    markers_since: dict[int, tuple[str, int]]
    file: str | None = None
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return it as an entry of the manifest."""
        return {
            "topic": self.replica.topic,
            "partition": self.replica.partition,
            "topic_id": self.replica.topic_id,
            "file": self.file,
            "counts": asdict(self.counts),
            "log": [span._asdict() | {"fate": fate} for fate, span in self.pieces],
            "cluster": {
                "start": self.holdings.start,
                "end": self.holdings.end,
                "epochs": [span._asdict() for span in self.holdings.spans],
            },
            "damage": [asdict(one) for one in self.damage],
            "undecided": [
                asdict(one)
                | dict(zip(("cluster_says", "at"), self.markers_since.get(one.producer_id, (None, None)), strict=True))
                for one in self.undecided
            ],
            "notes": self.notes,
        }
