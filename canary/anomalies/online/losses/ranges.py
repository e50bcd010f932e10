"""Losses told in ranges: what was found to be lost together is one violation for each stretch without a survivor.

Between two of its records there may be markers of transactions, writes that nobody promised and losses of other modes,
and nothing that survives or was said to be lost before.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from canary.anomalies.online.intervals import IntervalSet
from canary.anomalies.online.state import Missing  # noqa: TC001  # a NamedTuple's
from canary.anomalies.violation import MOST_RUNS, Records, following

if TYPE_CHECKING:
    from collections.abc import Iterator

    from canary.anomalies.online.scope import Scope
    from canary.anomalies.online.state import Log, Stream, Topic


class Loss(NamedTuple):
    """``size`` records of stream ``tag`` are lost, from ``offset`` and ``sequence`` on; ``read``: so many were read."""

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


@dataclass(slots=True)
class _Stretch:
    """Losses without a survivor in between, and their records."""

    losses: list[Loss]
    runs: list[Records]


def say(scope: Scope, topic: Topic, log: Log, lost: list[Loss]) -> None:
    """Say what was found to be lost together: one violation for each stretch without anything that survives."""
    stretches: dict[tuple[str, bool], list[_Stretch]] = {}
    for loss in sorted(lost, key=itemgetter(2), reverse=True):  # the last ones are removed the fastest
        forget(topic.streams[loss.tag], loss.sequence, loss.sequence + loss.size)
        log.relayed.remove(loss.offset, loss.offset + loss.size)  # whoever stands there later is another record
    for loss in sorted(lost, key=itemgetter(0)):
        log.lost_offsets.add(loss.offset, loss.offset + loss.size)
        stream = topic.streams[loss.tag]
        found = stretches.setdefault((stream.mode, loss.missing.confirmed), [])
        run = Records(loss.offset, loss.size, stream.identity(loss.sequence))
        last = found[-1] if found else None
        if last is None or len(last.runs) == MOST_RUNS or not _goes_on(topic, log, last.losses[-1], loss):
            found.append(_Stretch([loss], [run]))
            continue
        last.losses.append(loss)
        before = last.runs[-1]
        if loss.offset == _end(before) and run.identity == following(before.identity, before.size):
            last.runs[-1] = before._replace(size=before.size + run.size)
        else:
            last.runs.append(run)
    for (mode, _), found in stretches.items():
        for stretch in found:
            _say_stretch(scope, topic, log, mode, stretch)


def _end(run: Records) -> int:
    return (run.offset or 0) + run.size


def _goes_on(topic: Topic, log: Log, before: Loss, after: Loss) -> bool:
    """Say whether between two losses nothing survives, and nothing was lost that was said before."""
    end, sequence = before.offset + before.size, before.sequence + before.size
    if end == after.offset:
        return True
    if before.tag != after.tag or sequence > after.sequence or log.promised.overlaps(end, after.offset):
        return False
    return sequence == after.sequence or not topic.streams[after.tag].lost.overlaps(sequence, after.sequence)


def _say_stretch(scope: Scope, topic: Topic, log: Log, mode: str, stretch: _Stretch) -> None:
    first, losses = stretch.losses[0].missing, stretch.losses
    hows = sorted({x.missing.why for x in losses})
    count, acknowledged = sum(x.size for x in losses), sum(x.acknowledged for x in losses)
    read = sum(x.read for x in losses)
    doubt = "" if first.confirmed else " (unconfirmed: the re-read got no answer)"
    summary = f"{what(count, acknowledged)} gone: {'; '.join(_HOW[why] for why in hows)}{doubt}"
    evidence = {
        "acknowledged": acknowledged > 0,
        "read_before": read > 0,
        "how": ", ".join(hows),
        "missed_at_ns": first.at_ns,
        "confirmed": first.confirmed,
    }
    if count > 1:
        evidence |= {"records_acknowledged": acknowledged, "records_read_before": read}
    emit(scope, topic, log, mode, stretch.runs, summary, evidence)


def what(count: int, acknowledged: int) -> str:
    """Return how a summary of so many lost writes begins."""
    if count == 1:
        return "An acknowledged write is" if acknowledged else "A write that was read before is"
    if not acknowledged:
        return "Writes that were read before are"
    some = ", and others that were read before," if acknowledged < count else ""
    return f"Acknowledged writes{some} are"


def emit(
    scope: Scope, topic: Topic, log: Log, mode: str, runs: list[Records], summary: str, evidence: dict[str, Any]
) -> None:
    """Say that records are lost, and which transactions are torn by that."""
    found = scope.violation(
        "lost-write",
        topic,
        log.partition,
        runs[0].offset,
        runs[0].identity,
        summary,
        mode=mode,
        evidence=evidence,
    )
    scope.emit(found.about(runs))
    _say_fractured(scope, topic, log, mode, runs)


def _say_fractured(scope: Scope, topic: Topic, log: Log, mode: str, runs: list[Records]) -> None:
    """Of each transaction that lost a write and was not reported yet: its first one."""
    torn = [write for run in runs for write in _torn(scope, topic, run)]
    for i in range(0, len(torn), MOST_RUNS):
        part = torn[i : i + MOST_RUNS]
        (first, transaction_id), (_, last_id) = part[0], part[-1]
        summary = f"transaction {transaction_id} committed, and this write of it is not there"
        evidence = {"transaction_id": transaction_id}
        if len(part) > 1:
            summary = "transactions committed, and writes of theirs are not there"
            evidence["last_transaction_id"] = last_id
        found = scope.violation(
            "fractured-transaction",
            topic,
            log.partition,
            first.offset,
            first.identity,
            summary,
            mode=mode,
            evidence=evidence,
        )
        scope.emit(found.about([record for record, _ in part]))


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
    """The sequences are nowhere any more, and nobody waits for them."""
    stream.seen.remove(a, b)
    stream.places.remove(a, b)
    for unseen in stream.unseen.values():
        unseen.remove(a, b)
