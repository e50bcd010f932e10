"""What the tracker remembers of the topology: of every topic of the cluster, whoever's it is.

Written as it is into the ledger's snapshots, like canary.anomalies.online.state; bounded by the cluster's own size.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

UNKNOWN_LEADER = -2
"""Of a place that was known before the canary's restart: the next sight of it is a first one."""


@dataclass(slots=True)
class Limits:
    """How long a condition must hold, in s of watched time, before it is said.

    Watched time advances only while the cluster answers: a canary that sees nothing for a minute has watched nothing.
    ``under_s`` is longer than a broker's restart. It is for all that a restart makes so by design: under-replicated,
    isr-below-half, under-min-isr, isr-of-one of a topic that is not probed, an offline partition that has one replica.
    ``isr_of_one_s`` is for probe topics.
    """

    offline_s: float = 5.0
    isr_of_one_s: float = 10.0
    under_s: float = 600.0
    unclean_s: float = 2.0


@dataclass(slots=True)
class Place:
    """One partition: leader (-1: none), replicas and ISR in ascending order, and since when it is so (ns).

    ``isrs`` are the ISRs that had anybody in them, the newest last, from the last full one on; none while it is full.
    Where eligible leader replicas are on (KIP-966) the ISR empties when the last of it is gone. ``epoch``: the
    leader's, None until it is told.
    """

    leader: int
    replicas: list[int]
    isr: list[int]
    at_ns: int
    isrs: list[list[int]] = field(default_factory=list)
    epoch: int | None = None

    @property
    def last_isr(self) -> list[int]:
        """The ISR, or the last one that had anybody in it."""
        return self.isr or (self.isrs[-1] if self.isrs else [])

    def eligible(self, min_isr: int | None) -> list[int]:
        """Return who may lead without loss: the ISR; when that is empty, who left it while nothing was acknowledged.

        Without ``min_isr`` replicas in sync the high watermark stands still (KIP-966), so whoever left since then has
        all that was acknowledged.
        """
        if self.isr:
            return self.isr
        found: set[int] = set()
        for isr in reversed(self.isrs):
            found |= set(isr)
            if len(isr) >= (min_isr or 1):
                break
        return sorted(found)


@dataclass(slots=True)
class Known:
    """One topic. ``topic_id`` and ``min_isr`` are None where they are not known; ``ours`` where we write to it.

    ``dead_ids`` are those of its former incarnations.
    """

    ours: bool = False
    topic_id: str | None = None
    min_isr: int | None = None
    dead_ids: list[str] = field(default_factory=list)
    partitions: dict[int, Place] = field(default_factory=dict)


@dataclass(slots=True)
class Broker:
    """One broker: where it was last seen, whether it is there, and since when (ns)."""

    host: str = ""
    rack: str | None = None
    live: bool = True
    since_ns: int = 0
    returned_watched_ns: int | None = None
    """Watched time at which it came back, until one of its replicas is in sync again."""
    away_ns: int = 0
    """How long it had been away then."""
    refilling: int = 0
    """How many replicas it holds, while it has been back for long and none of them is in sync."""


@dataclass(slots=True)
class Suspect:
    """An election of a leader outside the last known ISR: unclean, if evidence comes.

    ``disjoint``: nobody of the former ISR is in the new one, and the sights were close enough to each other to say so.
    ``end``: how far the log was promised to reach then, None where we do not probe; what was written since, this
    election did not cut off. ``lost_first`` and ``lost`` gather lost writes until a truncation is reported;
    ``concluded``: it has been said. ``doubtful``: it may be the answer of a broker that has not heard yet; ``counted``:
    it is none.
    """

    at_ns: int
    watched_ns: int
    former_leader: int
    former_isr: list[int]
    leader: int
    isr: list[int]
    disjoint: bool
    lost_first: int | None = None
    lost: int = 0
    lost_watched_ns: int = 0
    healed_watched_ns: int | None = None
    concluded: bool = False
    end: int | None = None
    doubtful: bool = False
    counted: bool = True


@dataclass(slots=True)
class End:
    """The end of a log that the operator named, and (when it was seen to be lower) the doubt about it."""

    topic_id: str | None
    start: int
    end: int
    stable: int | None
    epoch: int | None
    sample: int
    doubt_sample: int | None = None
    doubt_end: int = 0
    doubt_epoch: int | None = None
    doubt_ns: int = 0


@dataclass(slots=True)
class Epoch:
    """The leader epoch of a partition since ``at_ns``, and how often in a row a lower one was told.

    ``former``: another leader has been seen since, whose epoch is higher and not told yet. ``highest``: that there was
    before the epoch went back, -1 where it never did.
    """

    epoch: int
    lower: int = 0
    at_ns: int = 0
    former: bool = False
    highest: int = -1


@dataclass(slots=True)
class ControllerTold:
    """A controller that is not believed yet: told ``times`` in a row, first at ``at_ns``."""

    broker: int
    at_ns: int
    times: int = 0


@dataclass(slots=True)
class Condition:
    """Something that holds since ``watched_ns`` (watched time) and ``at_ns``; ``said_ns`` is when it was last said."""

    topic_id: str
    extent: str
    watched_ns: int
    at_ns: int
    said_ns: int | None = None


@dataclass(slots=True)
class Topology:
    """All of it. Keys (topic, partition); of conditions (kind, topic, partition), partition -1 for "and others"."""

    limits: Limits = field(default_factory=Limits)
    topics: dict[str, Known] = field(default_factory=dict)
    degraded: dict[tuple[str, int], bool] = field(default_factory=dict)
    """Places that have no leader, or replicas out of sync (or are of a suspect election)."""
    brokers: dict[int, Broker] = field(default_factory=dict)
    controller: int | None = None
    controller_told: ControllerTold | None = None
    suspects: dict[tuple[str, int], Suspect] = field(default_factory=dict)
    ends: dict[tuple[str, int], End] = field(default_factory=dict)
    epochs: dict[tuple[str, int], Epoch] = field(default_factory=dict)
    conditions: dict[tuple[str, str, int], Condition] = field(default_factory=dict)
    unclean: dict[tuple[str, int], int] = field(default_factory=dict)
    """Elections of leaders outside the last known ISR, ever."""
    regressions: dict[tuple[str, int], int] = field(default_factory=dict)
    """Ends of watched logs that went back, ever."""
    events: list[dict[str, Any]] = field(default_factory=list)
    """The last joins, departures and moves of brokers, and changes of the controller: evidence."""
    watched_ns: dict[str, int] = field(default_factory=dict)
    """Watched time by extent."""
    rounds: dict[str, int] = field(default_factory=dict)
    """By extent: when (ns) its last round was told."""
