"""The questions that the engine asks before it says anything: what is missing, and which range to read again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canary.anomalies.online.intervals import IntervalSet
from canary.anomalies.online.state import Missing, Wanted

if TYPE_CHECKING:
    from canary.anomalies.online.scope import Scope
    from canary.anomalies.online.state import Log, Stream

SCRUB = "scrub"
"""Reason of the scrubber's requests."""
TAIL_RECORDS = 10_000
"""Records at the end of a log that are re-read at least, after each change of leader."""
TAIL_CAP = 1_000_000
"""And at most; what lies further back is the scrubber's and the nightly job's."""

SKIPPED = frozenset({"skipped"})
"""Why something is missing that a consumer was given the neighbours of."""
PASSED = SKIPPED | {"late-ack", "late-place"}
"""Why something is missing that a consumer passed without delivering it, by where it stood, at least."""

_EPOCHS_KEPT = 20


def miss(
    scope: Scope, log: Log, stream: Stream, offset: int, n: int, sequence: int, why: str, *, given: bool = False
) -> None:
    """Note that promised identities were not where they should be, unless that is known already."""
    state = scope.state
    if stream.lost.covers(sequence, sequence + n):
        return
    if _among(log, log.sought, stream.tag, sequence, n):
        for known in log.missing:
            if known.tag == stream.tag and known.sequence <= sequence and sequence + n <= known.sequence + known.count:
                return
    seek(log, Missing(offset, n, sequence, stream.tag, why, state.now_ns, state.ordinal, given=given))


def seek(log: Log, missing: Missing) -> None:
    """Put it among what is missing."""
    log.missing.append(missing)
    sets = (log.sought, log.absent) if missing.state == "absent" else (log.sought,)
    for by_stream in sets:
        by_stream.setdefault(missing.tag, IntervalSet()).add(missing.sequence, missing.sequence + missing.count)


def known_absent(log: Log, tag: int, a: int, b: int) -> bool:
    """Say whether sequences of a stream are known to be absent already."""
    return _among(log, log.absent, tag, a, b - a) and any(
        m.state == "absent" and m.tag == tag and m.sequence <= a and b <= m.sequence + m.count for m in log.missing
    )


def _among(log: Log, by_stream: dict[int, IntervalSet], tag: int, sequence: int, n: int) -> bool:
    """Say whether some may be in ``missing``: to walk through that for each of very many would take for ever."""
    if not log.missing:
        log.sought.clear()
        log.absent.clear()
    sequences = by_stream.get(tag)
    return sequences is not None and sequences.overlaps(sequence, sequence + n)


def not_given(log: Log, stream: Stream, a: int, b: int, past: int | None = None) -> IntervalSet:
    """Return which sequences of [a, b) some read_committed consumer has not been given.

    With ``past``, the offset of ``a``: only of consumers that have gone past it since they were put into the log.
    """
    waiting = IntervalSet()
    for name, reader in log.readers.items():
        first, end = a, b
        if past is not None:
            first, end = max(a, a + reader.began - past), min(b, a + reader.position - past)
        if reader.isolation == "read_committed" and (past is None or not reader.astray):
            unseen = stream.unseen.get(name) or IntervalSet()
            for x, y in (stream.early.get(name) or IntervalSet()).without(first, end):
                for part in (*unseen.within(x, y), *stream.promised.without(x, y)):
                    waiting.add(*part)
    return waiting


def await_no_more(log: Log, stream: Stream, offset: int, a: int, b: int) -> None:
    """Sequences [a, b) are there, from ``offset`` on; whoever stands behind them will not be given them any more."""
    for name, unseen in stream.unseen.items():
        reader = log.readers.get(name)
        unseen.remove(a, b if reader is None else min(b, a + reader.position - offset))


def epoch_changed(scope: Scope, log: Log, epoch: int) -> None:
    """A new leader: what stood at the end of the log is looked at again (decision 6; why-fsync)."""
    if log.epoch is not None:
        note_change(scope, log, {"leader_epoch": [log.epoch, epoch]})
        log.ends_before_epochs.append(log.known_end)
        del log.ends_before_epochs[:-_EPOCHS_KEPT]
        # the former leader's are there for all, or gone: the next one lists no end before it knows (KIP-207)
        log.alone.remove(0, log.alone_listed)
        want_tail(scope, log, "epoch")
    log.epoch = epoch


def note_change(scope: Scope, log: Log, change: dict[str, object]) -> None:
    """Remember a change of leader, epoch or ISR as evidence."""
    log.changes.append({"at_ns": scope.state.now_ns, **change})
    del log.changes[:-10]


def want_tail(scope: Scope, log: Log, reason: str, offset: int | None = None) -> None:
    """Ask for a re-read of the log's end, from what was promised since the ISR was last full (and from ``offset``)."""
    end = log.known_end
    start = min(log.full_isr_end, end - TAIL_RECORDS, end if offset is None else offset - 1)
    want(scope, log, max(start, log.start, end - TAIL_CAP, 0), end, reason)


def want(scope: Scope, log: Log, start: int, end: int, reason: str) -> None:
    """Ask for a re-read of [start, end); it is merged with what is wanted already."""
    if start >= end:
        return
    if log.wanted is None:
        log.wanted = Wanted(start, end, reason)
        return
    log.wanted.start = min(log.wanted.start, start)
    log.wanted.end = max(log.wanted.end, end)
    log.wanted.not_before_ordinal = min(log.wanted.not_before_ordinal, scope.state.ordinal)


def scrub_ended(scope: Scope, log: Log, reached: int) -> None:
    """A chunk of the scrubber's was read as far as ``reached``."""
    log.scrub_at = max(log.scrub_at, reached)
    if log.scrub_at >= log.scrub_goal:
        scrub_finished(scope, log)


def scrub_finished(scope: Scope, log: Log) -> None:
    """The scrubber has been through; the next pass begins at the log's start."""
    log.scrubbed_ns, log.scrub_at, log.scrub_goal = scope.state.now_ns, log.start, 0
