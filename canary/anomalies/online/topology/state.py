"""What the tracker remembers of the topology: of every topic of the cluster, probed or not.

Written as it is into the ledger's snapshots, like canary.anomalies.online.state; bounded by the cluster's own size.
"""

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from canary.anomalies.violation import Violation

UNKNOWN_LEADER = -2
"""The leader of a place known from before the canary's restart: the next sight of it is a first one."""


BROKER_KEPT_NS = 3600 * 10**9
"""What is measured of a broker is kept for so long after it left the cluster."""


@dataclass(slots=True)
class Limits:
    """How long a condition must hold, in s of watched time, before it is reported.

    Watched time advances only while the cluster answers.
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

    ``isrs`` are the non-empty ISRs, the newest last, from the last full one on; none while it is full. With eligible
    leader replicas (KIP-966) the ISR becomes empty when its last member is gone. ``epoch``: the leader's, None until it
    is known.
    """

    leader: int
    replicas: list[int]
    isr: list[int]
    at_ns: int
    isrs: list[list[int]] = field(default_factory=list)
    epoch: int | None = None
    start: int | None = None
    """The offset at which the leader's epoch begins, of a log whose epochs are watched."""

    @property
    def last_isr(self) -> list[int]:
        """The ISR, or the last one that was not empty."""
        return self.isr or (self.isrs[-1] if self.isrs else [])

    def eligible(self, min_isr: int | None) -> list[int]:
        """Return the brokers that may lead without loss: the ISR; if it is empty, those that left it last.

        Below ``min_isr`` replicas in sync the high watermark does not move (KIP-966), so the brokers that left the ISR
        since then have all that was acknowledged.
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
    seen_ns: int = 0
    """When ``topic_id`` was last seen, and ``former_ns``, when the one before was."""
    former_ns: int = 0
    partitions: dict[int, Place] = field(default_factory=dict)
    records: int | None = None
    """How many records it had when it was no longer listed; None: not known."""
    said_gone: bool = False
    """Its end is reported, and it was not seen since."""
    others: "dict[str, OtherIncarnation]" = field(default_factory=dict)
    """By id, what brokers say that it is in place of ``topic_id``, of a topic that is not probed."""
    told_ids: dict[str, str] = field(default_factory=dict)
    """The id that they gave last, by what was asked for: offsets or epochs."""
    held: "dict[str, HeldCut]" = field(default_factory=dict)
    """What was found meanwhile, and is told when it is known whose log it was: by id, partition and time."""


@dataclass(slots=True)
class HeldCut:
    """A cut in a log of which an answer said that it is that of the topic with the violation's id."""

    violation: Violation
    is_said: bool = False


@dataclass(slots=True)
class OtherIncarnation:
    """Another id that brokers give of a topic since ``since_ns``, last at ``told_ns``; its logs, by partition.

    ``alone_ns``: for how long it was given since somebody gave the known one. ``alike``: whether each log was always as
    long as the known one at least; None: not known.
    """

    since_ns: int
    told_ns: int
    alone_ns: int = 0
    alike: bool | None = None
    ends: "dict[int, End]" = field(default_factory=dict)
    epochs: "dict[int, Epoch]" = field(default_factory=dict)
    lineages: "dict[int, Lineage]" = field(default_factory=dict)


@dataclass(slots=True)
class Watched:
    """What the settings name under ``watch``: topics by their names, and patterns."""

    names: list[str] = field(default_factory=list)
    patterns: list[str] = field(default_factory=list)

    def has(self, topic: str) -> bool:
        """Return whether the settings name ``topic``, or a pattern of theirs fits it."""
        return topic in self.names or any(fnmatchcase(topic, pattern) for pattern in self.patterns)


@dataclass(slots=True)
class Vanished:
    """A topic that is not listed any more since ``at_ns``, last seen with its id at ``seen_ns`` (0: never).

    ``records``: how many it had, None: not known. ``is_gone``: asked for by its name, the cluster has no such topic.
    """

    at_ns: int
    topic_id: str = ""
    records: int | None = None
    seen_ns: int = 0
    is_gone: bool = False


@dataclass(slots=True)
class Broker:
    """One broker: its last address, whether it is live, and since when (ns)."""

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

    ``disjoint``: no replica of the former ISR is in the new one, in two samples close together. ``end``: the promised
    end of the log then, None where the canary does not probe; the election did not remove what was written since.
    ``lost_first`` and ``lost`` gather lost writes until a truncation is reported; ``concluded``: the election is
    reported. ``doubtful``: it may be the answer of a broker with old metadata; ``counted``: it is not. ``elected``: a
    leader epoch was listed while it led that is its own; of a leader that only old metadata name there is none.
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
    elected: bool = False
    after_ns: int = 0
    """When the round before was complete, in which the former leader led; 0: that is not known."""


@dataclass(slots=True)
class End:
    """The end of a log that the operator named, and (when it was seen to be lower) the doubt about it.

    ``anew_ns`` is when it was first looked at after its topic was made anew, 0: it is the first topic of this name.
    """

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
    anew_ns: int = 0
    at_ns: int = 0
    """When it was listed; 0: that is not known."""


@dataclass(slots=True)
class Lineage:
    """The leader epochs of a log that the operator named.

    Attributes:
        topic_id: of the topic; None where the cluster has no ids.
        epoch: the last one, which begins at offset ``start``.
        leader: of that epoch, -1: not known.
        end: up to where (exclusive) readers may have been given records in it or before; -1: not known.
        end_epoch: in which epoch that was told.
        said: what was cut when this epoch began, or one before, is reported by the ends of the log.
        cut: from where on the log was cut when ``epoch`` began, at ``cut_ns``; None: it was not.
    """

    topic_id: str | None
    epoch: int
    leader: int
    start: int
    end: int
    end_epoch: int
    said: int = -1
    cut: int | None = None
    cut_ns: int = 0
    end_ns: int = 0
    """When the log last had ``end``; 0: that is not known."""


@dataclass(slots=True)
class Epoch:
    """The leader epoch of a partition since ``at_ns``, and how many answers in a row had a lower one.

    ``former``: another leader was seen since, whose higher epoch is not known yet. ``highest``: the highest one
    before it went back, -1 if it never did.
    """

    epoch: int
    lower: int = 0
    at_ns: int = 0
    former: bool = False
    highest: int = -1
    seen_ns: int = 0
    """When it was last listed."""


@dataclass(slots=True)
class ControllerTold:
    """A controller that is not believed yet: named ``times`` in a row, first at ``at_ns``."""

    broker: int
    at_ns: int
    times: int = 0


@dataclass(slots=True)
class Quorum:
    """The metadata quorum when it was last told: the epoch of its leader, and the highest end of its log.

    ``back_ns``: since when all answers are older, and of one epoch, 0: they are not; the end was ``back_end`` then, and
    the answers came through these brokers.
    """

    epoch: int
    end: int
    at_ns: int
    back_ns: int = 0
    back_epoch: int = -1
    back_end: int = 0
    through: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Condition:
    """Something that holds since ``watched_ns`` (watched time) and ``at_ns``; last reported at ``said_ns``."""

    topic_id: str
    extent: str
    watched_ns: int
    at_ns: int
    said_ns: int | None = None
    over_watched_ns: int | None = None
    """Since when (watched time) it holds no more, and waits for the log to be known to be whole."""
    holds_until_ns: int = 0
    """It does not end before (watched time): what it stands for could not be reported anew."""


@dataclass(slots=True)
class Topology:
    """All of it. Keys (topic, partition); of conditions (kind, topic, partition), partition -1 for "and others"."""

    limits: Limits = field(default_factory=Limits)
    watched: Watched = field(default_factory=Watched)
    vanished: dict[str, Vanished] = field(default_factory=dict)
    """By name, the topics that are watched and not listed any more, until their end is reported or they are back."""
    topics: dict[str, Known] = field(default_factory=dict)
    degraded: dict[tuple[str, int], bool] = field(default_factory=dict)
    """Places that have no leader, or replicas out of sync (or are of a suspect election)."""
    brokers: dict[int, Broker] = field(default_factory=dict)
    controller: int | None = None
    controller_told: ControllerTold | None = None
    suspects: dict[tuple[str, int], Suspect] = field(default_factory=dict)
    ends: dict[tuple[str, int], End] = field(default_factory=dict)
    epochs: dict[tuple[str, int], Epoch] = field(default_factory=dict)
    lineages: dict[tuple[str, int], Lineage] = field(default_factory=dict)
    quorum_epoch: int = -1
    """The epoch of the controller, where the metadata quorum itself tells it; -1: it is not asked."""
    quorum: Quorum | None = None
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
    """By extent: when (ns) its last round was complete."""

    def members(self, now_ns: int) -> dict[int, Broker]:
        """Return the brokers of the cluster by id: those that are live, and those that left within the last hour."""
        return {
            number: one for number, one in self.brokers.items() if one.live or now_ns - one.since_ns <= BROKER_KEPT_NS
        }
