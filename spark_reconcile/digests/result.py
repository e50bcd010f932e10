"""What a run of digests read and found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias, get_args

from spark_reconcile.digests.reading import Place
from spark_reconcile.digests.tree import Differences, Run, merged

Kind: TypeAlias = Literal["lost", "replaced", "changed"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Finding:
    """Records of a partition that were lost, or replaced, or of which one a run at least was changed.

    ``runs`` of offsets. ``there_ns``: all of them were last read then, or later. ``cut``: the offset at which an
    election has cut the log; None: not known.
    """

    topic: str
    topic_id: str | None
    partition: int
    kind: Kind
    runs: tuple[Run, ...]
    there_ns: int
    cut: int | None = None


@dataclass(slots=True)
class Digested:
    """What a run read and found.

    Attributes:
        findings: what is lost or changed since what was kept.
        unknown: partitions that have no leader, of which what was kept still holds nothing new.
        unjudged: partitions with known records that are gone, of topics of which it is unknown whether they are
            compacted.
        held: partitions whose last stable offset is what it was, though there are records behind it.
        missing: names under ``topics`` that no topic has.
        begun: topics of which nothing was known: their records were compared with nothing.
        read: records that were read; of these ``verified`` are known to be what they were.
        taken_over: known records that were not read; of the ``oldest_ns`` ones that is when they were last read.
        unproven: the same, of compacted logs of which it is unknown whether they were cut.
        expired: known records that are below the log's start now, of leaves that are so altogether.
        since_ns: when what it was compared with was read.
        notes: what else there is to say.
    """

    findings: list[Finding] = field(default_factory=list)
    unknown: list[Place] = field(default_factory=list)
    unjudged: list[Place] = field(default_factory=list)
    held: list[Place] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    differences: Differences = field(default_factory=Differences)
    read: int = 0
    records: int = 0
    partitions: int = 0
    taken_over: int = 0
    unproven: int = 0
    expired: int = 0
    oldest_ns: int | None = None
    since_ns: int | None = None
    seconds: float = 0.0

    @property
    def not_known(self) -> int:
        """Of how many partitions, and of names without a topic, it is unknown whether they lost records."""
        return len(self.unknown) + len(self.unjudged) + len(self.missing)

    def summary(self) -> dict[str, Any]:
        """Return it as JSON values: counts of records, partitions; times in ns; places as [topic, partition]."""
        lost, replaced = (
            sum(run.size for one in self.findings if one.kind == kind for run in one.runs)
            for kind in ("lost", "replaced")
        )
        changed = sum(len(one.runs) for one in self.findings if one.kind == "changed")
        return {
            "partitions": self.partitions,
            "records": self.records,
            "records_read": self.read,
            "verified": self.differences.compared,
            "taken_over": self.taken_over,
            "unproven": self.unproven,
            "oldest_ns": self.oldest_ns,
            "since_ns": self.since_ns,
            "lost": lost,
            "replaced": replaced,
            "changed": changed,
            "expired": self.expired,
            "compacted": self.differences.gone,
            "not_compared": self.differences.uncompared,
            "unknown": [list(place) for place in self.unknown],
            "unjudged": [list(place) for place in self.unjudged],
            "held": [list(place) for place in self.held],
            "missing": self.missing,
            "begun": self.begun,
            "notes": self.notes,
            "seconds": round(self.seconds, 1),
        }


def joined(findings: Sequence[Finding]) -> list[Finding]:
    """Return the findings with those of a partition as one, and offsets that follow each other as one run."""
    whole: dict[tuple[str, int, str], list[Finding]] = {}
    for one in findings:
        whole.setdefault((one.topic, one.partition, one.kind), []).append(one)
    result = []
    for (_, _, kind), some in sorted(whole.items()):
        runs = sorted(run for one in some for run in one.runs)
        there_ns = min(one.there_ns for one in some)
        result.append(replace(some[0], runs=tuple(runs if kind == "changed" else merged(runs)), there_ns=there_ns))
    return result
