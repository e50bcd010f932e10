"""One night in which every verdict and every anomaly of the reconciliation occurs, two clusters, three topics."""

from __future__ import annotations

from simulation.nights.nights import MINUTE, NOW, bound, poll, probe, record, transaction
from simulation.nights.oracle import RC, RU, Night, Row


def full_night(survivors: int = 40) -> Night:
    """Return the night; the first partition has so many plain survivors before anything happens."""
    night = Night()
    night.bounds += [bound(RC, 10, 100), bound(RU, 10, 110)]
    for sequence in range(survivors):
        _orderly(night, sequence, 10 + sequence)
    at = 10 + survivors
    night.probes += [
        probe(survivors, at),  # lost, nothing there
        probe(survivors + 1, at + 1),  # moved: another identity there, found nowhere
        probe(survivors + 2, at + 2),  # duplicate
        probe(survivors + 3, at + 3),  # corrupt
        probe(survivors + 4, at + 4),  # moved, found elsewhere
        probe(survivors + 5, None, "failed"),  # aborted read
        probe(survivors + 6, None, "indeterminate"),  # unacked-found
        probe(survivors + 7, None, "indeterminate"),  # unacked-absent
        probe(survivors + 8, None, "indeterminate"),  # polled and then absent: lost
        probe(survivors + 9, 3, sent_at=NOW),  # early-expiry, retention does not explain
        probe(survivors + 10, 104),  # survives above the LSO
        probe(survivors + 11, 105, transaction_id=1),  # pending: transactional above the LSO
        probe(survivors + 12, 111, acked_at=NOW - MINUTE),  # pending: just acked
        probe(survivors + 13, 112),  # lost: the tail was destroyed
        probe(survivors + 14, None),  # acked without offset, found
        probe(survivors + 15, at + 15, transaction_id=1),  # lost from a committed transaction
        probe(survivors + 16, at + 16, transaction_id=2),  # aborted, absent
        probe(survivors + 17, at + 17, transaction_id=3),  # open, found
        probe(survivors + 18, at + 18, transaction_id=3),  # open, its other write is not found
        probe(survivors + 20, at + 20),
    ]
    night.transactions += [transaction(1, "committed"), transaction(2, "aborted"), transaction(3, "indeterminate")]
    levels: list[tuple[int, int]] = [
        (at + 1, survivors + 30),
        (at + 2, survivors + 2),
        (at + 22, survivors + 2),
        (at + 23, survivors + 4),
        (at + 5, survivors + 5),
        (at + 6, survivors + 6),
        (at + 14, survivors + 14),
        (at + 17, survivors + 17),
        (at + 20, survivors + 20),
    ]
    for offset, sequence in levels:
        night.records += [record(offset, sequence), record(offset, sequence, RU)]
    night.records += [record(104, survivors + 10, RU), record(at + 3, None, valid=False)]
    night.records += [record(at + 16, survivors + 16, RU), record(at + 24, survivors + 19)]  # the second: a phantom
    night.records.append(record(at + 25, None))  # foreign
    night.polls += [poll(at + 8, survivors + 8), poll(at, survivors, RU)]
    night.bounds += [bound(RC, 0, 5, topic="u", topic_id="B"), bound(RU, 0, 5, topic="u", topic_id="B")]
    night.probes += [probe(0, 0, topic="u", topic_id="A"), probe(1, 0, topic="u", topic_id="B")]
    night.records.append(record(0, 1, topic="u", topic_id="B"))
    night.probes.append(probe(2, 0, topic="u"))  # of A or of B: its topic's id was not known yet
    night.polls.append(poll(0, 2, topic="u"))
    night.bounds += [bound(RC, 5, 9, cluster="d", retention_ms=1000), bound(RU, 5, 9, cluster="d", retention_ms=1000)]
    # the same producer id: five expire
    night.probes += [probe(sequence, sequence, cluster="d") for sequence in range(9)]
    night.records += [record(sequence, sequence, cluster="d") for sequence in range(4, 9)]
    night.probes.append(probe(0, 7, cluster="d", partition=1))  # no bounds: unjudged
    night.bounds += [bound(level, 5, 9, cluster="d", partition=2, retention_bytes=10) for level in (RC, RU)]
    night.probes.append(probe(20, 3, cluster="d", partition=2))  # unexplained-expiry: the log's size is not known
    return night


def _orderly(night: Night, sequence: int, offset: int) -> None:
    rows: list[Row] = [record(offset, sequence), record(offset, sequence, RU)]
    night.probes.append(probe(sequence, offset))
    night.records += rows
    night.polls.append(poll(offset, sequence))
