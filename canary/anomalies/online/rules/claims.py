"""Claims, places and promises: one offset holds one identity, one identity has one offset, in the order of sending.

A *claim* is offset -> identity, a *place* identity -> offset, by the latest acknowledgement or read. A *promise* is a
claim that must stay: an acknowledged write (whose transaction, if any, committed), or one that was read.
"""

from typing import Any

from canary.anomalies import policy
from canary.anomalies.online import generations
from canary.anomalies.online.log import READ_COMMITTED, Log
from canary.anomalies.online.missing import miss
from canary.anomalies.online.scope import TRANSACTIONAL, Found, Probes, Scope, Where
from canary.anomalies.online.sets.intervals import IntervalSet
from canary.anomalies.online.state import Topic
from canary.anomalies.online.stream import Stream, sent_time
from canary.anomalies.online.wanted import want, want_tail
from canary.anomalies.violation import Records


def claim(scope: Scope, probes: Probes, *, promise: bool) -> None:
    """An acknowledgement or a read places probes at their offsets.

    Another identity that was placed there before contradicts it: inconsistent-offsets, held until the topic id is known
    to be the same. If the other identity was promised, its place is read again.
    """
    _, log, stream, sequence, n, offset = probes
    claims = log.claims
    known = claims.matches(offset, n, sequence, stream.tag)
    if not known and offset < claims.end():
        for run in claims.within(offset, offset + n):
            if run.tag == stream.tag and run.value - run.key == sequence - offset:
                continue
            _conflict(scope, probes, run)
    if not known:
        claims.set(offset, n, sequence, stream.tag)
    if promise:
        log.promised.add(offset, offset + n)


def _conflict(scope: Scope, probes: Probes, run: tuple[int, int, int, int]) -> None:
    topic, log, stream, *_ = probes
    offset, count, sequence, tag = run
    shift = probes.sequence - probes.offset
    log.conflicted = True
    other = topic.streams[tag]

    def words(run: Records) -> tuple[str, dict[str, Any]]:
        here = offset if run.offset is None else run.offset
        evidence = {
            "first": list(other.identity(sequence + here - offset)),
            "second": list(stream.identity(here + shift)),
        }
        return f"offset {here} was given to two probes", evidence

    severity = policy.severity("inconsistent-offsets", stream.mode, other.mode)
    found = Found("inconsistent-offsets", stream.mode, words, "offsets were given to two probes each", severity)
    scope.hold_run(topic, log, Records(offset, count, None), -1, found)
    for a, b in log.promised.within(offset, offset + count):
        log.given_again.add(a, b)
        miss(scope, Probes(topic, log, other, sequence + a - offset, b - a, a), "displaced")
    log.promised.remove(offset, offset + count)
    want_tail(scope, log, "conflict", offset)


def promise(scope: Scope, probes: Probes) -> None:
    """The probes must stay and be delivered, as they were acknowledged (or committed)."""
    topic, log, stream, sequence, n, offset = probes
    count_promises(scope, topic, stream, n)
    log.promised.add(offset, offset + n)
    for name, reader in log.readers.items():
        if reader.isolation != READ_COMMITTED or reader.position <= offset:
            continue
        passed = min(reader.position - offset, n)
        delivered = stream.early.get(name)
        a, b = sequence, sequence + passed
        began = sequence + reader.began - offset  # below it the consumer did not read, so a re-read decides
        for x, y in delivered.without(a, b) if delivered is not None else [(a, b)]:
            for first, end, why in ((x, min(y, began), "reread"), (max(x, began), y, "late-ack")):
                if first < end:
                    miss(scope, probes.part(first, end), why)
                    if (sent_time(stream, end - 1) or 0) > reader.moved_at_ns:  # the log was cut, and has grown since
                        want_tail(scope, log, "cut", offset + first - sequence)
    _promise_unseen(scope, topic, log, stream, sequence, probes.end)


def count_promises(scope: Scope, topic: Topic, stream: Stream, n: int) -> None:
    """Count ``n`` promises of a stream, made now."""
    topic.promises += n
    scope.meters(topic.name, stream.partition).promised_ns[stream.mode] = scope.state.now_ns


def promise_unplaced(scope: Scope, topic: Topic, log: Log, stream: Stream, a: int, b: int) -> None:
    """Sequences [a, b), acknowledged without an offset, must stand between their neighbours' offsets (decision 3)."""
    count_promises(scope, topic, stream, b - a)
    for x, y in stream.seen.without(a, b):
        stream.unplaced.add(x, y)
    _promise_unseen(scope, topic, log, stream, a, b)


def _promise_unseen(scope: Scope, topic: Topic, log: Log, stream: Stream, a: int, b: int) -> None:
    if not any(given.covers(a, b) for name, given in stream.early.items() if name in log.readers):
        scope.meters(topic.name, stream.partition).unread_ns.setdefault(stream.mode, scope.state.now_ns)
    stream.promised.add(a, b)
    for name in log.readers:
        unseen = stream.unseen.setdefault(name, IntervalSet())
        early = stream.early.get(name)
        if early is not None and early.overlaps(a, b):
            for x, y in early.without(a, b):
                unseen.add(x, y)
            early.remove(a, b)
        else:
            unseen.add(a, b)


def place(scope: Scope, probes: Probes, *, read: bool) -> None:
    """Note the places of probes; find copies and reordering."""
    _, log, stream, sequence, n, offset = probes
    same = stream.places.matches(sequence, n, offset, stream.tag)
    if stream.mode in TRANSACTIONAL and not (same and (not read or stream.seen.covers(sequence, probes.end))):
        first = first_write(log, stream)
        if first is None or offset < first:
            _want_older_above(scope, probes)
    if same:  # known to stand just there
        if read:
            stream.seen.add(sequence, probes.end)
        return
    if not stream.places.touches(sequence, probes.end) and not stream.seen.overlaps(sequence, probes.end):
        _place_new(scope, probes, read=read)
    else:
        for part, known, before in _alike(probes):
            _place_again(scope, part, known, before=before, read=read)


def first_write(log: Log, stream: Stream) -> int | None:
    """Return the offset of the first probe of a stream that may stand at its place, None if there is none.

    A coordinator that forgot an epoch gives it again; then a leader takes the next writes for those of the former
    generation, and acknowledges them at the offsets of those. So an acknowledgement shows no write where another probe
    was read since, nor where a consumer that is given aborted writes, too, was not given this one.
    """
    readers = [reader for reader in log.readers.values() if reader.isolation != READ_COMMITTED and not reader.astray]
    for placed in stream.places:
        offset, shift = placed.value, placed.value - placed.key
        for run in log.claims.aligned(offset, offset + placed.length, -shift, stream.tag):
            there = IntervalSet.of([(run.key, run.end)])
            for x, y in stream.seen.without(run.value, run.value + run.length):
                for reader in readers:
                    there.remove(max(x + shift, reader.began), min(y + shift, reader.position))
            if there:
                return there.first()
    return None


def _place_new(scope: Scope, probes: Probes, *, read: bool) -> None:
    _, _, stream, sequence, n, offset = probes
    hold_order(scope, probes, read=read)
    stream.places.set(sequence, n, offset, stream.tag)
    if read:
        stream.seen.add(sequence, probes.end)


def _want_older_above(scope: Scope, probes: Probes) -> None:
    """A generation's first write becomes known: what older ones wrote above it is read again (transactions.zombie).

    A read_committed consumer may have been given that before: of a generation that died only read_uncommitted tells,
    which may lag, and an acknowledgement may come late. The re-read also shows whether the log was cut in between.
    """
    topic, log, stream, _, n, offset = probes
    who = (stream.producer_id, stream.generation)
    for run in log.claims.within(offset + n, log.claims.end()):
        older = topic.streams[run.tag]
        if older.mode == stream.mode and who in generations.later(scope.state, older):
            want(scope, log, run.key, run.end, "zombie")


def _alike(probes: Probes) -> list[tuple[Probes, int | None, bool]]:
    """Return the probes in parts known alike: the first one's place (None: not known), and whether they were read."""
    stream, a, b = probes.stream, probes.sequence, probes.end
    known = [(run.key, run.key + run.length, run.value) for run in stream.places.within(a, b)]
    ends = [a, *(end for run in known for end in run[:2]), b]
    nowhere = [(x, y, None) for x, y in zip(ends[::2], ends[1::2], strict=True) if x < y]
    parts: list[tuple[Probes, int | None, bool]] = []
    for first, end, at in (*known, *nowhere):
        for ones, before in ((stream.seen.within(first, end), True), (stream.seen.without(first, end), False)):
            parts += [(probes.part(x, y), None if at is None else at + x - first, before) for x, y in ones]
    return sorted(parts, key=lambda part: part[0].sequence)


def _place_again(scope: Scope, probes: Probes, known: int | None, *, before: bool, read: bool) -> None:
    _, log, stream, sequence, n, offset = probes
    if known == offset:  # acknowledged or read at the same place before
        if read:
            stream.seen.add(sequence, probes.end)
        return
    if known is None and not before:
        _place_new(scope, probes, read=read)
        return
    if read and known is None:  # it had expired; below ``expired`` it is the same record, there again
        again = min(max(log.expired - offset, 0), n)
        stream.places.set(sequence, again, offset, stream.tag)
        hold_copy(scope, probes.part(sequence + again, probes.end), None)
        return
    if read and before:
        hold_copy(scope, probes, known)
        return
    if read and known is not None:  # acknowledged at another place than it is read at: does it stand there, too?
        miss(scope, probes._replace(offset=known), "moved")
        stream.seen.add(sequence, probes.end)
        stream.places.set(sequence, n, offset, stream.tag)
    elif not read and before:
        miss(scope, probes, "moved")


def hold_order(scope: Scope, probes: Probes, *, read: bool) -> None:
    """Compare the sequence order of a stream with its offset order; hold a difference for confirmation."""
    _, _, stream, sequence, n, offset = probes
    before = stream.places.before(sequence)
    if before is not None and before[1] > offset and not _late(stream, before[0], sequence):
        _hold_reorder(scope, probes, before, (sequence, offset), read=read)
    after = stream.places.after(sequence + n - 1)
    if after is not None and after[1] < offset + n - 1 and not _late(stream, after[0], sequence + n - 1):
        _hold_reorder(scope, probes, (sequence + n - 1, offset + n - 1), after, read=read)


def _late(stream: Stream, *sequences: int) -> bool:
    """An indeterminate send may land at any later time; that is no reordering."""
    return any(sequence in stream.indeterminate for sequence in sequences)


def _hold_reorder(scope: Scope, probes: Probes, low: tuple[int, int], high: tuple[int, int], *, read: bool) -> None:
    """``low`` is the lower sequence (and its greater offset), ``high`` the higher (and its smaller offset)."""
    topic, log, stream, *_ = probes
    violation = scope.violation(
        "reorder" if read else "nonmonotonic-send",
        Where(topic, log.partition, high[1], stream.identity(high[0])),
        f"sequence {high[0]} stands at offset {high[1]}, before sequence {low[0]} at offset {low[1]}",
        mode=stream.mode,
        evidence={"sequences": [low[0], high[0]], "offsets": [low[1], high[1]]},
    )
    if scope.hold(log, violation, check="order", tag=stream.tag, sequence=low[0], other_sequence=high[0]):
        want_tail(scope, log, "order", min(low[1], high[1]))
        want(scope, log, low[1], low[1] + 1, "order")  # acknowledged just now: not in the tail of promises yet


def hold_copy(scope: Scope, probes: Probes, known: int | None) -> None:
    """Probes that were delivered before are delivered at another offset: copies, if the first still stand.

    A truncation voids what stood above it, so the first ones (from ``known`` on) are read again before a duplicate is
    reported. Without ``known`` the first ones have expired, and need not be read again.
    """
    topic, log, stream, sequence, n, offset = probes
    copy = offset if known is None else max(known, offset)
    first = -1 if known is None else min(known, offset)
    found = copies(stream, copy, [x for x in (known, offset) if x is not None], None if known is None else first)
    check = "copy" if known is not None else ""
    new = False
    for a, b in log.copies.without(copy, copy + n):
        run = Records(a, b - a, stream.identity(sequence + a - copy))
        at = first + a - copy if known is not None else -1
        new |= scope.hold_run(topic, log, run, stream.tag, found, check=check, first=at)
    if new and known is not None:
        want_tail(scope, log, "copy", first)


def copies(stream: Stream, copy: int, offsets: list[int], first: int | None) -> Found:
    """Return the duplicate of probes at ``copy`` and after that also stand at ``first`` (None: they expired there)."""

    def words(run: Records) -> tuple[str, dict[str, Any]]:
        skip = 0 if run.offset is None else run.offset - copy
        where = "an expired one" if first is None else first + skip
        return f"one probe stands at two offsets: {where} and {copy + skip}", {"offsets": [x + skip for x in offsets]}

    return Found("duplicate", stream.mode, words, "probes stand at two offsets each")
