"""How many probes a second are verified where nothing holds back the bare loop, on the cores that the brokers share.

The bare loop sends as fast as it reads back; the canary is asked for more than it must reach.
"""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING

from canary.lab import Lab
from tests.benchmarks.measuring import Figure, command
from tests.benchmarks.probing import BROKERS, run_once

if TYPE_CHECKING:
    from collections.abc import Iterator

LEAST = 0.5


def measure(
    rate: int = 60_000, partitions: int = 30, rounds: int = 5, warm: float = 10.0, window: float = 30.0
) -> Iterator[Figure]:
    """Run both in turn."""
    with (
        tempfile.TemporaryDirectory(prefix="lab-") as directory,
        Lab(directory, properties=BROKERS, die_with_parent=True) as lab,
    ):
        settings = {"bare": f"0x{partitions}", "canary": f"{rate}x{partitions}"}
        pairs = [
            [run_once(lab, name, setting, warm, window) for name, setting in settings.items()] for _ in range(rounds)
        ]
    for name, windows in zip(settings, zip(*pairs, strict=True), strict=True):
        subject = f"{name}, {partitions} partitions"
        yield Figure.of(subject, "verified", (one.rate for one in windows), "/s")
        yield Figure.of(subject, "CPU", (one.cpu / one.seconds for one in windows), "cores")
        yield Figure.of(subject, "brokers", (one.brokers_cpu / one.seconds for one in windows), "cores")
        yield Figure.of(subject, "CPU per 1,000", (one.per_thousand for one in windows), "CPU-s")
    yield Figure.of("canary / bare", "verified", (mine.rate / bare.rate for bare, mine in pairs), least=LEAST)
    yield Figure.of(
        "canary / bare", "verified for all CPU, brokers' too", (mine.yielded / bare.yielded for bare, mine in pairs)
    )
    yield Figure.of("canary / bare", "CPU per 1,000", (mine.per_thousand / bare.per_thousand for bare, mine in pairs))


if __name__ == "__main__":
    command(measure)
