"""Ranges of a log that should be read again: its tail, above all (decision 6)."""

from canary.anomalies.online.log import Log
from canary.anomalies.online.losses.questions import Wanted
from canary.anomalies.online.scope import Scope

SCRUB = "scrub"
"""Reason of the scrubber's requests."""
RANDOM = "random"
"""Reason of random reads."""
START = "log start"
"""Reason of the request that asks whether the log begins where it is listed to."""
OTHER_ID = "other topic id"
"""Reason of those that ask whether a topic is still the one that is known."""
ONCE = frozenset({"confirm", START, OTHER_ID})
"""Reasons of requests that whoever asked repeats, if they are not answered."""
BESIDE = ONCE | {SCRUB, RANDOM}
"""Reasons of re-reads that neither the tail waits for nor are merged with what is wanted of it."""
TAIL_RECORDS = 10_000
"""Records at the end of a log that are re-read at least, after each change of leader."""
TAIL_CAP = 1_000_000
"""And at most; the scrubber and the nightly job read what lies further back."""
_EPOCHS_KEPT = 20


def epoch_changed(scope: Scope, log: Log, epoch: int) -> None:
    """A new leader epoch: the end of the log is read again (decision 6; why-fsync)."""
    if log.epoch is not None:
        note_change(scope, log, {"leader_epoch": [log.epoch, epoch]})
        log.ends_before_epochs.append(log.known_end)
        del log.ends_before_epochs[:-_EPOCHS_KEPT]
        # the former leader's records are replicated or gone: the next one lists no end before it knows (KIP-207)
        its_own = [] if log.next_from is None else log.alone.within(log.next_from, log.acked_end)
        log.alone.remove(0, log.alone_listed)
        for a, b in its_own:
            log.alone.add(a, b)
        want_tail(scope, log, "epoch")
        if epoch > log.epoch:  # epochs that are used again after a restore of the metadata have an end, too
            log.ends[log.epoch] = log.epoch_end
        for former in list(log.ends)[:-_EPOCHS_KEPT]:
            del log.ends[former]
    log.epoch, log.epoch_end, log.epoch_start, log.former_rereads = epoch, 0, None, 0
    for m in log.missing:
        m.formers = 0
    log.next_from = None


def note_change(scope: Scope, log: Log, change: dict[str, object]) -> None:
    """Remember a change of leader, epoch or ISR as evidence."""
    log.changes.append({"at_ns": scope.state.now_ns, **change})
    del log.changes[:-10]


def want_tail(scope: Scope, log: Log, reason: str, offset: int | None = None) -> None:
    """Ask for a re-read of the log's end: from the last full ISR on, and from ``offset``."""
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
