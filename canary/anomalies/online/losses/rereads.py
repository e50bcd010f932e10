"""What was promised and is not there: asked again, judged by a fresh re-read or by the log's end, then said.

A suspicion becomes a lost write in three steps, none of which is a timer (decisions 5 to 8): somebody passed the place
without finding it; a fresh client re-read the place and did not find it either, or the log ended before it twice in a
row; and two later samples told the same topic id and a start of the log that is not above it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from canary.anomalies import policy
from canary.anomalies.online import generations, liveness, memory, retention, stretches, topology
from canary.anomalies.online.claims import as_said, claimed, copies, standing, standing_copies
from canary.anomalies.online.intervals import IntervalSet
from canary.anomalies.online.questions import (
    PASSED,
    SCRUB,
    SKIPPED,
    await_no_more,
    epoch_changed,
    known_absent,
    not_given,
    scrub_ended,
    seek,
    want,
)
from canary.anomalies.online.runs import Run, RunMap
from canary.anomalies.online.scope import Found, always
from canary.anomalies.online.state import Missing, Regression, Reread, Unplaced, Wanted
from canary.anomalies.violation import Records, RereadRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from canary import facts as f
    from canary.anomalies.online.scope import Scope
    from canary.anomalies.online.state import Held, Log, Stream, Topic

END_OF_LOG = "end of log"
"""How the error of a RereadEnded begins when the log ended before the range did."""
BEYOND = "beyond"
"""Asked once more where a re-read met the log's end below a promise: grown again it no longer looks cut."""
_NEAR = 10_000
"""Places closer than this are asked for in one re-read."""
SAMPLES = 2
"""Equal topic ids, asked after the evidence, before anything is said (a just resumed broker may tell an old one)."""
_LOOKS = 2
"""Listed ends below something, each asked for later than that was missed, before it is gone."""
_TRIES = 2
"""Re-reads without an answer, each of a partition that answers otherwise, before a loss is said unconfirmed."""
_CUT_KEPT_NS = 120 * 10**9


def ask(scope: Scope) -> None:
    """Turn what is missing or wanted into re-read requests; called after each stretch of facts."""
    for topic in scope.state.topics.values():
        if topic.gone_since_ns is not None:
            continue
        for log in topic.logs.values():
            if not log.listed_ordinal:
                continue  # it has not answered since the start; perhaps nobody probes it any more
            if log.missing:
                _ask_missing(scope, topic, log)
            if log.unplaced:
                _ask_unplaced(scope, topic, log)
            wanted = log.wanted
            if wanted is not None and log.listed_ordinal >= wanted.not_before_ordinal and not _tail_asked(log):
                log.wanted = None
                start = max(wanted.start, log.start)
                if start < wanted.end:
                    request(scope, topic, log, start, wanted.end, wanted.reason)


def _tail_asked(log: Log) -> bool:
    return any(reread.reason not in {"confirm", SCRUB} for reread in log.rereads.values())


def request(scope: Scope, topic: Topic, log: Log, start: int, end: int, reason: str) -> int:
    """Ask for a fresh re-read of [start, end); returns its number."""
    state = scope.state
    request_id = state.next_request
    state.next_request += 1
    expected = [list(run) for a, b in log.promised.within(start, end) for run in log.claims.within(a, b)]
    log.rereads[request_id] = Reread(start, end, reason, state.ordinal, expected)
    scope.rereads.append(RereadRequest(request_id, topic.name, log.partition, "read_committed", start, end, reason))
    return request_id


def _ask_missing(scope: Scope, topic: Topic, log: Log) -> None:
    waiting = sorted((m for m in log.missing if m.state == "ask"), key=lambda m: m.offset)
    waiting = [m for m in waiting if m.tries == 0 or log.listed_ordinal > m.ordinal]
    group: list[Missing] = []
    for missing in [*waiting, None]:
        if group and (missing is None or missing.offset > group[-1].offset + group[-1].count + _NEAR):
            end = max(m.offset + m.count for m in group)
            request_id = request(scope, topic, log, group[0].offset, end, "confirm")
            for m in group:
                m.state, m.request_id = "asked", request_id
            group = []
        if missing is not None:
            group.append(missing)


def _ask_unplaced(scope: Scope, topic: Topic, log: Log) -> None:
    for unplaced in log.unplaced:
        if unplaced.state == "ask" and log.listed_ordinal >= unplaced.ordinal:
            start = max(unplaced.low, log.start)
            if start < unplaced.high:
                unplaced.request_id = request(scope, topic, log, start, unplaced.high, "confirm")
                unplaced.state = "asked"
            else:
                unplaced.state, unplaced.ordinal = "absent", scope.state.ordinal


def reread_ended(scope: Scope, fact: f.RereadEnded) -> None:
    """A fresh client has read the range, or could not."""
    topic = scope.topic(fact.topic)
    log = scope.log(topic, fact.partition)
    reread = log.rereads.pop(fact.request_id, None)
    if reread is None:
        return  # of a former process, or of an incarnation that is gone
    reached = min(fact.reached, reread.end)
    ended = fact.error is not None and fact.error.startswith(END_OF_LOG)
    first_absent = _judge_expected(scope, topic, log, reread, reached)
    _judge_asked(scope, topic, log, reread, fact.request_id, reached, ended=ended)
    if reread.reason == "confirm":
        return
    if reread.reason == SCRUB:
        scrub_ended(scope, log, reached)
    elif ended and reread.reason != BEYOND and log.promised.overlaps(reached, reread.end):
        _later(scope, log, max(reached, reread.start), reread.end, BEYOND)
    elif not fact.complete and not ended and reached < reread.end:
        _later(scope, log, max(reached, reread.start), reread.end, reread.reason)
    if first_absent is not None and first_absent <= reread.start + 1 and reread.start > log.start:
        length = max(reread.end - reread.start, 1000)  # the loss may reach further down
        want(scope, log, max(log.start, reread.start - 2 * length), reread.start, reread.reason)


def _later(scope: Scope, log: Log, start: int, end: int, reason: str) -> None:
    """Ask again after the next look at the log."""
    want(scope, log, start, end, reason)
    if log.wanted is not None:
        log.wanted = Wanted(log.wanted.start, log.wanted.end, log.wanted.reason, scope.state.ordinal + 1)


def _judge_expected(scope: Scope, topic: Topic, log: Log, reread: Reread, reached: int) -> int | None:
    """Compare what stood promised with what was delivered; return the first offset that misses its probe."""
    first_absent: int | None = None
    for offset, count, sequence, tag in reversed(reread.expected):  # the last ones are removed the fastest
        a, b = max(offset, reread.start), min(offset + count, reached)
        for x, y in _not_delivered(log, reread, tag, a, b, sequence - offset):
            for run in log.claims.within(x, y):
                if run.tag != tag or run.value - run.key != sequence - offset:
                    continue  # somebody else claims the place since
                _absent(
                    scope, topic, log, Missing(run.key, run.length, run.value, tag, "reread", scope.state.now_ns, 0)
                )
                first_absent = run.key if first_absent is None else min(first_absent, run.key)
    return first_absent


def _not_delivered(log: Log, reread: Reread, tag: int, a: int, b: int, shift: int) -> list[tuple[int, int]]:
    """Return the ranges of [a, b) where the re-read was not given sequence = offset + ``shift`` of stream ``tag``."""
    gaps: list[tuple[int, int]] = []
    at = a
    for run in reread.delivered.within(a, b):
        if run.tag != tag or run.value - run.key != shift:
            continue
        if at < run.key:
            gaps.append((at, run.key))
        at = run.key + run.length
    if at < b:
        gaps.append((at, b))
    damaged = [part for c in (reread.corrupt, log.corrupt) for part in c.within(a, b)]
    for x, y in damaged:
        gaps = [part for g, h in gaps for part in ((g, min(h, x)), (max(g, y), h)) if part[0] < part[1]]
    return gaps


def _absent(scope: Scope, topic: Topic, log: Log, missing: Missing) -> None:
    """A fresh re-read (or the log's end) says it is not there: it claims no place any more, and waits to be said."""
    stream = topic.streams[missing.tag]
    for run in log.claims.within(missing.offset, missing.offset + missing.count):
        if run.tag == missing.tag and run.value - run.key == missing.sequence - missing.offset:
            log.claims.remove(run.key, run.key + run.length)
            log.promised.remove(run.key, run.key + run.length)
            log.copies.remove(run.key, run.key + run.length)
    if missing.why == "moved":
        return  # it stands elsewhere, and whoever stands here now has contradicted it: both are known
    for x, y in stream.lost.without(missing.sequence, missing.sequence + missing.count):
        if known_absent(log, missing.tag, x, y):
            continue
        part = Missing(
            missing.offset + x - missing.sequence,
            y - x,
            x,
            missing.tag,
            missing.why,
            missing.at_ns,
            scope.state.ordinal,
            state="absent",
            confirmed=missing.confirmed,
        )
        seek(log, part)


def _judge_asked(
    scope: Scope, topic: Topic, log: Log, reread: Reread, request_id: int, reached: int, *, ended: bool
) -> None:
    asked = [m for m in log.missing if m.request_id == request_id and m.state == "asked"]
    log.missing = [m for m in log.missing if not (m.request_id == request_id and m.state == "asked")]
    for m in asked:
        below = max(min(reached, m.offset + m.count) - m.offset, 0)
        gone = max(min(reread.start - m.offset, m.count), 0)  # the log's start has passed it: retention judges
        if gone < below:
            _judge_range(scope, topic, log, reread, m, m.offset + gone, m.offset + below)
        if below < m.count:
            rest = Missing(
                m.offset + below, m.count - below, m.sequence + below, m.tag, m.why, m.at_ns, scope.state.ordinal
            )
            rest.tries, rest.given = m.tries, m.given
            if ended:
                rest.state = "beyond"
                log.missing.append(rest)
                continue
            rest.tries += 1
            if rest.tries >= _TRIES and topic.gone_since_ns is None:
                rest.confirmed = False
                _absent(scope, topic, log, rest)
            else:
                log.missing.append(rest)
    _judge_unplaced(scope, topic, log, request_id, reached)


def _judge_range(scope: Scope, topic: Topic, log: Log, reread: Reread, m: Missing, a: int, b: int) -> None:
    stream = topic.streams[m.tag]
    shift = m.sequence - m.offset
    at = a
    for x, y in [*_not_delivered(log, reread, m.tag, a, b, shift), (b, b)]:
        for first, end in log.corrupt.without(at, x):
            _present(scope, topic, log, stream, m, first, end)
        if x < y:
            _absent(
                scope,
                topic,
                log,
                Missing(x, y - x, x + shift, m.tag, m.why, m.at_ns, scope.state.ordinal, confirmed=m.confirmed),
            )
        at = y


def _present(scope: Scope, topic: Topic, log: Log, stream: Stream, m: Missing, a: int, b: int) -> None:
    """They are there: whoever passed them did not deliver them; or they are there twice."""
    shift = m.sequence - m.offset
    a, b = a + shift, b + shift
    if m.why == "moved":
        _stand_twice(scope, topic, log, stream, a, b, shift)
        return
    certain = m.given or m.why in SKIPPED
    skipped = IntervalSet()
    if m.why in PASSED and m.given:
        skipped.add(a, b)
    elif m.why in PASSED:
        skipped = not_given(log, stream, a, b)  # the others came late: nonmonotonic-poll
    for x, y in skipped:
        run = Records(x - shift, y - x, stream.identity(x))
        scope.hold_run(topic, log, run, stream.tag, _skipped(stream, m), check="" if certain else m.why)
    for x, y in [(a, b)] if certain else skipped.without(a, b):
        await_no_more(log, stream, x - shift, x, y)


def _stand_twice(scope: Scope, topic: Topic, log: Log, stream: Stream, a: int, b: int, shift: int) -> None:
    places = stream.places.within(a, b)
    known = IntervalSet()
    for place in places:
        known.add(place.key, place.key + place.length)
    alone = [(x, y - x, x - shift) for x, y in known.without(a, b)]
    for sequence, n, other in sorted([*alone, *((place.key, place.length, place.value) for place in places)]):
        here = sequence - shift
        copy, first = max(here, other), min(here, other)
        found = copies(stream, copy, sorted({here, other}), first)
        scope.hold_run(topic, log, Records(copy, n, stream.identity(sequence)), stream.tag, found)


def _skipped(stream: Stream, m: Missing) -> Found:
    return Found(
        "poll-skip",
        stream.mode,
        always(
            "a read_committed consumer passed a committed probe without delivering it; a fresh one finds it",
            {"passed_at_ns": m.at_ns},
        ),
        "a read_committed consumer passed committed probes without delivering them; a fresh one finds them",
    )


def _judge_unplaced(scope: Scope, topic: Topic, log: Log, request_id: int, reached: int) -> None:
    kept: list[Unplaced] = []
    for u in log.unplaced:
        if u.request_id != request_id or u.state != "asked":
            kept.append(u)
            continue
        stream = topic.streams[u.tag]
        if u.sequence in stream.seen:
            continue  # the re-read (or the tail) was given it
        if reached >= u.high:
            u.state, u.ordinal = "absent", scope.state.ordinal
        else:
            u.state, u.ordinal = "ask", scope.state.ordinal + 1
        kept.append(u)
    log.unplaced = kept


def listed(scope: Scope, fact: f.Listed) -> None:
    """The partition answered: start, end, last stable offset."""
    state = scope.state
    topic = scope.topic(fact.topic)
    log = scope.log(topic, fact.partition)
    if fact.start < 0 or fact.end < fact.start:
        return  # no answer, whatever the client says (librdkafka: -1001 without an error where there is no leader)
    if not topology.epoch_listed(scope, fact.topic, fact.partition, fact.leader_epoch):
        return  # of a leader of yesterday, or of nobody
    if fact.start < log.start:
        retention.begins_anew(log)
    if fact.leader_epoch is not None and fact.leader_epoch != log.epoch:
        epoch_changed(scope, log, fact.leader_epoch)
    liveness.answered(scope)
    memory.answered(log, fact.end)
    log.listed_ordinal = state.ordinal
    log.end, log.stable = fact.end, fact.stable
    log.alone.remove(0, fact.end)
    log.alone_listed = log.alone.end() or 0
    log.full_isr_end = min(log.full_isr_end, fact.end)
    asked = state.asks.get(fact.sample)
    known = None if asked is None else asked.ends.get(fact.topic, {}).get(fact.partition)
    known_end = 0 if known is None else known[0] or 0
    if fact.end < known_end:  # a sign of a cut, of which the start's advance has to know
        log.low_end = fact.end if log.low_end is None else min(log.low_end, fact.end)
    if fact.start > log.start or log.promised.overlaps(0, fact.start):  # it may have begun lower meanwhile
        retention.start_advanced(scope, topic, log, fact.start)
    _judge_beyond(scope, topic, log, fact.end, asked.ordinal if asked is not None else 0)
    if asked is not None:
        generations.forget_retired(scope, topic, log, asked.ordinal, fact.end)
        if known is not None:
            _judge_end(scope, topic, log, fact, known_end)


def _judge_beyond(scope: Scope, topic: Topic, log: Log, end: int, asked: int) -> None:
    """What a re-read met the log's end before is there to be looked for again, or is gone: twice in a row, as below."""
    for m in log.missing:
        if m.state == "beyond" and end > m.offset:
            m.state, m.samples = "ask", 0
        elif m.state == "beyond" and m.ordinal < asked:
            m.samples += 1
    gone = [m for m in log.missing if m.state == "beyond" and m.samples >= _LOOKS]
    if gone:
        log.missing = [m for m in log.missing if m.state != "beyond" or m.samples < _LOOKS]
    for m in gone:
        _absent(scope, topic, log, m)


def _judge_end(scope: Scope, topic: Topic, log: Log, fact: f.Listed, known_end: int) -> None:
    """An end below what was known before the question: once is nothing, twice in a row is a cut (decision 5)."""
    regression = log.regression
    if regression is not None and fact.sample > regression.sample:
        log.regression = None
        if fact.end < regression.known_end:
            _cut(scope, topic, log, fact, regression)
            return
    if log.regression is None and fact.end < known_end:
        kept = [part for a, b in log.promised.within(fact.end, known_end) for part in log.alone.without(a, b)]
        runs = [list(r) for a, b in kept for r in log.claims.within(a, b)]
        if runs:
            log.regression = Regression(fact.sample, fact.end, known_end, runs)


def _cut(scope: Scope, topic: Topic, log: Log, fact: f.Listed, regression: Regression) -> None:
    log.cut = {
        "known_end": regression.known_end,
        "listed_end": fact.end,
        "leader_epoch": fact.leader_epoch,
        "at_ns": fact.at_ns,
    }
    meters = scope.meters(topic.name, log.partition)
    meters.regressions += 1
    for offset, count, sequence, tag in reversed(regression.runs):  # the last ones are removed the fastest
        a = max(offset, fact.end)
        for run in reversed(log.claims.within(a, offset + count)):
            if run.tag == tag and run.value - run.key == sequence - offset:
                _absent(
                    scope,
                    topic,
                    log,
                    Missing(run.key, run.length, run.value, tag, "end", scope.state.now_ns, scope.state.ordinal),
                )


def release(scope: Scope, topic: Topic, sample_ordinal: int) -> None:  # four kinds of waiting
    """The topic id, asked at ``sample_ordinal``, is the same: what waited for that comes a step nearer."""
    for log in topic.logs.values():
        _release_missing(scope, topic, log, sample_ordinal)
        for u in list(log.unplaced):
            if u.state == "absent" and u.ordinal < sample_ordinal:
                u.samples += 1
                if u.samples >= SAMPLES:
                    log.unplaced.remove(u)
                    _lost_unplaced(scope, topic, log, u)
        for key, held in list(log.held.items()):
            if held.ordinal < sample_ordinal:
                held.samples += 1
            if held.samples >= SAMPLES and not (held.check and log.busy):
                _release_held(scope, topic, log, log.let_go(key))
        _report_cut(scope, topic, log)


def _release_missing(scope: Scope, topic: Topic, log: Log, sample_ordinal: int) -> None:
    due: list[Missing] = []
    waiting: list[Missing] = []
    for m in log.missing:
        if m.state == "absent" and m.ordinal < sample_ordinal:
            m.samples += 1
        ready = m.state == "absent" and m.samples >= SAMPLES and m.ordinal < min(sample_ordinal, log.listed_ordinal)
        (due if ready else waiting).append(m)
    if not due:
        return
    log.missing = waiting
    elsewhere = _copies(log)
    stretches.say(scope, topic, log, [loss for m in due for loss in _lost(scope, topic, log, m, elsewhere)])


def _release_held(scope: Scope, topic: Topic, log: Log, held: Held) -> None:
    stand = standing(topic, log, held)
    if held.check in PASSED and held.violation.offset is not None:
        end = held.sequence + held.violation.count
        await_no_more(log, topic.streams[held.tag], held.violation.offset, held.sequence, end)
    if held.violation.kind == "duplicate":
        _release_copies(scope, topic, log, held, stand)
    elif stand:
        scope.emit(held.violation.about(stand))


def _release_copies(scope: Scope, topic: Topic, log: Log, held: Held, stand: list[Records]) -> None:
    for run in stand:
        for said in as_said(scope, topic, held.violation.about([run])):
            scope.emit(said)
        if run.offset is not None:
            log.copies.add(run.offset, run.offset + run.size)
    if held.check == "copy":  # where the first one is gone, this one is the place now
        places, both = topic.streams[held.tag].places, standing_copies(log, held)
        for offset in (held.first, held.violation.offset or 0):
            for a, b in claimed(log, held, offset):
                for x, y in both.without(a, b):
                    places.set(held.sequence + x, y - x, offset + x, held.tag)


Copies = Mapping[int, Sequence[RunMap]]
"""Stream to maps of sequence to an offset at which it was read, of what is held as a copy."""


def _copies(log: Log) -> Copies:
    maps: dict[int, list[RunMap]] = {}
    for held in log.held.values():
        if held.check == "copy":
            n = held.violation.count
            for offset in (held.first, held.violation.offset or 0):
                free = (
                    one for one in maps.setdefault(held.tag, []) if not one.touches(held.sequence, held.sequence + n)
                )
                found = next(free, None)
                if found is None:
                    maps[held.tag].append(found := RunMap())
                found.set(held.sequence, n, offset, held.tag)
    return maps


def _stands_elsewhere(topic: Topic, log: Log, m: Missing, a: int, b: int, copies: Copies) -> Iterator[Run]:
    """Yield the sequences of [a, b) that a read has shown at another offset since, and where (a place, then copies)."""
    for known in (topic.streams[m.tag].places, *copies.get(m.tag, ())):
        for place in known.within(a, b):
            if place.value - place.key == m.offset - m.sequence:
                continue
            for run in log.claims.within(place.value, place.value + place.length):
                if run.tag == m.tag and run.key - run.value == place.value - place.key:
                    yield Run(run.value, run.length, run.key, run.tag)


def _lost(scope: Scope, topic: Topic, log: Log, m: Missing, copies: Copies) -> Iterator[stretches.Loss]:
    """Yield what of it is lost for certain; nothing is said yet, and nothing but that is known from here on."""
    stream, shift = topic.streams[m.tag], m.offset - m.sequence
    left = _in_question(scope, topic, log, m)
    for x, y in list(left):
        for run in list(_stands_elsewhere(topic, log, m, x, y, copies)):
            for a, b in left.within(run.key, run.key + run.length):
                stream.places.set(a, b - a, run.value + a - run.key, m.tag)
            left.remove(run.key, run.key + run.length)
    for x, y in list(left):
        acknowledged, read = (sum(b - a for a, b in known.within(x, y)) for known in (stream.acked, stream.seen))
        stream.lost.add(x, y)
        yield stretches.Loss(x + shift, y - x, x, m.tag, m, acknowledged, read)


def _in_question(scope: Scope, topic: Topic, log: Log, m: Missing) -> IntervalSet:
    """Return its sequences without those that are known to be lost, must be looked for again, or have expired."""
    stream, shift = topic.streams[m.tag], m.offset - m.sequence
    left = IntervalSet()
    for x, y in stream.lost.without(m.sequence, m.sequence + m.count):
        left.add(x, y)
    for run in log.claims.within(m.offset, m.offset + m.count):
        if run.tag == m.tag and run.key - run.value == shift:
            for x, y in left.within(run.value, run.value + run.length):
                # claimed again meanwhile, by a read or only by a late ack: look
                log.missing.append(Missing(x + shift, y - x, x, m.tag, m.why, m.at_ns, scope.state.ordinal))
            left.remove(run.value, run.value + run.length)
    if not m.confirmed:  # what a fresh client did not find before it expired was lost before
        for x, y in left.within(m.sequence, log.start - shift):
            retention.expired_unread(scope, topic, log, stream, x, y)
        left.remove(m.sequence, log.start - shift)
    return left


def _lost_unplaced(scope: Scope, topic: Topic, log: Log, u: Unplaced) -> None:
    stream = topic.streams[u.tag]
    if u.sequence in stream.seen or u.sequence in stream.lost or u.low < log.start:
        return
    stream.lost.add(u.sequence, u.sequence + 1)
    stretches.forget(stream, u.sequence, u.sequence + 1)
    run = Records(None, 1, stream.identity(u.sequence))
    summary = f"{stretches.what(1, 1)} gone: the offsets around it were read"
    stretches.emit(scope, topic, log, stream.mode, [run], summary, {"acknowledged": True, "read_before": False})


def _was_cut(log: Log, first: int, end: int) -> bool:
    """Say whether the loss of [first, end) is that of the log's end.

    It is, when somebody saw the end go back to or below it; and when what was known before a change of leader is gone,
    and its offsets were given to other probes, or all that stood at the end then is gone.
    """
    if log.cut is not None or (log.low_end is not None and log.low_end < end):
        return True
    return any(first < known and (log.conflicted or known <= end) for known in log.ends_before_epochs)


def _report_cut(scope: Scope, topic: Topic, log: Log) -> None:
    """Once nothing is in doubt any more: say where the log was cut, if it was."""
    if log.missing or log.rereads or log.regression or log.wanted:
        return
    if log.lost_offsets:
        first = log.lost_offsets.first() or 0
        if _was_cut(log, first, log.lost_offsets.end() or 0):
            modes = {stream.mode for stream in topic.streams if stream.partition == log.partition}
            scope.emit(
                scope.violation(
                    "truncation",
                    topic,
                    log.partition,
                    first,
                    None,
                    f"the log was cut at {first}: {log.lost_offsets.total} promised records from there on are gone",
                    mode=next(iter(modes)) if len(modes) == 1 else None,
                    severity=policy.severity("truncation", *modes),
                    evidence={
                        "cut": log.cut,
                        "lost": log.lost_offsets.total,
                        "last": (log.lost_offsets.end() or 0) - 1,
                    },
                )
            )
            log.cut = None
        log.lost_offsets.remove(0, (log.lost_offsets.end() or 0))
        log.conflicted, log.low_end = False, None
    elif not log.held:
        log.conflicted, log.low_end = False, None
    if log.cut is not None and scope.state.now_ns - int(log.cut["at_ns"]) > _CUT_KEPT_NS:
        log.cut = None
