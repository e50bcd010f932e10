"""What the tracker remembers of one partition of one incarnation of a topic."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from canary.anomalies.online.losses.questions import Held, Missing, Regression, Reread, Unplaced, Wanted
from canary.anomalies.online.meters import Reading
from canary.anomalies.online.sets.intervals import IntervalSet
from canary.anomalies.online.sets.runs import RunMap
from canary.anomalies.online.stream import Stream

READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
ISOLATIONS = frozenset({READ_COMMITTED, READ_UNCOMMITTED})
"""The readers that every topic has are called after them."""
_ALL = 1 << 62
"""Above every sequence."""
_LONG_NS = 60 * 10**9
"""What is not known to be whole for so long, though it works, is over, too: by itself no outage stays open for ever."""


@dataclass(slots=True)
class Reader:
    """One tail consumer in one partition."""

    isolation: str
    position: int
    moved_at_ns: int
    """When the position last moved or reached the end."""
    began: int = 0
    """Where it was put last, or was astray no longer: it has passed everything from there to its position."""
    astray: bool = False
    """It read another history of the log: its position is out of range, or it is given records of a deleted topic.

    It will be put into this history, or is given a record of it.
    """
    heard: int = 0
    """The ordinal of the last fact by which it was given a record, or reached the end: its position was in the log."""


@dataclass(slots=True)
class Retired:
    """A stream's successor began at ``ordinal``; ``end`` is the first end of the log that was asked for after that."""

    ordinal: int
    end: int | None = None


@dataclass(slots=True)
class Log:
    """One partition of one incarnation of a topic."""

    partition: int
    claims: RunMap = field(default_factory=RunMap)
    """Offset to sequence, tagged with the stream: by the latest acknowledgement or read."""
    promised: IntervalSet = field(default_factory=IntervalSet)
    """Offsets whose claim must stay: acknowledged (and committed), or read."""
    corrupt: IntervalSet = field(default_factory=IntervalSet)
    copies: IntervalSet = field(default_factory=IntervalSet)
    """Offsets of copies that were reported as duplicates."""
    phantoms: RunMap = field(default_factory=RunMap)
    """Offset to sequence, tagged with the stream: reported phantoms."""
    start: int = 0
    begun_ns: int = 0
    """When it was last listed to begin no higher than at ``start``."""
    denied_ns: int = 0
    """When a fetch last did not confirm a start that was listed."""
    uncut_ns: int = 0
    """When a fetch last gave promises above an end that was listed again and again."""
    expired: int = 0
    """The highest start so far: promises below have expired, though a leader that deleted less may still hold them."""
    alone: IntervalSet = field(default_factory=IntervalSet)
    """Offsets that the leader alone acknowledged (acks=1), not known to be below the high watermark."""
    alone_listed: int = 0
    """Where ``alone`` ended when the leader last listed its end; beyond it may be the next leader's."""
    acked_end: int = 0
    """Where the last acknowledgement of a leader alone ended: one below it is of another leader."""
    next_from: int | None = None
    """From here on the next leader acknowledged, which is not listed yet: the lowest offset that was given again."""
    newest_from: int | None = None
    """From here to ``acked_end`` are the latest acknowledgements: a log that has one lacks what is ``alone`` beyond."""
    end: int | None = None
    stable: int | None = None
    epoch: int | None = None
    epoch_end: int = 0
    """The highest end that was listed in this epoch: a leader's end does not go back."""
    epoch_start: int | None = None
    """The lowest one: what is at or above it was appended in this epoch (a leader lists no lower end, KIP-207)."""
    ends: dict[int, int] = field(default_factory=dict)
    """By leader epoch, the highest end that was listed in it before a later leader was seen."""
    former_rereads: int = 0
    """How many re-reads a former leader has answered since the present one last did, in this epoch."""
    asked_end: int = 0
    """What the replicated end was when the end was asked for last."""
    whole_epoch: int | None = None
    """The epoch in which the end was last listed at or above all that was promised."""
    whole: Reading = field(default_factory=lambda: Reading(0, 0))
    """Up to where that was while nothing was in doubt: the log was not cut below by then. A new epoch's log, which may
    be cut and have grown again, is in doubt until its tail was read again."""
    leader: int | None = None
    led_ns: int = 0
    """When ``leader`` was first seen to lead: a write that was sent before is of no single leader's latency."""
    replicas: list[int] = field(default_factory=list)
    isr: list[int] = field(default_factory=list)
    full_isr_end: int = 0
    """Everything promised below was promised before the ISR was last seen full."""
    readers: dict[str, Reader] = field(default_factory=dict)
    relayed: IntervalSet = field(default_factory=IntervalSet)
    """Offsets taken by committed transactions of the relay."""
    relay_doubt: int = -1
    """The relay may have taken everything below, so no jump over that is reported."""
    relay_goes_on: bool = False
    """Whether the relay has begun a transaction since the start: no former process took what it passes from then on."""
    scrub_at: int = 0
    """The scrubber's position."""
    scrub_goal: int = 0
    """The end of its present pass; 0 between two passes."""
    scrubbed_ns: int = 0
    """When it last finished one."""
    scrub_began_ns: int = 0
    scrub_from: int = 0
    """Where its present pass began, at ``scrub_pass_ns``."""
    scrub_pass_ns: int = 0
    scrubbed_end: int = 0
    """Everything below was read in its last whole pass, which began at ``verified_ns``."""
    verified_ns: int = 0
    groups: dict[str, int] = field(default_factory=dict)
    """Consumer group to the offset that it committed last."""
    groups_heard_ns: dict[str, int] = field(default_factory=dict)
    """When the group's offset was last committed or fetched."""
    missing: list[Missing] = field(default_factory=list)
    sought: dict[int, IntervalSet] = field(default_factory=dict)
    """By stream: all sequences added to ``missing`` since it was last empty (an index of it)."""
    absent: dict[int, IntervalSet] = field(default_factory=dict)
    """The same for those that were added as absent."""
    unplaced: list[Unplaced] = field(default_factory=list)
    held: dict[str, Held] = field(default_factory=dict)
    held_at: dict[str, RunMap] = field(default_factory=dict)
    """By kind: offset to sequence, tagged with the stream, of the ranges in ``held``."""
    rereads: dict[int, Reread] = field(default_factory=dict)
    wanted: Wanted | None = None
    regression: Regression | None = None
    listed_ordinal: int = 0
    """When the partition last answered."""
    listed_ns: int = 0
    """The same by the clock, also of a former process."""
    before: int = 0
    """Its end when this process first asked, or where its first record was put, if that is higher (an end may be listed
    too low): records below may be of a start that the ledger has forgotten."""
    conflicted: bool = False
    """An offset was given to two probes since nothing was last in doubt."""
    given_again: IntervalSet = field(default_factory=IntervalSet)
    """Promised offsets at which another record stood, of ours or not, since nothing was last in doubt."""
    ends_before_epochs: list[int] = field(default_factory=list)
    """Its known end at the last changes of leader."""
    low_end: int | None = None
    """The lowest end, below the known one, that a leader has listed (even once) since nothing was last in doubt."""
    above_low_end: list[list[int]] = field(default_factory=list)
    """The promised offsets above it then: a cut there takes them, and an end that was listed too low does not."""
    cut_epoch: int | None = None
    """The leader epoch of the first listed end or read that was a sign of a cut, since nothing was last in doubt."""
    cut: dict[str, Any] | None = None
    """Evidence that the log was cut, until the truncation is reported."""
    cut_sent: dict[int, int] = field(default_factory=dict)
    """By stream: from this sequence on all was sent after the log was seen to be cut: that cut did not take it."""
    lost_offsets: IntervalSet = field(default_factory=IntervalSet)
    """Offsets lost since ``cut`` was last reported."""
    lost_after_ns: int = 0
    """When the last of them was last known to stand there."""
    lost_later: IntervalSet = field(default_factory=IntervalSet)
    """Those of them that were sent after the log was seen to be cut."""
    timeline: list[list[int]] = field(default_factory=list)
    """When offsets were sent, in points and lines (canary.anomalies.online.sets.ages): how old an expired one was."""
    size: Reading | None = None
    """How many bytes the leader's log was measured to have last; None: it never was."""
    expiry: dict[str, Any] | None = None
    """An advance of the start over promises; waits until the retention in force is known."""
    changes: list[dict[str, Any]] = field(default_factory=list)
    """The last changes of leader, epoch and ISR: evidence."""
    acked_ns: int = 0
    """When it last acknowledged a probe."""
    tried_ns: int = 0
    """Since when a probe is under way and none was acknowledged; 0 if the last ones were."""
    given_up_ns: int = 0
    """When the last probe under way was given up; 0 while one is under way. Until the next one nothing is asked."""
    retired: dict[int, Retired] = field(default_factory=dict)
    """By stream: those of former generations, to be forgotten if they wrote nothing."""

    @property
    def known_end(self) -> int:
        """The greatest promised offset plus one."""
        return self.promised.end() or 0

    def let_go(self, key: str) -> Held:
        """Remove and return what is held under ``key``."""
        held = self.held.pop(key)
        ranges = self.held_at.get(held.violation.kind, RunMap())
        for run in held.violation.runs:
            if run.offset is not None:
                ranges.remove(run.offset, run.offset + run.size)
        return held

    @property
    def replicated_end(self) -> int:
        """The known end without records that the leader alone acknowledged: a listed end below it is a cut."""
        end = self.known_end
        for a, b in reversed(list(self.alone)):
            if b < end:
                break
            end = self.promised.below(a) or 0
        return end

    @property
    def cut_at(self) -> int | None:
        """The first lost offset that went with the log's end; None where nothing shows that one did.

        An end below it was listed, a consumer stood above the end, or a lost offset, from before a change of leader,
        was given again: a log does that only after a cut. That they were the last ones when the leader changed shows
        nothing: so may be a record that is lost by itself. Nor does a cut take what is below a promise that stands
        below the sign of it; and an end that was listed below what stands is no sign, but for what is lost beyond.
        """
        lost = self.lost_offsets
        signs = [x for a, b in lost for x, _ in self.given_again.within(a, b)][:1]
        signs = [x for x in signs if any(x < known for known in self.ends_before_epochs)]
        if self.low_end is not None:
            above = IntervalSet.of((a, b) for a, b in self.above_low_end)
            kept = [part for a, b in above for part in self.promised.within(a, b)]
            stands = max((end for a, b in kept for _, end in lost.without(a, b)), default=0)
            low = max(self.low_end, stands)
            signs += [low] if lost.overlaps(low, above.end() or lost.end() or 0) else []
        if self.cut is not None and any(self.lost_later.without(a, b) for a, b in lost):
            signs.append(self.cut.get("listed_end", self.cut.get("known_end", 0)))
        if not signs:
            return None
        sign = min(signs)
        return next((a for a, b in lost if b > sign or not self.promised.overlaps(b, sign)), None)

    def see_cut(self, evidence: dict[str, Any], streams: Iterable[Stream]) -> None:
        """Note that the log was cut. ``streams``: of the topic; what they have sent by now may have gone with it."""
        self.cut = evidence
        self.cut_sent = {
            one.tag: one.next_sequence if one.live else _ALL for one in streams if one.partition == self.partition
        }

    def note_low_end(self, end: int, known_end: int) -> None:
        """Note that an end below the known one was listed."""
        if self.low_end is None or end < self.low_end:
            self.low_end, self.above_low_end = end, [[a, b] for a, b in self.promised.within(end, known_end)]
        self.note_sign()

    def note_sign(self) -> None:
        """Note the leader epoch of a listed end or a read that shows a cut; an acknowledgement has none."""
        if self.cut_epoch is None:
            self.cut_epoch = self.epoch

    def last_verified(self, end: int) -> int:
        """Return when (ns) all promises below ``end`` were last known to stand there, 0: not since they were sent.

        The scrubber has read what it has passed after its pass began.
        """
        is_whole, passed = self.scrub_from <= self.start, end <= self.scrub_at and self.scrub_goal
        scrubbed_ns = self.verified_ns if end <= self.scrubbed_end else 0
        return max(self.scrub_pass_ns if is_whole and passed else 0, scrubbed_ns)

    @property
    def epoch_of_cut(self) -> int | None:
        """The leader epoch in which the log was cut, as far as is known: that of the first sign, or the present one."""
        return self.epoch if self.cut_epoch is None else self.cut_epoch

    def goal(self, reader: Reader) -> int | None:
        """Return how far the reader may read, None if the partition has not answered since the runner's start."""
        if not self.listed_ordinal:
            return None
        return self.stable if reader.isolation == "read_committed" and self.stable is not None else self.end

    @property
    def relay_taken(self) -> int:
        """Up to where the relay has taken offsets, or may have; -1 where it is not known to have taken any."""
        return max(self.relayed.end() or -1, self.relay_doubt)

    @property
    def busy(self) -> bool:
        """Whether a question about this log is still open."""
        return bool(self.missing or self.unplaced or self.rereads or self.wanted or self.regression)

    def is_settled(self, since_ns: int, for_ns: int) -> bool:
        """Return whether the end of an outage may be told: the log is whole, or that is not known for long.

        So nobody is told that an outage is over a moment before being told what it has taken. The log is whole if an
        answer that was asked for after ``since_ns`` had all that was promised, and nothing is in doubt or held.
        ``for_ns``: for how long the place works again; less than 0 where the clock was set back meanwhile.
        """
        is_whole = self.whole.known_ns > since_ns and not (self.busy or self.held)
        return is_whole or not 0 <= for_ns < _LONG_NS
