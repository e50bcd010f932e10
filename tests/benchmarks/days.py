"""What a tracker of the mode ``transactional`` costs day after day: ``python -m tests.benchmarks.days [--days 30]``.

Virtual days of facts as the writer, two tails, the scrubber and the watcher put them: transactions at the default rate,
aborted and abandoned as the workload does it, with their markers; two broker restarts a day, each with another leader
and epoch for a third of the partitions, an aborted and an indeterminate transaction and a new generation; re-reads are
answered from the log; the start moves once an hour. Each day prints a line of JSON: entries that the state holds, bytes
of the snapshot, CPU of folding a virtual second, CPU of dumping and of loading.

Fails if, from the day on which the log's start first moves (and the second at the earliest), entries, bytes or CPU of a
later day are further than 5 % from their median, or if loading takes a second.

The watcher asks every ``--round`` seconds and not each, and the scrubber reads ``--scrub`` records an hour in each
partition: both cost the same each day, and would be nearly all of the facts.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
import time
from array import array
from collections import Counter
from typing import TYPE_CHECKING, Any

from canary import facts as f
from canary.anomalies.online import Tracker
from canary.workloads.transactional import TransactionalSettings
from simulation.histories.wild import seeded

if TYPE_CHECKING:
    from collections.abc import Iterator

RC, RU = "read_committed", "read_uncommitted"
TOPIC, TOPIC_ID, MODE, CLUSTER = "durability-canary-transactional", "id", "transactional", "cluster"
S = 10**9
HOUR, DAY = 3600 * S, 86_400 * S
BEGIN_NS = 1_790_000_000 * S
MARKER, ABORTED = -1, 1
BATCH = 2_000
OPEN_S = 20
"""How long an abandoned transaction is open: its timeout, and until the coordinator looks."""
BROKERS = (1, 2, 3)


class Partition:
    """A log from its start on: (sequence * 2 + aborted) or MARKER at each offset, and the transaction."""

    def __init__(self) -> None:
        self.start = 0
        self.records, self.transactions = array("q"), array("q")
        self.generations: list[tuple[int, int]] = []
        self.hours: list[tuple[int, int]] = []
        self.epoch = 0
        self.sequence = 0
        self.stable: int | None = None
        """Where the transaction that is open began."""
        self.at = {RC: 0, RU: 0}

    @property
    def end(self) -> int:
        return self.start + len(self.records)

    def generation(self, offset: int) -> int:
        return next(generation for first, generation in reversed(self.generations) if first <= offset)

    def cut(self, start: int) -> None:
        del self.records[: start - self.start], self.transactions[: start - self.start]
        self.start = start


class Life:
    """Yields batches of facts, which it makes as it goes; re-reads that are asked for come with the next batch."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.now = BEGIN_NS
        self.logs = [Partition() for _ in range(options.partitions)]
        self.facts: list[f.Fact] = []
        self.generation, self.number, self.sample = 0, 0, 0
        self.settings = TransactionalSettings(interval=options.interval)
        self.random = seeded(1)

    def begin(self) -> None:
        self.facts.append(f.RunnerStarted(self.now, "canary-0", "bench", "installation"))
        self.renew()
        for reader in (RC, RU):
            self.facts += [f.Positioned(self.now, reader, reader, TOPIC, p, 0, "start") for p in range(len(self.logs))]
        self.round()

    def renew(self) -> None:
        self.generation += 1
        self.facts.append(f.GenerationBegan(self.now, TOPIC, MODE, 1, self.generation, TOPIC_ID))
        for log in self.logs:
            log.sequence = 0
            log.generations.append((log.end, self.generation))

    def round(self) -> None:
        """Ask the cluster."""
        self.sample += 1
        at, facts = (self.now, self.sample), self.facts
        facts.append(f.WatchAsked(*at))
        facts.append(f.ClusterSeen(*at, CLUSTER, "1,2,3"))
        facts.append(f.TopicSeen(*at, TOPIC, TOPIC_ID, len(self.logs)))
        for p, log in enumerate(self.logs):
            facts.append(f.PartitionSeen(*at, TOPIC, p, BROKERS[(p + log.epoch) % 3], "1,2,3", "1,2,3"))
            facts.append(f.Listed(*at, TOPIC, p, log.start, log.end, self.stable(log), log.epoch))
        facts.append(f.TopologySeen(*at, "probe"))

    @staticmethod
    def stable(log: Partition) -> int:
        return log.end if log.stable is None else log.stable

    def expire(self) -> None:
        """Move the starts, and see the retention."""
        for p, log in enumerate(self.logs):
            log.hours.append((self.now, log.end))
            while log.hours[0][0] <= self.now - self.options.retention * DAY:
                log.cut(log.hours.pop(0)[1])
            log.generations = [
                one
                for one, after in zip(log.generations, [*log.generations[1:], (log.end + 1, 0)], strict=True)
                if after[0] > log.start
            ]
            if self.options.scrub:
                self.facts.append(f.ScrubAsked(self.now, TOPIC, p, self.options.scrub))
        self.round()
        kept_ms = self.options.retention * 86_400_000
        self.facts.append(f.TopicConfigured(self.now, TOPIC, kept_ms, -1, "delete", 2))

    def transact(self, end: str) -> list[int]:  # noqa: C901  # one step after the other
        """Write one transaction; return its partitions. ``end``: "", "abandon", "fail" or "lose" (the answer)."""
        number, facts = self.number, self.facts
        self.number += 1
        chosen, abort = self.settings.turn(number, range(len(self.logs)))
        if self.options.random:
            chosen, abort = sorted(self.random.sample(range(len(self.logs)), 2)), self.random.random() < 0.1
        abort = abort if not end else end != "lose"
        who = (1, self.generation)
        facts.append(f.TransactionBegan(self.now, MODE, *who, number))
        told: list[tuple[int, int, int]] = []
        for p in chosen:
            log = self.logs[p]
            for _ in range(self.settings.records):
                at_ns = self.now + len(told) * 10_000 + self.random.randrange(5_000)
                facts.append(f.Sent(at_ns, TOPIC, p, *who, log.sequence, MODE, number))
                told.append((p, log.sequence, log.end))
                log.records.append(log.sequence * 2 + abort)
                log.transactions.append(number)
                log.sequence += 1
        acked = [f.Acked(self.now + 3_000_000, TOPIC, p, *who, one, at, 3_000_000) for p, one, at in told]
        if number % 3 == 1:
            self.read(RU, chosen)
        facts += acked
        if number % 3 == 2:
            self.read(RU, chosen)
        key = (self.now + 5_000_000, *who, number)
        if end == "abandon":
            facts.append(f.Aborted(*key, "left open on purpose"))
            for p in chosen:
                self.logs[p].stable = self.logs[p].end - self.settings.records
            return chosen
        if not abort:
            facts.append(f.CommitAsked(*key))
        for p in chosen:
            self.mark(p)
        if end == "lose":
            facts.append(f.TransactionIndeterminate(*key, "no answer"))
        else:
            facts.append(f.Aborted(*key, end or "on purpose") if abort else f.Committed(*key))
        self.read(RU, chosen)
        self.read(RC, chosen)
        return chosen

    def mark(self, p: int) -> None:
        self.logs[p].records.append(MARKER)
        self.logs[p].transactions.append(MARKER)

    def read(self, reader: str, partitions: list[int]) -> None:
        """Give a tail what it may read, and the end of the partition."""
        for p in partitions:
            log = self.logs[p]
            end = self.stable(log) if reader == RC else log.end
            if log.at[reader] < end:
                self.facts += self.given(reader, reader, p, log.at[reader], end)
                log.at[reader] = end
                self.facts.append(f.EndOfPartition(self.now + 6_000_000, reader, reader, TOPIC, p, end))

    def given(self, consumer: str, isolation: str, p: int, a: int, b: int) -> Iterator[f.Polled]:
        log = self.logs[p]
        for offset in range(a, b):
            one = log.records[offset - log.start]
            if one != MARKER and not (isolation == RC and one & ABORTED):
                who = (1, log.generation(offset), one // 2, log.transactions[offset - log.start])
                at = (self.now + 6_000_000, consumer, isolation, TOPIC, p, offset)
                yield f.Polled(*at, *who, self.now // 10**6, None, log.epoch)

    def answer(self, rereads: list[Any]) -> None:
        for one in rereads:
            log, name = self.logs[one.partition], f"reread-{one.request_id}"
            start, end = max(one.start, log.start), min(one.end, self.stable(log) if one.isolation == RC else log.end)
            place = (TOPIC, one.partition)
            self.facts.append(f.Positioned(self.now, name, one.isolation, *place, start, "reread"))
            self.facts += self.given(name, one.isolation, one.partition, start, end)
            done = (one.start, one.end, end, end >= one.end)
            self.facts.append(f.RereadEnded(self.now, one.request_id, one.isolation, *place, *done))

    def seconds(self) -> Iterator[None]:  # noqa: C901  # one step after the other
        """Go on for ever, one virtual second after the other."""
        marks: list[tuple[int, list[int]]] = []
        while True:
            second = (self.now - BEGIN_NS) // S
            if second % self.options.round == 0:
                self.round()
            if second % 3600 == 0:
                self.expire()
            restart = second % 43_200 == 20_000
            if restart or second % 43_200 == 20_060:
                for log in self.logs[second // 43_200 % 3 :: 3]:
                    log.epoch += 1
            for i in range(max(round(1 / self.options.interval), 1)):
                self.now = BEGIN_NS + second * S + round(i * self.options.interval * S)
                if i == 0 and second % round(self.settings.abandon_every) == 1:
                    marks.append((second + OPEN_S, self.transact("abandon")))
                else:
                    self.transact("" if not restart else ("fail", "lose")[min(i, 1)])
            if marks and marks[0][0] <= second:
                _, partitions = marks.pop(0)
                for p in partitions:
                    self.mark(p)
                    self.logs[p].stable = None
                self.read(RU, partitions)
                self.read(RC, partitions)
            if restart:
                self.renew()
            self.now = BEGIN_NS + (second + 1) * S
            yield


def entries(value: Any, found: Counter[str], name: str = "") -> Counter[str]:
    """Count what a state holds, by the field of the log, the stream or the state that holds it."""
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            inner = field.name in {"starts", "ends", "keys", "counts", "values", "tags", "past", "total"}
            entries(getattr(value, field.name), found, name if inner else field.name)
    elif isinstance(value, dict):
        for one in value.values():
            entries(one, found, name)
    elif isinstance(value, list | tuple):
        for one in value:
            entries(one, found, name)
    else:
        found[name] += 1
    return found


def measure(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the figures of each day."""
    life, tracker = Life(options), Tracker()
    life.begin()
    seconds = life.seconds()
    for day in range(1, options.days + 1):
        folded, facts = 0.0, 0
        for _ in range(86_400):
            next(seconds)
            if len(life.facts) >= BATCH:
                batch, life.facts = life.facts, []
                began = time.process_time()
                tracker.fold(batch)
                findings = tracker.drain()
                folded += time.process_time() - began
                facts += len(batch)
                if findings.violations:
                    raise SystemExit(f"day {day}: {findings.violations[0]}")
                life.answer(findings.rereads)
        began = time.process_time()
        data = tracker.dump()
        dumped = time.process_time()
        tracker = Tracker.load(data)
        loaded = time.process_time()
        found = entries(tracker.state, Counter())
        yield {
            "day": day,
            "facts": facts,
            "entries": sum(found.values()),
            "bytes": len(data),
            "ms_a_virtual_s": round(folded / 86.4, 3),
            "us_a_fact": round(folded / facts * 1e6, 2),
            "dump_s": round(dumped - began, 3),
            "load_s": round(loaded - dumped, 3),
            "most": dict(found.most_common(options.most)),
        }


def main(options: argparse.Namespace) -> int:
    """Print each day; return how many figures are not flat."""
    days = []
    for figures in measure(options):
        days.append(figures)
        sys.stdout.write(json.dumps(figures) + "\n")
        sys.stdout.flush()
    missed = int(max(one["load_s"] for one in days) >= 1)
    for name in ("entries", "bytes", "ms_a_virtual_s"):
        values = [one[name] for one in days[max(options.retention, 1) :]]
        if not values:
            continue
        middle = statistics.median(values)
        spread = max(abs(value / middle - 1) for value in values)
        good = spread <= 0.05
        missed += not good
        sys.stdout.write(json.dumps({"flat": name, "median": middle, "spread": round(spread, 4), "good": good}) + "\n")
    return missed


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.days", description=__doc__)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--partitions", type=int, default=30)
    parser.add_argument("--retention", type=int, default=7, help="days")
    parser.add_argument("--interval", type=float, default=0.5, help="seconds between two transactions, at most 1")
    parser.add_argument("--round", type=int, default=10, help="seconds between two rounds of questions")
    parser.add_argument("--scrub", type=int, default=100, help="records of each partition read again in an hour")
    parser.add_argument("--random", action="store_true", help="partitions and aborts by dice, as before 2026-11")
    parser.add_argument("--most", type=int, default=8, help="how many fields of the state to name, largest first")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main(_options()))
