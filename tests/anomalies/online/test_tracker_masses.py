"""The worst moment is no time to be slow: what each of very many lost probes costs does not grow with their number."""

from __future__ import annotations

import time

from canary import facts as f
from tests.support.bench import PRODUCER, TOPIC, Bench


def with_markers(bench: Bench, n: int) -> None:
    """Write ``n`` acknowledged probes, none of which stands next to the one before it."""
    sequences = bench.send(n)
    offsets = []
    for sequence in sequences:
        offsets += bench.append(sequence)
        bench.end += 1
    bench.fold(
        *(f.Acked(bench.now_ns, TOPIC, 0, PRODUCER, 1, s, o, 1_000) for s, o in zip(sequences, offsets, strict=True))
    )


def lost(n: int) -> float:
    """Let a cut destroy ``n`` probes and others take their places; return the CPU seconds of all of it."""
    began = time.process_time()
    bench = Bench()
    with_markers(bench, n)
    bench.poll()
    bench.truncate(0)
    with_markers(bench, n)
    bench.settle()
    found = bench.found()
    for kind in ("lost-write", "inconsistent-offsets"):
        assert sum(one[0] == kind for one in found) == n
    return time.process_time() - began


def test_ten_times_the_losses_take_ten_times_as_long_and_not_a_hundred() -> None:
    few = min(lost(300) for _ in range(3))
    assert lost(3000) < 20 * few
