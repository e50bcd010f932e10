"""One partition of one group: its lag, and whether it is stuck, was reset, or has lost its offset.

Stuck is judged as Burrow does it, by the commits alone and never by a threshold of the lag: the group commits nothing
in a partition in which there is something to read. How long it may do so depends on how long it usually takes from one
commit to the next, ``patience_s`` at least. Time in which there is nothing to read counts for nothing.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from canary.anomalies.groups.sample import Commit, Log, Told

State = Literal["ok", "stuck", "unmoved", "stopped", "reset", "expired", "unknown"]
"""How a group does in a partition; ``unmoved``: something is there that it does not read, and nothing is added. That
may be the marker of a transaction, or data that was aborted, which no consumer is given; or it is stuck."""
_STEPS: Final = 9
_USUAL: Final = 3
"""A group is stuck after so many times as long as it usually takes from one commit to the next."""
_PAUSE_NS: Final = 60 * 10**9
"""Rounds are nearer to each other, unless the cluster does not answer."""
_SHOWN_NS: Final = 10 * 60 * 10**9
"""For how long a reset is shown as the state of a partition."""


class Event(NamedTuple):
    """What happened to the committed offset of a partition, from ``before`` to ``now`` (None: it is gone)."""

    kind: Literal["group-reset", "group-offsets-expired"]
    how: str
    before: int
    now: int | None
    mild: bool
    """The group had no member, or a tool did it: somebody may have meant it."""
    doubtful: bool = True
    """It is believed when it is seen twice in a row."""
    after_ns: int = 0
    """When the committed offset was last certain, before that."""


@dataclass(slots=True)
class Standing:
    """Since when (ns) the committed offset has stood still below the end, and the end at that time."""

    since_ns: int
    end: int


@dataclass(slots=True)
class PlaceState:
    """What is remembered of it.

    Attributes:
        commit: The last one that is certain, also when there is none any more.
        members: Those of the round before.
        standing: Since when nothing is committed, None while there is nothing to read.
        steps_s: How long it took from one commit to the next, lately.
        short: For how many rounds in a row the committed offset was below the log's start.
        doubt: What the next round has to confirm: it may be the answer of a coordinator of former times.
        beyond: The committed offset is beyond the end, and that was said.
        judged_ns: When it was judged last.
        sure_ns: When that was without a doubt.
    """

    commit: Commit | None = None
    members: int = 0
    standing: Standing | None = None
    steps_s: deque[float] = field(default_factory=lambda: deque(maxlen=_STEPS))
    short: int = 0
    doubt: Event | None = None
    beyond: bool = False
    expired: bool = False
    reset_ns: int | None = None
    judged_ns: int = 0
    sure_ns: int = 0
    state: State = "unknown"

    def judge(self, told: Told, log: Log, now: Commit | None, at_ns: int, patience_s: float) -> Event | None:
        """Take what a round was told, and return what happened, if something did."""
        if self.standing is not None and at_ns - self.judged_ns > _PAUSE_NS:
            self.standing.since_ns += at_ns - self.judged_ns  # of a time in which nobody answers nothing is held
        self.judged_ns = at_ns
        doubted, self.doubt = self.doubt, None
        event = self._changed(told, log, now)
        if event is not None and event.doubtful and (doubted is None or doubted.how != event.how):
            self.doubt = event
            return None
        event = doubted if event is not None and event.doubtful else event
        event = None if event is None else event._replace(after_ns=self.sure_ns)
        self.sure_ns = at_ns
        self.members = told.members
        if now is None:
            self.expired = self.expired or event is not None
            self.standing, self.state = None, "expired" if self.expired else "unknown"
            return event
        self._follow(event, log, now, at_ns)
        self.state = self._state(told, log, at_ns, patience_s)
        return event

    @property
    def usual_s(self) -> float:
        """How long it usually takes from one commit to the next, in s; 0 where that is not known."""
        return sorted(self.steps_s)[len(self.steps_s) // 2] if self.steps_s else 0.0

    def _follow(self, event: Event | None, log: Log, now: Commit, at_ns: int) -> None:
        before, self.commit, self.expired = self.commit, now, False
        self.short = self.short + 1 if now.offset < log.start else 0
        self.beyond = now.offset > log.end
        moved = before is not None and now.offset != before.offset
        if event is not None:
            self.reset_ns, self.standing = at_ns, None
        elif moved and self.standing is not None:
            self.steps_s.append((at_ns - self.standing.since_ns) / 1e9)
            self.standing = None
        if now.offset >= log.end:
            self.standing = None
        elif self.standing is None:
            self.standing = Standing(at_ns, log.end)

    def _state(self, told: Told, log: Log, at_ns: int, patience_s: float) -> State:
        standing, empty = self.standing, not told.members and not told.simple
        still_s = 0.0 if standing is None or empty else (at_ns - standing.since_ns) / 1e9
        if standing is not None and still_s > max(patience_s, _USUAL * self.usual_s):
            return "stuck" if log.end > standing.end and not told.simple else "unmoved"
        if self.reset_ns is not None and at_ns - self.reset_ns < _SHOWN_NS:
            return "reset"
        return "stopped" if empty else "ok"

    def _changed(self, told: Told, log: Log, now: Commit | None) -> Event | None:
        """Return what changed the committed offset, if the group itself cannot have done it by reading on."""
        before, idle = self.commit, not told.members
        if before is None:
            return None
        if now is None:
            mild = idle and before.offset >= log.end
            return None if self.expired else Event("group-offsets-expired", "is gone", before.offset, None, mild)
        how, mild, doubtful = "", False, True
        by_tool = before.leader_epoch is not None and now.leader_epoch is None
        if now.offset < before.offset:
            how, mild = "went back", idle or by_tool
        elif now.offset > log.end and not self.beyond:
            how = "is beyond the end of the log"
        elif self.short > 1 and now.offset > before.offset:
            how, doubtful = "went beyond records that were deleted before the group had read them", False
        elif now.offset > before.offset and by_tool and idle and not (self.members or told.simple):
            how, mild, doubtful = "was moved forward while the group had no member", True, False
        return Event("group-reset", how, before.offset, now.offset, mild, doubtful) if how else None
