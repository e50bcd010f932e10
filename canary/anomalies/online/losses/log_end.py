"""What a listed end proves: an end that goes back, twice in a row, is a cut (decision 5).

An end that does not go back and is still below a promise is a former leader's, which was paused or cut off and does
not know of its successor yet: it lists the end of its own time, under an epoch in which no higher end was ever listed.
Example: leader 1 (epoch 4) lists 100 and is paused; leader 2 (epoch 5) acknowledges offsets up to 120; leader 1 resumes
and lists 100 again. Such an end counts only after _FORMER_LOOKS, and not while promises are still made beyond it, for
they show that another leader takes the writes. So does a higher epoch that was seen since this one was listed, and
another leader in the metadata.
"""

from dataclasses import dataclass

from canary import facts as f
from canary.anomalies import policy
from canary.anomalies.online import generations
from canary.anomalies.online.log import Log
from canary.anomalies.online.losses import log_start
from canary.anomalies.online.losses.questions import Missing, Regression
from canary.anomalies.online.meters import Reading
from canary.anomalies.online.missing import CUT, miss
from canary.anomalies.online.rules import memory, retention
from canary.anomalies.online.scope import Probes, Scope, Where
from canary.anomalies.online.sets.intervals import IntervalSet
from canary.anomalies.online.state import Topic
from canary.anomalies.online.topology import clock, liveness, timeline
from canary.anomalies.online.wanted import epoch_changed

_LOOKS = 2
"""Listed ends below something, each asked for later than that was missed, before it is gone."""
_FORMER_LOOKS = 10
"""The same where a former leader may list them: about so many seconds, longer than one takes to learn that it is."""
_FORMER_APART_NS = 900_000_000
"""Two looks at what may be a former leader's end that are closer together are one."""
_CUT_KEPT_NS = 120 * 10**9
_UNCUT_NS = 10 * 10**9
"""For so long a listed end is not asked about again that a fetch has contradicted."""


@dataclass(frozen=True, slots=True)
class _Look:
    """An answer, and what was known when it was asked for: ``asked`` facts, and promises below ``known_end``.

    ``back``: the end was higher in this leader epoch. ``grown``: the log goes on under another leader: promises were
    made beyond the end, and beyond the others, since the look before, or a higher epoch was seen.
    """

    fact: f.Listed
    asked: int
    known_end: int
    back: bool
    grown: bool

    def enough(self, whole_epoch: int | None) -> int:
        """Return how many looks in a row an end below a promise takes to count.

        ``whole_epoch`` is the last epoch in which the end was at or above all that was promised by then.
        """
        epoch = self.fact.leader_epoch
        newer = epoch is None or whole_epoch is None or epoch > whole_epoch
        return _LOOKS if newer or self.back else _FORMER_LOOKS

    def counts(self, since_ns: int, *, former: bool) -> bool:
        """Say whether it is one more look after that of ``since_ns``; by a clock that was set back since, it is."""
        return not former or not 0 <= self.fact.at_ns - since_ns < _FORMER_APART_NS


def listed(scope: Scope, fact: f.Listed) -> None:
    """The partition answered: start, end, last stable offset."""
    state = scope.state
    topic, log = scope.place(fact.topic, fact.partition)
    if topic.is_in_question or fact.start < 0 or fact.end < fact.start:
        return  # of another topic, maybe, or no answer (librdkafka: -1001 without an error where there is no leader)
    stands = fact.leader_epoch is not None and log.ends.get(fact.leader_epoch) == fact.end
    if not timeline.epoch_listed(scope, fact.topic, fact.partition, fact.leader_epoch, stands=stands):
        return  # of a former leader, or of none
    asked = state.asks.get(fact.sample)
    known = None if asked is None else asked.ends.get(fact.topic, {}).get(fact.partition)
    known_end = 0 if known is None else known[0] or 0
    retention.emptied(scope, topic, log, fact, known_end)
    log.listed_ns = fact.at_ns
    if fact.start < log.start:  # all replicas were emptied, or the new leader has deleted less
        log.start = log.scrub_goal = 0
    if fact.leader_epoch is not None and fact.leader_epoch != log.epoch:
        epoch_changed(scope, log, fact.leader_epoch)
    liveness.answered(scope)
    _first_answered(topic, log)
    memory.answered(scope, log, fact.end)
    log.listed_ordinal = state.ordinal
    log.end, log.stable = fact.end, fact.stable
    _replicated(log, fact)
    log.full_isr_end = min(log.full_isr_end, fact.end)
    if fact.end < known_end and not _is_uncut(scope, log):  # a sign of a cut, which an advance of the start regards
        log.note_low_end(fact.end, known_end)
    if fact.start > log.start or log.promised.overlaps(0, fact.start):  # it may have been lower meanwhile
        log_start.listed(scope, topic, log, fact.start)
    else:
        log.begun_ns = fact.at_ns
    back, log.epoch_end = fact.end < log.epoch_end, max(log.epoch_end, fact.end)
    log.epoch_start = fact.end if log.epoch_start is None else min(log.epoch_start, fact.end)
    if known is not None and fact.end >= max(end or 0 for end in known):
        log.whole_epoch = fact.leader_epoch
        stood = max(filter(None, known), default=0)
        log.whole = log.whole if asked is None or log.busy else Reading(asked.at_ns, stood)
    grown, log.asked_end = _is_former(scope, log, fact) or known_end > max(fact.end, log.asked_end), known_end
    look = _Look(fact, asked.ordinal if asked is not None else 0, known_end, back=back, grown=grown)
    _judge_beyond(scope, topic, log, look)
    if asked is not None:
        generations.forget_retired(scope, topic, log, asked.ordinal, fact.end)
        if known is not None:
            _judge_end(scope, topic, log, look)


def _is_uncut(scope: Scope, log: Log) -> bool:
    """Whether a fetch has just given what stands above an end that was listed."""
    return clock.lately(scope.state, log.uncut_ns, _UNCUT_NS)


def _first_answered(topic: Topic, log: Log) -> None:
    """A partition answers: what was due before its first answer since the start, and was never sent, waits no more."""
    is_sent = log.given_up_ns or any(stream.open for stream in topic.streams if stream.partition == log.partition)
    if not log.listed_ordinal and not is_sent:
        log.tried_ns = 0


def _replicated(log: Log, fact: f.Listed) -> None:
    """What is below a listed end is not the leader's alone."""
    log.alone.remove(0, fact.end)
    if log.next_from is not None and (fact.leader_epoch is None or fact.end > log.next_from):
        log.next_from = None  # by this leader
    log.alone_listed = log.alone.end() or 0


def _is_former(scope: Scope, log: Log, fact: f.Listed) -> bool:
    """Whether a later leader was seen since this one listed just this end.

    Another end is that of a leader that takes writes: lower epochs are used again after a restore of the metadata.
    """
    epoch = fact.leader_epoch
    if epoch is None:
        return False
    if not timeline.is_former(scope, fact.topic, fact.partition, epoch):
        log.ends[epoch] = log.epoch_end
        return False
    if log.ends.get(epoch) == fact.end:
        return True
    if timeline.is_latest(scope, fact.topic, fact.partition, epoch):
        log.ends[epoch] = fact.end  # it grew before another leader was named
    else:
        log.ends.pop(epoch, None)
    return False


def _judge_beyond(scope: Scope, topic: Topic, log: Log, look: _Look) -> None:
    """Ask again for places at or above the end that a re-read met: where one reaches now, or the end stays below them.

    While a transaction is open, read_committed ends at the last stable offset: places above wait for that, or for its
    standstill.
    """
    end = look.fact.end
    hiding = liveness.hiding(scope, topic, log)
    reach = end if hiding is None else hiding
    log.missing = [part for one in log.missing for part in (one.split(end) if one.state == "beyond" else (one,))]
    for m in log.missing:
        enough = look.enough(m.epoch)
        counts = look.counts(m.sampled_ns, former=enough == _FORMER_LOOKS or m.formers > 0)
        if m.state == "beyond" and m.offset < end:
            m.state, m.samples = "ask" if m.offset < reach and counts else "beyond", 0
        elif m.state == "beyond" and m.ordinal < look.asked:
            if look.grown or _is_alone(log, m):
                m.samples = 0
            elif counts:
                m.samples, m.sampled_ns = m.samples + 1, look.fact.at_ns
        if m.state == "beyond" and m.samples >= enough:
            m.state, m.samples, m.cut = "ask", 0, True


def _is_alone(log: Log, m: Missing) -> bool:
    """Whether the leader alone acknowledged some of them: it has them, though it lists a lower end."""
    runs = log.claims.aligned(m.offset, m.offset + m.count, m.sequence - m.offset, m.tag)
    return any(log.alone.overlaps(run.key, run.end) for run in runs)


def _judge_end(scope: Scope, topic: Topic, log: Log, look: _Look) -> None:
    """An end below the one known before the question: once proves nothing, several times in a row is a cut.

    After a fetch has given what stands above it, it proves nothing for a while.
    """
    regression, fact, known_end = log.regression, look.fact, look.known_end
    if _is_uncut(scope, log):
        log.regression = None
        return
    if regression is not None and fact.sample > regression.sample:
        log.regression = None
        if fact.end < regression.known_end and not look.grown:
            enough, regression.sample = look.enough(log.whole_epoch), fact.sample
            if look.counts(regression.looked_ns, former=enough == _FORMER_LOOKS):
                regression.looks, regression.looked_ns = regression.looks + 1, fact.at_ns
            if regression.looks >= enough:
                _cut(scope, topic, log, fact, regression)
            else:
                log.regression = regression
            return
    if log.regression is None and fact.end < known_end:
        kept = [part for a, b in log.promised.within(fact.end, known_end) for part in log.alone.without(a, b)]
        runs = [list(r) for a, b in kept for r in log.claims.within(a, b)]
        if runs:
            log.regression = Regression(fact.sample, fact.end, known_end, runs, looked_ns=fact.at_ns)


def _cut(scope: Scope, topic: Topic, log: Log, fact: f.Listed, regression: Regression) -> None:
    evidence = {
        "known_end": regression.known_end,
        "listed_end": fact.end,
        "leader_epoch": fact.leader_epoch,
        "at_ns": fact.at_ns,
    }
    log.see_cut(evidence, topic.streams)
    log.corrupt.remove(fact.end, max(log.corrupt.end() or 0, fact.end))  # a damaged record there later is another one
    scope.meters(topic.name, log.partition).regressions += 1
    for offset, count, sequence, tag in regression.runs:
        a = max(offset, fact.end)
        for run in log.claims.aligned(a, offset + count, sequence - offset, tag):
            miss(scope, Probes(topic, log, topic.streams[tag], run.value, run.length, run.key), CUT)


def report_cut(scope: Scope, topic: Topic, log: Log) -> None:
    """Report where the log was cut, if it was, once nothing is in doubt any more."""
    if log.missing or log.rereads or log.regression or log.wanted:
        return
    if log.lost_offsets:
        first, end = log.cut_at, log.lost_offsets.end() or 0
        if first is not None:
            modes = topic.modes(log.partition)
            lost = sum(b - a for a, b in log.lost_offsets.within(first, end))
            scope.report(
                "truncation",
                Where(topic, log.partition, first, leader_epoch=log.epoch_of_cut),
                f"the log was cut at {first}: {lost} promised records from there on are gone",
                mode=next(iter(modes)) if len(modes) == 1 else None,
                severity=policy.severity("truncation", *modes),
                evidence={"cut": log.cut, "lost": lost, "last": end - 1},
                after_ns=log.lost_after_ns,
            )
            log.cut = None
        log.lost_offsets, log.lost_later, log.lost_after_ns = IntervalSet(), IntervalSet(), 0
        _forget_signs(log)
    elif not log.held:
        _forget_signs(log)
        if log.cut is not None and not _is_open(scope, topic, log):
            log.cut = None
    if log.cut is not None and scope.state.now_ns - int(log.cut["at_ns"]) > _CUT_KEPT_NS:
        log.cut = None


def _is_open(scope: Scope, topic: Topic, log: Log) -> bool:
    """Whether something is on its way that may have been cut off, and be promised yet: no re-read has looked for it.

    What was promised when the cut was seen has been read again by then, or had expired: what goes later goes by itself.
    """
    is_sending = any(stream.open for stream in topic.streams if stream.partition == log.partition)
    return is_sending or any(one.outcome == "open" for one in scope.state.transactions.values())


def _forget_signs(log: Log) -> None:
    log.conflicted, log.low_end, log.given_again = False, None, IntervalSet()
    if log.cut is None:
        log.cut_epoch = None
