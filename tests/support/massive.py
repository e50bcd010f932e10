"""A bench for losses of very many records at once: what is known of them is a few runs, as months of probing leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canary import facts as f
from tests.support.bench import RC, RU, TOPIC, Bench

if TYPE_CHECKING:
    from canary.anomalies.online.log import Log
    from canary.anomalies.online.stream import Stream

MANY = 10_000_000


def inside(bench: Bench) -> tuple[Log, Stream]:
    topic = bench.tracker.state.topics[TOPIC]
    return topic.logs[0], topic.streams[0]


class Massive(Bench):
    """A bench that knows of very many probes at once, and whose leader only tells where its log ends."""

    def know(self, n: int) -> None:
        """Have sent, acknowledged and read ``n`` probes, as the folds of months would leave it."""
        log, stream = inside(self)
        first, offset = self.sequence, self.end
        for known in (stream.acked, stream.promised, stream.seen):
            known.add(first, first + n)
        stream.next_sequence = first + n
        stream.places.set(first, n, offset, stream.tag)
        log.claims.set(offset, n, first, stream.tag)
        log.promised.add(offset, offset + n)
        self.sequence += n
        self.end += n
        for name in (RC, RU):
            self.positions[name] = log.readers[name].position = self.end

    def fold(self, *facts: f.Fact) -> None:
        """Take what is said as it is: record by record it would be too much."""
        self.now_ns += 1_000_000
        self.tracker.fold(facts)
        findings = self.tracker.drain()
        self.requests.extend(findings.rereads)
        self.said.extend(findings.violations)

    def answer(self) -> None:
        requests, self.requests = self.requests, []
        for r in requests:
            number, start, end = r.request_id, r.start, r.end
            reached = min(max(self.end, start), end)
            error = None if reached == end else f"end of log at {self.end}"
            self.fold(f.RereadEnded(self.now_ns, number, RC, TOPIC, 0, start, end, reached, error is None, error))


def knowing(n: int) -> Massive:
    bench = Massive()
    bench.write(10)
    bench.poll()
    bench.know(n)
    bench.round()
    return bench


def cut(bench: Bench) -> None:
    """Let the log end at 10 from now on, and see that all that is gone is said."""
    bench.end = 10
    for _ in range(6):
        bench.round()
