"""Is my data safe right now? The pages and REST take their answer from here.

The answer rests on everything that was ever found in a cluster. For example, a cluster that lost 500 writes a year ago
is never again said to have "kept every write", whether the violation was resolved as lost or as planned; only a false
alarm is no loss.

A new condition is one entry of RULES: a function of the cluster's view and of its violations that returns words, or
None if the condition does not hold.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from api.knowledge.views import ClusterView
from api.state import Knowledge
from canary.anomalies.catalogue import CATALOGUE
from canary.anomalies.policy import BLINDNESS, FORGOTTEN, LOSSES, UNORDERED, WRITES_LOST
from storage.store.values import WINDOW, ViolationGroup

Level = Literal["safe", "watch", "unknown", "broken"]
"""From best to worst. "unknown" is worse than "watch", because losses may go unnoticed."""

ORDER: Final[tuple[Level, ...]] = ("safe", "watch", "unknown", "broken")

UNWRITABLE_AFTER_S = 5.0
"""A partition that acknowledges no probe for longer takes no writes."""
LATE_AFTER_S = 30.0
"""An acknowledged probe that is unread for longer is late."""
NAMED: Final = 3
"""The overall answer has the sentences of at most this many clusters of one level; the list below it has all."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The answer for one cluster, or for all.

    Attributes:
        level: For colours and machines.
        sentence: For people.
        losses: Sentences that name every confirmed loss, resolved ones too; "" if there was none.
        kept: No checked promise was ever found broken, and a runner judges now.
    """

    level: Level
    sentence: str
    losses: str = ""
    kept: bool = False

    @property
    def healthy(self) -> bool:
        """Whether runners judge, and nothing critical is open."""
        return self.level in {"safe", "watch"}


STORE_AWAY: Final = Judgement("unknown", "The store does not answer. Probing goes on; what it finds is kept.")
"""The answer of a page that cannot read the store."""
STORE_LOCKED: Final = "The canary's store takes no writes"


def judge(cluster: ClusterView, knowledge: Knowledge) -> Judgement:
    """Judge one cluster."""
    rows = [row for row in knowledge.groups if row.cluster == cluster.name]
    hold = [(level, words) for level, rule in RULES if (words := rule(cluster, rows)) is not None]
    level: Level = max((level for level, _ in hold), key=ORDER.index, default="safe")
    first = dict(reversed(hold))
    account = _account(row for row in rows if _is_loss(row) and not _alarms(row))
    named = f"{cluster.name} {account}." if account else ""
    if level == "broken":
        sentence = " ".join(filter(None, (first["broken"], first.get("unknown"), named)))
    elif level == "unknown":
        sentence = " ".join(filter(None, (first["unknown"], named)))
    else:
        over = all(row.state == "resolved" for row in rows if _is_loss(row))
        sentence = _comfort(cluster.name, account, first.get("watch"), over=over)
    broken = any(_is_loss(row) or row.severity == "critical" for row in rows)
    return Judgement(
        level,
        sentence,
        losses=named if level == "unknown" else sentence if any(map(_is_loss, rows)) else "",
        kept=level in {"safe", "watch"} and not broken,
    )


def _comfort(name: str, account: str, worry: str | None, *, over: bool) -> str:
    """Return the sentence for a cluster without an open critical violation; ``over``: every loss is resolved."""
    if account:
        since = "; nothing since" if over else ""
        return f"{name} {account}{since}{f'; {worry}' if worry else ''}."
    return f"{name} has lost nothing, but {worry}." if worry else f"{name} has kept every write that it acknowledged."


def _is_loss(row: ViolationGroup) -> bool:
    """Return whether an acknowledged write was lost, resolved or not; a false alarm is no loss."""
    return row.reason != "false" and (row.kind in LOSSES or row.reason == "lost")


def _alarms(row: ViolationGroup) -> bool:
    """Return whether it is an unresolved broken promise, with which the answer is no."""
    return row.severity == "critical" and row.state != "resolved" and row.kind not in BLINDNESS


def _account(losses: Iterable[ViolationGroup]) -> str:
    """Return what was lost, when, and whether it is resolved, to follow the cluster's name; "" without a loss."""
    by_fate: dict[tuple[bool, str], list[ViolationGroup]] = defaultdict(list)
    for row in losses:
        fate = "not resolved" if row.state != "resolved" else "planned" if row.reason == "planned" else "resolved"
        by_fate[row.mode in UNORDERED, fate].append(row)
    return " and ".join(_lost(rows, fate, cheap=cheap) for (cheap, fate), rows in sorted(by_fate.items()))


def _lost(rows: Sequence[ViolationGroup], fate: str, *, cheap: bool) -> str:
    writes = sum(row.records for row in rows if row.kind == WRITES_LOST)
    others = sorted({row.kind for row in rows if row.kind != WRITES_LOST})
    first, last = _day(min(row.first_ns for row in rows)), _day(max(row.last_ns for row in rows))
    when = f"on {first}" if first == last else f"between {first} and {last}"
    what = f"lost {_writes(writes)}" if writes else f"lost data ({', '.join(others)})"
    also = f" (with {', '.join(others)})" if writes and others else ""
    return f"{what}{' with acks=1' if cheap else ''} {when}{also}, {fate}"


def _day(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns // 10**9, UTC).date().isoformat()


def _writes(number: int) -> str:
    return "1 acknowledged write" if number == 1 else f"{number:,} acknowledged writes"


Rule = Callable[["ClusterView", Sequence["ViolationGroup"]], str | None]
"""Returns words about a cluster from its view and its violations; None: the condition does not hold."""


def _loses(cluster: ClusterView, rows: Sequence[ViolationGroup]) -> str | None:
    lost = [row for row in rows if _alarms(row) and row.kind == WRITES_LOST]
    words = f"{cluster.name} has lost {_writes(sum(row.records for row in lost))}"
    return f"{words}{_on_it(lost)}." if lost else None


def _breaks(cluster: ClusterView, rows: Sequence[ViolationGroup]) -> str | None:
    broken = [row for row in rows if _alarms(row)]
    number = sum(row.records for row in broken)
    kinds = ", ".join(sorted({CATALOGUE[row.kind].title if row.kind in CATALOGUE else row.kind for row in broken}))
    violations = "1 critical violation" if number == 1 else f"{number:,} critical violations"
    return f"{cluster.name} has {violations} not resolved: {kinds}{_on_it(broken)}." if broken else None


def _on_it(rows: Sequence[ViolationGroup]) -> str:
    if any(row.state == "open" for row in rows):
        return ""
    windows = [row.note[:1].lower() + row.note[1:] for row in rows if row.note and row.note.startswith(WINDOW)]
    said = [] if len(windows) == len(rows) else ["an operator has acknowledged that"]
    return f"; {' and '.join([*said, *dict.fromkeys(windows)])}"


def silence(cluster: ClusterView) -> str | None:
    """Return a sentence on why a cluster or a share of its partitions is not judged; None while all are judged."""
    return None if cluster.judges else _unheard(cluster) or _unjudged(cluster)


def _unheard(cluster: ClusterView) -> str | None:
    """Return why nothing of any runner arrives: the store, or the runners; None: something does."""
    name = cluster.name
    if any(runner.reports for runner in cluster.runners):
        return None
    if cluster.writes.takes is False:
        return f"{STORE_LOCKED} ({cluster.writes.why}): what runners find in {name} does not arrive. They keep it."
    if not cluster.runners:
        return f"No runner has probed {name} yet."
    if any(runner.ahead_s is not None for runner in cluster.runners):
        return None
    why = ", and the store takes writes: its runner does not run, or does not reach the store"
    age = plain_duration(cluster.age_s or 0)
    return f"The canary of {name} has not reported for {age}{why if cluster.writes.takes else ''}."


def _unjudged(cluster: ClusterView) -> str:
    name = cluster.name
    reason = next((runner.blind for runner in cluster.runners if runner.blind), None)
    ahead = next((runner for runner in cluster.runners if runner.ahead_s is not None), None)
    if reason is None and ahead is not None:
        clock = f"the clock of {ahead.name} is {plain_duration(ahead.ahead_s or 0)} ahead of the API's"
        return f"It is not known whether all of {name} is judged: {clock}."
    if cluster.unjudged < cluster.shares:
        share = f"{cluster.unjudged} of {cluster.shares} shares of the partitions of {name}"
        return f"No runner judges {share}{f': {reason}' if reason else ''}."
    if reason is not None:
        return f"The canary of {name} judges nothing: {reason}."
    return f"The canary of {name} has not judged anything for {plain_duration(cluster.age_s or 0)}."


def waits(cluster: ClusterView) -> str | None:
    """Return a sentence on what keeps a runner from judging now; None: nothing does."""
    return f"The canary of {cluster.name} cannot judge now: {cluster.waiting_for}." if cluster.waiting_for else None


def _blinded(cluster: ClusterView, rows: Sequence[ViolationGroup]) -> str | None:
    for row in rows:
        if row.kind in BLINDNESS and row.state != "resolved":
            if row.kind == FORGOTTEN:
                until = datetime.fromtimestamp(row.last_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
                return f"The canary of {cluster.name} has forgotten a part of what was acknowledged before {until}."
            title = CATALOGUE[row.kind].title
            return f"Nothing is known of {cluster.name} now: {title[0].lower()}{title[1:]}."
    return None


def _unproven(cluster: ClusterView, _rows: Sequence[ViolationGroup]) -> str | None:
    if not cluster.total("canary_probes_acked_total"):
        return f"{cluster.name} has not acknowledged a probe yet."
    return None if cluster.total("canary_probes_seen_total") else f"No probe of {cluster.name} has been read back yet."


def _unwritable(cluster: ClusterView, _rows: Sequence[ViolationGroup]) -> str | None:
    number = sum(waited_s > UNWRITABLE_AFTER_S for waited_s in cluster.values("canary_unacknowledged_seconds"))
    return _counted(number, "1 partition takes no writes", "partitions take no writes")


def _slow(cluster: ClusterView, _rows: Sequence[ViolationGroup]) -> str | None:
    if not cluster.slow:
        return None
    most = max(cluster.slow, key=lambda one: one.within_s)
    many = f"brokers {', '.join(one.broker for one in cluster.slow)} are"
    who = many if len(cluster.slow) > 1 else f"broker {most.broker} is"
    others = f"those to other brokers within {most.others_s:g} s"
    return f"{who} slow: nine requests in ten are answered within {most.within_s:g} s, {others}"


def _warns(_cluster: ClusterView, rows: Sequence[ViolationGroup]) -> str | None:
    warnings = sum(row.records for row in rows if row.severity == "warning" and row.state == "open")
    return _counted(warnings, "1 warning is open", "warnings are open")


def _troubled(cluster: ClusterView, _rows: Sequence[ViolationGroup]) -> str | None:
    return f"its canary does not work in full: {'; '.join(cluster.troubles)}" if cluster.troubles else None


def _unstored(cluster: ClusterView, _rows: Sequence[ViolationGroup]) -> str | None:
    return f"the store takes no writes of the API ({cluster.writes.why})" if cluster.writes.takes is False else None


def _leaderless(cluster: ClusterView, _rows: Sequence[ViolationGroup]) -> str | None:
    number = sum(row.leader in {None, -1} for row in cluster.partitions)
    return _counted(number, "1 partition has no leader", "partitions have no leader")


def _late(cluster: ClusterView, _rows: Sequence[ViolationGroup]) -> str | None:
    oldest = max(cluster.values("canary_unseen_oldest_seconds"), default=0)
    return f"an acknowledged probe has waited {plain_duration(oldest)} to be read" if oldest > LATE_AFTER_S else None


def _short(cluster: ClusterView, _rows: Sequence[ViolationGroup]) -> str | None:
    under = cluster.total("canary_partition_under_min_isr")
    return _counted(under, "1 partition is short of replicas", "partitions are short of replicas")


def _counted(number: int, one: str, many: str) -> str | None:
    return None if not number else one if number == 1 else f"{number:,} {many}"


RULES: Final[tuple[tuple[Level, Rule], ...]] = (
    ("broken", _loses),
    ("broken", _breaks),
    ("unknown", lambda cluster, _rows: silence(cluster)),
    ("unknown", lambda cluster, _rows: waits(cluster)),
    ("unknown", _blinded),
    ("unknown", _unproven),
    ("watch", _troubled),
    ("watch", _unstored),
    ("watch", _unwritable),
    ("watch", _slow),
    ("watch", _warns),
    ("watch", _leaderless),
    ("watch", _late),
    ("watch", _short),
)
"""The conditions under which the answer is not yes. Of each level the first one that holds makes the sentence: "broken"
and "unknown" as a whole sentence, "watch" as what follows "but"."""


def overall(judgements: Sequence[Judgement]) -> Judgement:
    """Return the answer for all clusters: that of the worst one, and every loss in any of them."""
    if not judgements:
        return Judgement("unknown", "No cluster is being probed yet.")
    level = max((one.level for one in judgements), key=ORDER.index)
    kept = all(one.kept for one in judgements)
    losses = [one.losses for one in judgements if one.losses]
    if level == "safe" and not losses:
        every = f"All {len(judgements)} clusters have kept every write that they acknowledged."
        return Judgement(level, every if len(judgements) > 1 else judgements[0].sentence, kept=kept)
    worst = [one for one in judgements if one.level == level and (level != "safe" or one.losses)]
    others = [one.losses for one in judgements if one not in worst and one.losses]
    sentence = " ".join((*_some([one.sentence for one in worst]), *_some(others)))
    return Judgement(level, sentence, " ".join(losses), kept)


def _some(sentences: Sequence[str]) -> list[str]:
    more = len(sentences) - NAMED
    return [*sentences[:NAMED], *([f"The same is true of {more} more."] if more > 0 else [])]


def plain_duration(seconds: float) -> str:
    """Return a duration for people: "14 s", "3 min", "2 h 5 min", "3 d 4 h"."""
    whole = int(seconds)
    if whole < 90:
        return f"{whole} s"
    if whole < 5400:
        return f"{whole // 60} min"
    if whole < 172800:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"
