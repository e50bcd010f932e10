"""Aborted transactions for ever, in memory that follows what is retained."""

from __future__ import annotations

from canary import facts as f
from tests.support.bench import PRODUCER, RC, RU, TOPIC, Bench

MODE = "transactional"


def transact(bench: Bench, number: int, *, abort: bool) -> None:
    """Write one probe and its marker; both readers read what they may."""
    sequence, offset = bench.sequence, bench.end
    bench.sequence, bench.end = sequence + 1, offset + 2
    key = (PRODUCER, 1, number)
    bench.fold(
        f.TransactionBegan(bench.now_ns, MODE, *key),
        f.Sent(bench.now_ns, TOPIC, 0, PRODUCER, 1, sequence, MODE, number),
        f.Acked(bench.now_ns, TOPIC, 0, PRODUCER, 1, sequence, offset),
    )
    if abort:
        bench.fold(f.Aborted(bench.now_ns, *key))
    else:
        bench.log[offset] = (PRODUCER, 1, sequence)
        bench.fold(f.CommitAsked(bench.now_ns, *key), f.Committed(bench.now_ns, *key))
    for reader in (RC, RU):
        if reader == RU or not abort:
            bench.fold(f.Polled(bench.now_ns, reader, reader, TOPIC, 0, offset, PRODUCER, 1, sequence, number))
        bench.fold(f.EndOfPartition(bench.now_ns, reader, reader, TOPIC, 0, bench.end))
        bench.positions[reader] = bench.end


def expire(bench: Bench, keep: int) -> None:
    bench.start = max(bench.end - keep, 0)
    for offset in [one for one in bench.log if one < bench.start]:
        del bench.log[offset]
    bench.now_ns += 60 * 10**9
    bench.round()
    bench.fold(f.TopicConfigured(bench.now_ns, TOPIC, 1000, -1, "delete", 2))


def test_aborted_transactions_are_remembered_while_they_are_retained_and_not_for_ever() -> None:
    bench = Bench(mode=MODE)
    most = 0
    for number in range(600):
        transact(bench, number, abort=number % 3 == 0)
        if number % 50 == 49:
            expire(bench, keep=100)
            (stream,) = bench.tracker.state.topics[TOPIC].streams
            most = max(most, len(list(stream.failed)), len(list(stream.promised)), len(list(stream.early[RU])))
    assert most < 40  # 50 transactions are retained, a third of them aborted
    assert bench.found() == []
    aborted = next(n for n in range(590, 600) if n % 3 == 0)
    bench.fold(f.Polled(bench.now_ns, RC, RC, TOPIC, 0, 2 * aborted, PRODUCER, 1, aborted, aborted))
    assert next(kind for kind, *_ in bench.found()) == "G1a"


def test_transactions_whose_writes_never_left_the_client_are_not_remembered_for_ever() -> None:
    bench = Bench(mode=MODE)
    for number in range(200):
        if number % 2 == 0:
            transact(bench, number, abort=False)
            continue
        probe, bench.sequence = (TOPIC, 0, PRODUCER, 1, bench.sequence), bench.sequence + 1
        bench.fold(
            f.TransactionBegan(bench.now_ns, MODE, PRODUCER, 1, number),
            f.Sent(bench.now_ns, *probe, MODE, number),
            f.Indeterminate(bench.now_ns, *probe, "_PURGE_QUEUE"),
            f.Aborted(bench.now_ns, PRODUCER, 1, number),
        )
    expire(bench, keep=20)
    (stream,) = bench.tracker.state.topics[TOPIC].streams
    assert len(stream.transactions) < 30
    assert bench.found() == []


def test_a_copy_of_what_expired_is_still_one() -> None:
    bench = Bench(mode=MODE)
    for number in range(60):
        transact(bench, number, abort=number % 3 == 0)
    expire(bench, keep=20)
    bench.log[bench.end] = (PRODUCER, 1, 4)
    bench.end += 1
    bench.settle()
    assert [kind for kind, *_ in bench.found("duplicate")] == ["duplicate"]
