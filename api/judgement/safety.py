"""Is my data safe right now? The pages and REST take their answer from here.

The answer rests on everything that was ever found in a cluster. For example, a cluster that lost 500 writes a year ago
is never again said to have "kept every write", whether the violation was resolved as lost or as planned; only a false
alarm is no loss.

A new condition is one entry of RULES: a function of the cluster's view and of its violations that yields words, of each
subject for which the condition holds.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal

from api.judgement import verified
from api.judgement.verified import date_and_time, plain_duration
from api.knowledge.views import ClusterView
from api.state import Knowledge
from canary.anomalies.catalogue import CATALOGUE
from canary.anomalies.policy import BLINDNESS, FORGOTTEN, LOSSES, SUSPECTED, UNORDERED, WRITES_LOST
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
        details: What clients reported, in their words, of what has no answer now.
    """

    level: Level
    sentence: str
    losses: str = ""
    kept: bool = False
    details: tuple[str, ...] = ()

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
    hold: dict[Level, list[str]] = {level: [] for level in ORDER}
    for of, rule in RULES:
        hold[of] += rule(cluster, rows)
    level: Level = max((one for one in ORDER if hold[one]), key=ORDER.index, default="safe")
    account = _account(row for row in rows if _is_loss(row) and not _alarms(row))
    named = f"{cluster.name} {account}." if account else ""
    worries = "; ".join(_most(hold["watch"], "and {} more"))
    if level in {"safe", "watch"}:
        over = all(row.state == "resolved" for row in rows if _is_loss(row))
        sentence = _comfort(cluster, account, worries, over=over)
    else:
        kept = verified.kept_until(cluster) if level == "unknown" and not account else ""
        beside = f"Besides, {worries}." if worries else ""
        words = (
            *hold["broken"][:1],
            *_most(hold["unknown"], "{} more subjects are unknown."),
            kept,
            beside,
            named,
        )
        sentence = " ".join(filter(None, words))
    broken = any(_is_loss(row) or row.severity == "critical" for row in rows)
    return Judgement(
        level,
        sentence,
        losses=named if level == "unknown" else sentence if any(map(_is_loss, rows)) else "",
        kept=level in {"safe", "watch"} and not broken and not verified.beside(cluster),
        details=tuple(dict.fromkeys([*(f"{one.question}: {one.error}" for one in cluster.unanswered), *_raw(cluster)])),
    )


def _raw(cluster: ClusterView) -> list[str]:
    return [cluster.waiting_for] if cluster.waiting_for else []


def _most(words: Sequence[str], more: str) -> list[str]:
    """Return the first few, and of how many they are: ``more`` says it with {}."""
    left_out = len(words) - NAMED
    return [*words[:NAMED], *([more.format(left_out)] if left_out > 0 else [])]


def _comfort(cluster: ClusterView, account: str, worries: str, *, over: bool) -> str:
    """Return the sentence for a cluster without an open critical violation; ``over``: every loss is resolved."""
    name, beside = cluster.name, verified.beside(cluster)
    if account:
        since = "; nothing since" if over and not beside else ""
        return f"{name} {account}{since}{beside}{f'; {worries}' if worries else ''}."
    if worries:
        return f"{name} has lost nothing{' that was read' if beside else ''}, but {worries}{beside}."
    return f"{name} has kept every write that {'was read back' if beside else 'it acknowledged'}{beside}."


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


Rule = Callable[["ClusterView", Sequence["ViolationGroup"]], Iterable[str]]
"""Returns words about a cluster from its view and its violations, one for each subject of which it holds."""


def _loses(cluster: ClusterView, rows: Sequence[ViolationGroup]) -> Iterator[str]:
    lost = [row for row in rows if _alarms(row) and row.kind == WRITES_LOST]
    if lost:
        yield f"{cluster.name} has lost {_writes(sum(row.records for row in lost))}{_on_it(lost)}."


def _breaks(cluster: ClusterView, rows: Sequence[ViolationGroup]) -> Iterator[str]:
    broken = [row for row in rows if _alarms(row)]
    number = sum(row.records for row in broken)
    kinds = ", ".join(sorted({CATALOGUE[row.kind].title if row.kind in CATALOGUE else row.kind for row in broken}))
    violations = "1 critical violation" if number == 1 else f"{number:,} critical violations"
    if broken:
        yield f"{cluster.name} has {violations} not resolved: {kinds}{_on_it(broken)}."


def _on_it(rows: Sequence[ViolationGroup]) -> str:
    if any(row.state == "open" for row in rows):
        return ""
    windows = [row.note[:1].lower() + row.note[1:] for row in rows if row.note and row.note.startswith(WINDOW)]
    said = [] if len(windows) == len(rows) else ["an operator has acknowledged that"]
    return f"; {' and '.join([*said, *dict.fromkeys(windows)])}"


def silence(cluster: ClusterView) -> str | None:
    """Return a sentence on why a cluster or a share of its partitions is not judged; None while all are judged."""
    return None if cluster.judges else _unheard(cluster) or _unjudged(cluster)


def _silence(cluster: ClusterView, _rows: Sequence[ViolationGroup]) -> Iterator[str]:
    if (words := silence(cluster)) is not None:
        yield words


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
        by_s = ahead.ahead_s or 0
        way = "behind" if by_s < 0 else "ahead of"
        clock = f"the clock of {ahead.name} is {plain_duration(abs(by_s))} {way} the API's"
        return f"It is not known whether all of {name} is judged: {clock}."
    if cluster.unjudged < cluster.shares:
        share = f"{cluster.unjudged} of {cluster.shares} shares of the partitions of {name}"
        return f"No runner judges {share}{f': {reason}' if reason else ''}."
    if reason is not None:
        return f"The canary of {name} judges nothing: {reason}."
    return f"The canary of {name} has not judged anything for {plain_duration(cluster.age_s or 0)}."


def waits(cluster: ClusterView) -> Iterator[str]:
    """Yield what keeps a runner from judging now."""
    yield from verified.unwatched(cluster)
    yield from verified.unanswered(cluster)
    if cluster.waiting_for and not cluster.unanswered:
        yield f"The canary of {cluster.name} cannot judge now: {cluster.waiting_for}."


def _blinded(cluster: ClusterView, rows: Sequence[ViolationGroup]) -> Iterator[str]:
    for row in rows:
        if row.kind in BLINDNESS and row.state != "resolved":
            if row.kind == FORGOTTEN:
                until = date_and_time(row.last_ns)
                yield f"The canary of {cluster.name} has forgotten a part of what was acknowledged before {until}."
            else:
                title = CATALOGUE[row.kind].title
                yield f"Nothing is known of {cluster.name} now: {title[0].lower()}{title[1:]}."


def _suspected(cluster: ClusterView, rows: Sequence[ViolationGroup]) -> Iterator[str]:
    found = [row for row in rows if row.kind == SUSPECTED and row.state != "resolved"]
    if found:
        number = sum(row.records for row in found)
        places = "1 partition" if number == 1 else f"{number:,} partitions"
        since = date_and_time(min(row.first_ns for row in found))
        yield f"It is unknown whether {places} of {cluster.name} lost writes: that has been suspected since {since}."


def _unproven(cluster: ClusterView, _rows: Sequence[ViolationGroup]) -> Iterator[str]:
    if not cluster.total("canary_probes_acked_total"):
        yield f"{cluster.name} has not acknowledged a probe yet."
    elif not cluster.total("canary_probes_seen_total"):
        yield f"No probe of {cluster.name} has been read back yet."
    for one in cluster.proofs:
        if one.acknowledged_ns and one.partitions and not one.verified_ns:
            yield f"No {one.promise} {one.topic} has been read back yet."


def _unbegun(cluster: ClusterView, _rows: Sequence[ViolationGroup]) -> Iterator[str]:
    """Yield the modes of which nothing is known yet, while other modes are verified."""
    begun = any(one.acknowledged_ns for one in cluster.proofs)
    for one in cluster.proofs if begun else ():
        if one.partitions and not one.acknowledged_ns and one.silent is None:
            yield f"no {one.promise} {one.topic} is acknowledged yet"


def _unwritable(cluster: ClusterView, _rows: Sequence[ViolationGroup]) -> Iterator[str]:
    number = sum(waited_s > UNWRITABLE_AFTER_S for waited_s in cluster.values("canary_unacknowledged_seconds"))
    yield from _counted(number, "1 partition takes no writes", "partitions take no writes")


def _slow(cluster: ClusterView, _rows: Sequence[ViolationGroup]) -> Iterator[str]:
    if not cluster.slow:
        return
    most = max(cluster.slow, key=lambda one: one.within_s)
    many = f"brokers {', '.join(one.broker for one in cluster.slow)} are"
    who = many if len(cluster.slow) > 1 else f"broker {most.broker} is"
    others = f"those to other brokers within {most.others_s:g} s"
    yield f"{who} slow: nine requests in ten are answered within {most.within_s:g} s, {others}"


def _warns(_cluster: ClusterView, rows: Sequence[ViolationGroup]) -> Iterator[str]:
    open_ones = (row for row in rows if row.severity == "warning" and row.state == "open")
    warnings = sum(row.records for row in open_ones if row.kind not in BLINDNESS | {SUSPECTED})
    yield from _counted(warnings, "1 warning is open", "warnings are open")


def _troubled(cluster: ClusterView, _rows: Sequence[ViolationGroup]) -> Iterator[str]:
    known = silence(cluster) or ""
    if others := [one for one in cluster.troubles if one not in known]:
        yield f"its canary does not work in full: {'; '.join(others)}"


def _unstored(cluster: ClusterView, _rows: Sequence[ViolationGroup]) -> Iterator[str]:
    if cluster.writes.takes is False:
        yield f"the store takes no writes of the API ({cluster.writes.why})"


def _leaderless(cluster: ClusterView, _rows: Sequence[ViolationGroup]) -> Iterator[str]:
    number = sum(row.leader in {None, -1} for row in cluster.partitions)
    yield from _counted(number, "1 partition has no leader", "partitions have no leader")


def _late(cluster: ClusterView, _rows: Sequence[ViolationGroup]) -> Iterator[str]:
    oldest = max(cluster.values("canary_unseen_oldest_seconds"), default=0)
    if oldest > LATE_AFTER_S:
        yield f"an acknowledged probe has waited {plain_duration(oldest)} to be read"


def _short(cluster: ClusterView, _rows: Sequence[ViolationGroup]) -> Iterator[str]:
    under = cluster.total("canary_partition_under_min_isr")
    yield from _counted(under, "1 partition is short of replicas", "partitions are short of replicas")


def _counted(number: int, one: str, many: str) -> Iterator[str]:
    if number:
        yield one if number == 1 else f"{number:,} {many}"


def _of_view(words: Callable[[ClusterView], Iterable[str]]) -> Rule:
    return lambda cluster, _rows: words(cluster)


RULES: Final[tuple[tuple[Level, Rule], ...]] = (
    ("broken", _loses),
    ("broken", _breaks),
    ("unknown", _silence),
    ("unknown", _of_view(waits)),
    ("unknown", _of_view(verified.gone)),
    ("unknown", _of_view(verified.other_ids)),
    ("unknown", _blinded),
    ("unknown", _suspected),
    ("unknown", _unproven),
    ("unknown", _of_view(verified.silent)),
    ("unknown", _of_view(verified.unread)),
    ("unknown", _of_view(verified.unverified)),
    ("watch", _troubled),
    ("watch", _unstored),
    ("watch", _unbegun),
    ("watch", _unwritable),
    ("watch", _slow),
    ("watch", _warns),
    ("watch", _leaderless),
    ("watch", _late),
    ("watch", _short),
)
"""The conditions under which the answer is not yes. Of "broken" the first one that holds makes the sentence; of what is
unknown each subject is named, as a whole sentence; of "watch" each is a part of one."""


def overall(judgements: Sequence[Judgement]) -> Judgement:
    """Return the answer for all clusters: that of the worst one, and every loss in any of them."""
    if not judgements:
        return Judgement("unknown", "No cluster is being probed yet.")
    level = max((one.level for one in judgements), key=ORDER.index)
    kept = all(one.kept for one in judgements)
    losses = [one.losses for one in judgements if one.losses]
    if level == "safe" and not losses and kept:
        every = f"All {len(judgements)} clusters have kept every write that they acknowledged."
        return Judgement(level, every if len(judgements) > 1 else judgements[0].sentence, kept=kept)
    worst = [one for one in judgements if one.level == level and (level != "safe" or one.losses or not one.kept)]
    others = [one.losses for one in judgements if one not in worst and one.losses]
    sentence = " ".join((*_some([one.sentence for one in worst]), *_some(others)))
    return Judgement(level, sentence, " ".join(losses), kept, tuple(one for each in judgements for one in each.details))


def _some(sentences: Sequence[str]) -> list[str]:
    more = len(sentences) - NAMED
    return [*sentences[:NAMED], *([f"The same is true of {more} more."] if more > 0 else [])]
