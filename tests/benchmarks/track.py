"""What judging online costs, against reading the same facts from JSON with orjson.

Three orders of the facts of a healthy life: consecutive probes as they come from producers and consumers that work in
batches; all of 30 partitions and four producers mixed one by one; and the worst that we know: mixed, acknowledgements
out of order, every outcome told after the reads, and a third of the probes in transactions of their own.
"""

from __future__ import annotations

import dataclasses
import gc
import time
from typing import TYPE_CHECKING, Any

import orjson

from canary import facts as f
from canary.anomalies.online import Tracker
from simulation.histories.wild import seeded
from tests.benchmarks.measuring import Figure, command

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

RC, RU = "read_committed", "read_uncommitted"
TOPIC = "durability-canary"
PARTITIONS, RUN, FOLD = 30, 500, 2_000
BEGIN_NS = 1_790_000_000_000_000_000
MODES = ("idempotent", "plain", "transactional", "group")


class Writer:
    """A producer's next sequences, and the next offsets of the partitions."""

    def __init__(self) -> None:
        self.now = BEGIN_NS
        self.offsets = [0] * PARTITIONS
        self.sequences = {(mode, p): 0 for mode in range(len(MODES)) for p in range(PARTITIONS)}
        self.transaction = 0

    def tick(self) -> int:
        self.now += 1_000
        return self.now

    def identity(self, mode: int, p: int) -> tuple[str, int, int, int, int]:
        sequence = self.sequences[mode, p]
        self.sequences[mode, p] = sequence + 1
        return TOPIC, p, mode + 1, 1, sequence

    def offset(self, p: int) -> int:
        self.offsets[p] += 1
        return self.offsets[p] - 1

    def begin(self) -> Iterator[f.Fact]:
        yield f.RunnerStarted(self.tick(), "canary-0", "bench")
        for mode, name in enumerate(MODES):
            yield f.GenerationBegan(self.tick(), TOPIC, name, mode + 1, 1)
        for consumer in (RC, RU):
            for p in range(PARTITIONS):
                yield f.Positioned(self.tick(), consumer, consumer, TOPIC, p, 0, "start")

    def polled(self, consumer: str, offset: int, identity: tuple[str, int, int, int, int], **more: Any) -> f.Fact:
        topic, p, producer_id, generation, sequence = identity
        at_ns = self.tick()
        place = (topic, p, offset)
        who = (producer_id, generation, sequence)
        return f.Polled(at_ns, consumer, consumer, *place, *who, timestamp_ms=at_ns // 1_000_000, **more)


def runs(count: int) -> list[f.Fact]:
    """Return facts as they come from batches: runs of RUN of each kind, partition after partition."""
    writer = Writer()
    facts = list(writer.begin())
    while len(facts) < count:
        for p in range(PARTITIONS):
            told = [(writer.identity(0, p), writer.offset(p)) for _ in range(RUN)]
            facts += [f.Sent(writer.tick(), *who, "idempotent") for who, _ in told]
            facts += [f.Acked(writer.tick(), *who, offset, 2_000_000) for who, offset in told]
            for consumer in (RC, RU):
                facts += [writer.polled(consumer, offset, who) for who, offset in told]
    return facts[:count]


def mixed(count: int) -> list[f.Fact]:
    """Return facts of two producers over all partitions, no two neighbours of which belong together."""
    writer = Writer()
    facts = list(writer.begin())
    while len(facts) < count:
        told = []
        for n in range(2 * PARTITIONS):
            mode, p = n % 2, n % PARTITIONS
            who = writer.identity(mode, p)
            facts.append(f.Sent(writer.tick(), *who, MODES[mode]))
            told.append((who, writer.offset(p)))
        facts += [f.Acked(writer.tick(), *who, offset, 2_000_000) for who, offset in told]
        for who, offset in told:
            facts += [writer.polled(consumer, offset, who) for consumer in (RC, RU)]
    return facts[:count]


def worst(count: int) -> list[f.Fact]:
    """Return mixed facts, a third of the probes in transactions of one each, every outcome told after the reads.

    No two neighbours belong together, nothing is acknowledged in its order, and every set the tracker keeps is
    visited: what was read before it was acknowledged, transactions that were read before they were known to be
    committed, the hole that each commit marker leaves.
    """
    random = seeded(1)
    writer = Writer()
    facts = list(writer.begin())
    places = [(mode, p) for mode in range(3) for p in range(PARTITIONS)]
    while len(facts) < count:
        random.shuffle(places)
        told: list[tuple[tuple[str, int, int, int, int], int, int | None]] = []
        for mode, p in places:
            transaction = None
            if MODES[mode] == "transactional":
                writer.transaction += 1
                transaction = writer.transaction
                facts.append(f.TransactionBegan(writer.tick(), MODES[mode], mode + 1, 1, transaction))
            who = writer.identity(mode, p)
            facts.append(f.Sent(writer.tick(), *who, MODES[mode], transaction_id=transaction))
            told.append((who, writer.offset(p), transaction))
        ended = [transaction for _, _, transaction in told if transaction is not None]
        facts += [f.CommitAsked(writer.tick(), 3, 1, transaction) for transaction in ended]
        for who, offset, transaction in told:
            facts += [writer.polled(consumer, offset, who, transaction_id=transaction) for consumer in (RU, RC)]
        random.shuffle(told)
        facts += [f.Acked(writer.tick(), *who, offset, 2_000_000) for who, offset, _ in told]
        facts += [f.Committed(writer.tick(), 3, 1, transaction) for transaction in ended]
        for p in range(PARTITIONS):
            writer.offset(p)  # the marker
    return facts[:count]


ORDERS = (("runs", runs, 1.0), ("mixed", mixed, 5.0), ("worst", worst, 5.0))
"""Each with what it may cost, in times of orjson's CPU."""


def fold(facts: Sequence[f.Fact]) -> float:
    """Return the CPU seconds that a tracker takes for ``facts``, and make sure that it finds nothing."""
    tracker = Tracker()
    found = 0
    gc.collect()
    start = time.process_time()
    for i in range(0, len(facts), FOLD):
        tracker.fold(facts[i : i + FOLD])
        found += len(tracker.drain().violations)
    took = time.process_time() - start
    log = tracker.state.topics[TOPIC].logs[0]
    assert found == 0
    assert not log.missing
    assert log.readers[RC].position > 0
    return took


def parse(facts: Sequence[f.Fact]) -> float:
    """Return the CPU seconds of reading the same facts from JSON and making facts of them."""
    lines = [(type(fact), orjson.dumps([getattr(fact, x.name) for x in dataclasses.fields(fact)])) for fact in facts]
    gc.collect()
    start = time.process_time()
    for kind, line in lines:
        kind(*orjson.loads(line))
    return time.process_time() - start


def measure(facts: int = 300_000) -> Iterator[Figure]:
    """Measure all orders, the best of three of both sides: others use the machine, too."""
    for order, make, most in ORDERS:
        made = make(facts)
        folded, parsed = (min(side(made) for _ in range(3)) for side in (fold, parse))
        yield Figure(order, "facts for each CPU second", len(made) / folded)
        yield Figure(order, "CPU over orjson's", folded / parsed, most=most)


if __name__ == "__main__":
    command(measure)
