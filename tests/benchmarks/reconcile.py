"""What a reconciliation takes, against DuckDB reaching the same verdicts from the same files.

Files are in the layout that the canary writes (own), and then with the same rows in random order (any). About a
thousand faults of all kinds are planted, and both must find them all and nothing else. Figures are of all processes,
JVM and Python workers included. Starting Spark is measured apart.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.benchmarks.measuring import MIB, Figure, Usage, command, run, same
from tests.benchmarks.reconcile_data import generate, scatter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

LARGE = 100_000_000
MOST_MIB = 4096.0
SIDES = {
    "spark": ["tests.benchmarks.reconcile_spark"],
    "start": ["tests.benchmarks.reconcile_spark", "--session-only"],
    "duckdb": ["tests.benchmarks.reconcile_duckdb"],
}


def measure(
    rows: int = 10_000_000,
    levels: int = 1,
    rounds: int = 1,
    keep: str = "",
    layouts: str = "own,any",
    *,
    polls: bool = False,
) -> Iterator[Figure]:
    """Generate a night (in ``keep``, to be used again), with one or two isolation levels, measure, compare."""
    with tempfile.TemporaryDirectory(prefix="reconcile-") as directory:
        folder = Path(keep or directory)
        planted = generate(folder / "own", rows, levels=levels, polls=polls)
        for layout in layouts.split(","):
            if layout == "any":
                scatter(folder / "own", folder / "any")
            most = 2.0 if layout == "any" else 1.0 if rows >= LARGE else 1.3
            yield from compared(f"{rows:,} probes, {layout} layout", folder / layout, planted, rounds, most)


def compared(subject: str, folder: Path, planted: Mapping[str, object], rounds: int, most: float) -> Iterator[Figure]:
    """Measure both sides on one folder; with its start Spark may take ``most`` times the CPU of DuckDB."""
    used: dict[str, list[Usage]] = {side: [] for side in SIDES}
    found = {}
    for _ in range(rounds):
        for side, module in SIDES.items():
            found[side], usage = run(["-m", *module, str(folder)])
            used[side].append(usage)
    yield same(subject, "verdicts", planted["verdicts"], found["spark"]["verdicts"], found["duckdb"]["verdicts"])
    yield same(subject, "anomalies", planted["anomalies"], found["spark"]["anomalies"])
    for side, usages in used.items():
        yield Figure.of(subject, f"{side}: CPU", (one.cpu for one in usages), "CPU-s")
        yield Figure.of(subject, f"{side}: time", (one.seconds for one in usages), "s")
    peaks = (one.peak / MIB for one in used["spark"])
    yield Figure.of(subject, "spark: PSS", peaks, "MiB", most=MOST_MIB)
    sides = list(zip(used["spark"], used["duckdb"], used["start"], strict=True))
    ratios = (one.cpu / other.cpu for one, other, _ in sides)
    yield Figure.of(subject, "CPU over DuckDB's, with Spark's start", ratios, most=most)
    ratios = ((one.cpu - start.cpu) / other.cpu for one, other, start in sides)
    yield Figure.of(subject, "CPU over DuckDB's, without it", ratios)


if __name__ == "__main__":
    command(measure)
