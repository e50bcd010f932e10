"""What a re-read proves: a record that it was given stands there, one that it was not given is absent."""

from canary import facts as f
from canary.anomalies.online.log import Log
from canary.anomalies.online.losses import log_start, other_id, random_reads, scrub
from canary.anomalies.online.losses.questions import Missing, Reread, Unplaced
from canary.anomalies.online.missing import PASSED, SKIPPED, absent, not_given, stop_awaiting
from canary.anomalies.online.rules import wrong_cluster
from canary.anomalies.online.rules.claims import copies
from canary.anomalies.online.scope import Found, Scope, always
from canary.anomalies.online.sets.intervals import IntervalSet
from canary.anomalies.online.state import Topic
from canary.anomalies.online.stream import Stream
from canary.anomalies.online.topology import timeline
from canary.anomalies.online.wanted import BESIDE, ONCE, OTHER_ID, RANDOM, SCRUB, want
from canary.anomalies.violation import Records

END_OF_LOG = "end of log"
"""How the error of a RereadEnded begins when the log ended before the range did."""
BEYOND = "beyond"
"""Asked once more where a re-read met the log's end below a promise: grown again it no longer looks cut."""
_NEAR_LOSS = "loss"
"""What lies below a loss that a random read found is read until it is answered, as for every other one."""
_FORMER_REREADS = 30
"""So many re-reads in a row that a former leader seems to answer prove nothing; after a restore they do not end.

A restore of the metadata gives epochs again, so that a log may have records of a lower one among those of the present
one. What is missing there is counted for itself: beside it the present leader may answer all the time.
"""


def ended(scope: Scope, fact: f.RereadEnded) -> None:
    """A fresh client has read the range, or could not."""
    topic, log = scope.place(fact.topic, fact.partition)
    reread = log.rereads.pop(fact.request_id, None)
    if reread is None:
        return  # of a former process, or of a former incarnation
    fact = wrong_cluster.believed(scope, fact)
    reached = min(fact.reached, reread.end)
    ended = fact.error is not None and fact.error.startswith(END_OF_LOG)
    if reread.reason == OTHER_ID:
        other_id.fetched(scope, topic, reread, answered=fact.complete or ended)
        return
    former = reread.former or (ended and not reread.present and _by_former(log, fact))
    former = former or _shows_nothing(scope, topic, reread, reached, ended=ended)
    asked = _asked(log, fact.request_id)
    asked_again = former and min((m.formers for m in asked), default=log.former_rereads) < _FORMER_REREADS
    if reread.reason == RANDOM:
        random_reads.ended(scope, topic.name, reread, answered=not asked_again and (fact.complete or ended))
    if asked_again:
        log.former_rereads += not asked
        _ask_again(scope, topic, log, reread, fact.request_id)
        return
    if reread.present and not former and not asked:
        log.former_rereads = 0
    if not former:
        log_start.fetched(scope, topic, log, reread)
    first_absent = _judge_expected(scope, topic, log, reread, reached)
    _judge_asked(scope, topic, log, reread, fact.request_id, reached, ended=ended)
    if reread.reason == SCRUB:
        scrub.ended(scope, log, reached)
    if reread.reason not in ONCE:
        _go_on(scope, log, reread, reached, first_absent, broke_off=not fact.complete and not ended, ended=ended)


def _go_on(
    scope: Scope, log: Log, reread: Reread, reached: int, first_absent: int | None, *, broke_off: bool, ended: bool
) -> None:
    """Ask for what is left of the range, and for what lies below a loss at its beginning."""
    start = max(reached, reread.start)
    if ended and reread.reason not in {BEYOND, SCRUB} and log.promised.overlaps(reached, reread.end):
        _later(scope, log, start, reread.end, BEYOND)
        scope.found.urgent = True
    elif broke_off and reached < reread.end and reread.reason not in {RANDOM, SCRUB}:
        _later(scope, log, start, reread.end, reread.reason)
    if first_absent is not None and first_absent <= reread.start + 1 and reread.start > log.start:
        length = max(reread.end - reread.start, 1000)  # the loss may reach further down
        reason = _NEAR_LOSS if reread.reason == RANDOM else reread.reason
        want(scope, log, max(log.start, reread.start - 2 * length), reread.start, reason)


def _asked(log: Log, request_id: int) -> list[Missing]:
    """Return what is missing and was to be found by this re-read."""
    return [m for m in log.missing if m.request_id == request_id and m.state == "asked"]


def _by_former(log: Log, fact: f.RereadEnded) -> bool:
    """Whether the client had learned of an older leader only: an end of the log without a record is of nobody else."""
    return fact.leader_epoch is not None and log.epoch is not None and fact.leader_epoch < log.epoch


def _shows_nothing(scope: Scope, topic: Topic, reread: Reread, reached: int, *, ended: bool) -> bool:
    """Whether nothing shows that the topic of now was read, not a deleted one of this name.

    A leader that was cut off still serves that one, under epochs that are used again; where it has transaction markers
    or aborted records it gives none. A record with the mark of the present incarnation shows who answered.
    """
    judged = (ended or reached > reread.start) and bool(reread.expected or reread.reason == "confirm")
    return judged and not reread.delivered and not reread.corrupt and timeline.was_recreated(scope, topic.name)


def _ask_again(scope: Scope, topic: Topic, log: Log, reread: Reread, request_id: int) -> None:
    """A former leader, which was cut off, has not what its successor has: nothing is proven, and it is read again."""
    for m in _asked(log, request_id):
        m.state, m.samples, m.ordinal, m.formers = "beyond", 0, scope.state.ordinal, m.formers + 1
        m.cut, m.sampled_ns = False, scope.state.now_ns
    _judge_unplaced(scope, topic, log, request_id, -1)
    if reread.reason not in BESIDE:
        _later(scope, log, reread.start, reread.end, reread.reason)


def _later(scope: Scope, log: Log, start: int, end: int, reason: str) -> None:
    """Ask again after the next look at the log."""
    want(scope, log, start, end, reason)
    if log.wanted is not None:
        log.wanted.not_before_ordinal = scope.state.ordinal + 1


def _judge_expected(scope: Scope, topic: Topic, log: Log, reread: Reread, reached: int) -> int | None:
    """Compare the promises of the range with its deliveries; return the first offset whose probe is absent."""
    first_absent: int | None = None
    for offset, count, sequence, tag in reversed(reread.expected):  # the last ones are removed the fastest
        a, b = max(offset, reread.start), min(offset + count, reached)
        for x, y in _not_delivered(log, reread, tag, a, b, sequence - offset):
            for run in log.claims.aligned(x, y, sequence - offset, tag):  # elsewhere another probe claims the place
                absent(scope, topic, log, Missing(run.key, run.length, run.value, tag, "reread", scope.state.now_ns, 0))
                first_absent = run.key if first_absent is None else min(first_absent, run.key)
    return first_absent


def _not_delivered(log: Log, reread: Reread, tag: int, a: int, b: int, shift: int) -> list[tuple[int, int]]:
    """Return the ranges of [a, b) where the re-read was not given sequence = offset + ``shift`` of stream ``tag``."""
    gaps = IntervalSet.of([(a, b)])
    for run in reread.delivered.aligned(a, b, shift, tag):
        gaps.remove(run.key, run.end)
    for corrupt in (reread.corrupt, log.corrupt):
        for x, y in corrupt.within(a, b):
            gaps.remove(x, y)
    return list(gaps)


def _judge_asked(
    scope: Scope, topic: Topic, log: Log, reread: Reread, request_id: int, reached: int, *, ended: bool
) -> None:
    asked = _asked(log, request_id)
    log.missing = [m for m in log.missing if not (m.request_id == request_id and m.state == "asked")]
    for m in asked:
        below = max(min(reached, m.offset + m.count) - m.offset, 0)
        gone = max(min(reread.start - m.offset, m.count), 0)  # below the log's start: retention judges
        if gone < below:
            _judge_range(scope, topic, log, reread, m, m.offset + gone, m.offset + below)
        if below < m.count:
            same = {"tries": m.tries, "given": m.given, "cut": m.cut}
            rest = m.part(m.sequence + below, m.count - below, scope.state.ordinal, **same)
            if ended and m.cut:
                absent(scope, topic, log, rest, by_end=True)
                continue
            if ended:
                rest.state = "beyond"
                log.missing.append(rest)
                continue
            rest.tries += 1
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
            absent(scope, topic, log, m.part(x + shift, y - x, scope.state.ordinal))
        at = y


def _present(scope: Scope, topic: Topic, log: Log, stream: Stream, m: Missing, a: int, b: int) -> None:
    """The re-read found them: a consumer that passed them skipped them; or they stand at two places."""
    shift = m.sequence - m.offset
    a, b = a + shift, b + shift
    if m.cut:
        log.uncut_ns, log.cut, log.low_end = scope.state.now_ns, None, None
    if m.why == "moved":
        _stand_twice(scope, topic, log, stream, a, b, shift)
        return
    certain = m.given or m.why in SKIPPED
    skipped = IntervalSet()
    if m.why in PASSED and m.given:
        skipped.add(a, b)
    elif m.why in PASSED:
        skipped = not_given(log, stream, a, b)  # delivered to the others late: nonmonotonic-poll
    for x, y in skipped:
        run = Records(x - shift, y - x, stream.identity(x))
        scope.hold_run(topic, log, run, stream.tag, _skipped(stream, m), check="" if certain else m.why)
    for x, y in [(a, b)] if certain else skipped.without(a, b):
        stop_awaiting(log, stream, x - shift, x, y)


def _stand_twice(scope: Scope, topic: Topic, log: Log, stream: Stream, a: int, b: int, shift: int) -> None:
    places = stream.places.within(a, b)
    known = IntervalSet.of((place.key, place.end) for place in places)
    alone = [(x, y - x, x - shift) for x, y in known.without(a, b)]
    for sequence, n, other in sorted([*alone, *((place.key, place.length, place.value) for place in places)]):
        here = sequence - shift
        if here == other:
            continue  # it was gone from the other one before this was read
        copy, first = max(here, other), min(here, other)
        found = copies(stream, copy, sorted({here, other}), first)
        scope.hold_run(topic, log, Records(copy, n, stream.identity(sequence)), stream.tag, found)


def _skipped(stream: Stream, m: Missing) -> Found:
    one = "a read_committed consumer passed a committed probe without delivering it; a fresh one finds it"
    several = "a read_committed consumer passed committed probes without delivering them; a fresh one finds them"
    return Found("poll-skip", stream.mode, always(one, {"passed_at_ns": m.at_ns}), several)


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
