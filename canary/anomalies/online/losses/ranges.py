"""Losses reported in ranges: records found lost together are one violation for each stretch without a survivor.

Between two records of a stretch there may be transaction markers, writes that were never promised and losses of other
modes, but no record that survives or was reported before.
"""

from collections.abc import Iterator
from operator import itemgetter
from typing import NamedTuple

from canary.anomalies.online.log import Log
from canary.anomalies.online.losses.questions import Missing
from canary.anomalies.online.scope import Scope
from canary.anomalies.online.sets.intervals import IntervalSet
from canary.anomalies.online.state import Topic
from canary.anomalies.online.stream import Stream, sent_time
from canary.anomalies.violation import MOST_RUNS, Records, Violation


class Loss(NamedTuple):
    """``size`` lost records of stream ``tag``, from ``offset`` and ``sequence`` on; ``read`` of them were read."""

    offset: int
    size: int
    sequence: int
    tag: int
    missing: Missing
    acknowledged: int
    read: int


_HOW = {
    "skipped": "a read_committed consumer passed this place without a delivery",
    "late-place": "a read_committed consumer had passed this place without a delivery when another was given it",
    "late-ack": "a read_committed consumer had passed this place without a delivery when it was acknowledged",
    "displaced": "another probe claims this place",
    "reread": "a fresh re-read of this place did not find it",
    "end": "the log ends below this place",
}


_LINES = 3
"""The same offsets of so many leaders, one after the other, which gave them alone (acks=1), are told apart."""


def report(scope: Scope, topic: Topic, log: Log, lost: list[Loss]) -> None:
    """Report losses found together: one violation for each stretch without a survivor."""
    stretches: dict[str, list[tuple[list[Loss], list[Records]]]] = {}
    # the relay's group stands where it stood: below that, it passes over what the log was given in place of the lost
    log.relay_doubt = log.relay_taken
    for loss in sorted(lost, key=itemgetter(2), reverse=True):  # the last ones are removed the fastest
        forget(topic.streams[loss.tag], loss.sequence, loss.sequence + loss.size)
        log.relayed.remove(loss.offset, loss.offset + loss.size)  # a record that is there later is another one
    for loss in sorted(lost, key=itemgetter(0)):
        log.lost_offsets.add(loss.offset, loss.offset + loss.size)
        log.lost_after_ns = max(log.lost_after_ns, _stood_ns(topic, log, loss))  # a cut takes them all at once
        if log.cut is not None and loss.sequence >= log.cut_sent.get(loss.tag, 0):
            log.lost_later.add(loss.offset, loss.offset + loss.size)
        stream = topic.streams[loss.tag]
        found = stretches.setdefault(stream.mode, [])
        run = Records(loss.offset, loss.size, stream.identity(loss.sequence))
        last = [one for one in found[: -_LINES - 1 : -1] if len(one[1]) < MOST_RUNS]
        ongoing = [one for one in last if _goes_on(topic, log, one[0][-1], loss)]
        if not ongoing:
            found.append(([loss], [run]))
            continue
        losses, runs = max(ongoing, key=lambda one: _is_next(one[0][-1], loss))
        losses.append(loss)
        before = runs[-1]
        if run == before.part(before.size, run.size):  # just what goes on there
            runs[-1] = before._replace(size=before.size + run.size)
        else:
            runs.append(run)
    for mode, found in stretches.items():
        for losses, runs in found:
            _report_stretch(scope, topic, log, mode, losses, runs)


def _is_next(before: Loss, after: Loss) -> bool:
    """Whether a loss is of the very next records of the same stream."""
    end = (before.tag, before.offset + before.size, before.sequence + before.size)
    return end == (after.tag, after.offset, after.sequence)


def _goes_on(topic: Topic, log: Log, before: Loss, after: Loss) -> bool:
    """Say whether between two losses no record survives, and none was reported as lost before."""
    end, sequence = before.offset + before.size, before.sequence + before.size
    if end == after.offset:
        return True
    if before.tag != after.tag or sequence > after.sequence or log.promised.overlaps(end, after.offset):
        return False
    return sequence == after.sequence or not topic.streams[after.tag].lost.overlaps(sequence, after.sequence)


def _report_stretch(scope: Scope, topic: Topic, log: Log, mode: str, losses: list[Loss], runs: list[Records]) -> None:
    first = losses[0].missing
    hows = sorted({x.missing.why for x in losses})
    count, acknowledged = sum(x.size for x in losses), sum(x.acknowledged for x in losses)
    read = sum(x.read for x in losses)
    summary = f"{what(count, acknowledged)} gone: {'; '.join(_HOW[why] for why in hows)}"
    evidence = {
        "acknowledged": acknowledged > 0,
        "read_before": read > 0,
        "how": ", ".join(hows),
        "missed_at_ns": first.at_ns,
        "confirmed": True,  # a fetch showed it; a loss that none confirms is suspected
    }
    if (sent := _sent(topic, losses)) is not None:
        evidence["sent_ns"] = sent
    if count > 1:
        evidence |= {"records_acknowledged": acknowledged, "records_read_before": read}
    found = scope.of_records("lost-write", topic, log, runs, summary, mode=mode, evidence=evidence)
    emit(scope, topic, log, found.since(min(_stood_ns(topic, log, loss) for loss in losses)))


def _stood_ns(topic: Topic, log: Log, loss: Loss) -> int:
    """Return when the records were last known to stand there, at least when they were sent; 0: not known.

    Where there are signs of a cut, an age by offset may be that of a record which was given the offset since.
    """
    cut = log.conflicted or log.low_end is not None or log.cut is not None
    who = topic.streams[loss.tag].identity(loss.sequence)
    return max(topic.sent_ns(who, log.partition, None if cut else loss.offset) or 0, loss.missing.verified_ns or 0)


def _sent(topic: Topic, losses: list[Loss]) -> list[int] | None:
    """Return when the first and the last of the records were sent; None where that is not remembered any more."""
    first, last = losses[0], losses[-1]
    ends = (first.tag, first.sequence), (last.tag, last.sequence + last.size - 1)
    times = [sent_time(topic.streams[tag], sequence) for tag, sequence in ends]
    known = [at_ns for at_ns in times if at_ns is not None]
    return [min(known), max(known)] if len(known) == len(times) else None


def what(count: int, acknowledged: int) -> str:
    """Return the beginning of the summary of ``count`` lost writes."""
    if count == 1:
        return "An acknowledged write is" if acknowledged else "A write that was read before is"
    if not acknowledged:
        return "Writes that were read before are"
    some = ", and others that were read before," if acknowledged < count else ""
    return f"Acknowledged writes{some} are"


def emit(scope: Scope, topic: Topic, log: Log, lost: Violation) -> None:
    """Report lost records, and the transactions that are torn by their loss."""
    scope.emit(lost)
    _report_fractured(scope, topic, log, lost)


def _report_fractured(scope: Scope, topic: Topic, log: Log, lost: Violation) -> None:
    """Report each torn transaction once, by the first write that it lost."""
    torn = [write for run in lost.runs for write in _torn(scope, topic, run)]
    for i in range(0, len(torn), MOST_RUNS):
        part = torn[i : i + MOST_RUNS]
        (_, transaction_id), (_, last_id) = part[0], part[-1]
        summary = f"transaction {transaction_id} committed, and this write of it is not there"
        evidence = {"transaction_id": transaction_id}
        if len(part) > 1:
            summary = "transactions committed, and writes of theirs are not there"
            evidence["last_transaction_id"] = last_id
        records = [record for record, _ in part]
        found = scope.of_records(
            "fractured-transaction", topic, log, records, summary, mode=lost.mode, evidence=evidence
        )
        scope.emit(found.since(lost.happened_after_ns))


def _torn(scope: Scope, topic: Topic, run: Records) -> Iterator[tuple[Records, int]]:
    who = run.identity
    stream = None if who is None else scope.stream(topic, who.producer_id, who.generation, who.partition)
    if who is None or stream is None:
        return
    for write in stream.transactions.within(who.sequence, who.sequence + run.size):
        known = scope.state.torn.setdefault((who.producer_id, who.generation), IntervalSet())
        if write.tag not in known:
            known.add(write.tag, write.tag + 1)
            yield run.part(write.key - who.sequence, 1), write.tag


def forget(stream: Stream, a: int, b: int) -> None:
    """Remove sequences from the places, and from what consumers wait for."""
    stream.seen.remove(a, b)
    stream.places.remove(a, b)
    for unseen in stream.unseen.values():
        unseen.remove(a, b)
