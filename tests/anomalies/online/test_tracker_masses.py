"""The worst moment is no time to be slow: what each of very many lost probes costs does not grow with their number."""

from __future__ import annotations

import pytest

from canary import facts as f
from tests.support.bench import PRODUCER, TOPIC, Bench
from tests.support.steps import steps


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


def lose(n: int) -> None:
    """Let a cut destroy ``n`` probes and others take their places, and see that each is said."""
    bench = Bench()
    with_markers(bench, n)
    bench.poll()
    bench.truncate(0)
    with_markers(bench, n)
    bench.settle()
    found = bench.found()
    for kind in ("lost-write", "inconsistent-offsets"):
        assert sum(one[0] == kind for one in found) == n


@pytest.mark.dear("how costs grow is seen where they are large")
def test_five_times_the_losses_take_five_times_as_long_and_not_25() -> None:
    assert steps(lambda: lose(1000)) < 5.1 * steps(lambda: lose(200))
