"""How much CPU and memory a reconciliation takes, against DuckDB reaching the same verdicts from the same files.

    python -m tests.benchmarks.reconcile --rows 10_000_000 [--layouts own,any] [--levels 2] [--polls] [--keep DIR]

Files are in the layout that the canary writes (``own``), and with the same rows in random order (``any``). About a
thousand faults of all kinds are planted, and both must find them all and nothing else. Figures are CPU seconds of all
processes (JVM and Python workers included) and the peak of their memory (PSS, so that shared pages count once); both
sides are sampled alike. Exit status 1: an answer differs, or a limit is missed.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.benchmarks.measuring import Usage, run
from tests.benchmarks.reconcile_data import generate, scatter

LARGE: Final = 100_000_000
MOST: Final = {"own": 1.3, "own, large": 1.0, "any": 2.0}
"""Spark's CPU, its start included, as a multiple of DuckDB's; ``large``: from LARGE probes on."""
MEMORY: Final = 4 << 30
"""Bytes that Spark may take, with everything it starts."""


def main() -> int:
    """Generate, measure, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--layouts", default="own,any", help="own, any, or both")
    parser.add_argument("--levels", type=int, default=1, choices=(1, 2), help="isolation levels in the dump")
    parser.add_argument("--polls", action="store_true", help="and a read_committed poll of every record")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--skip-duckdb", action="store_true")
    options = parser.parse_args()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="reconcile-"))
    planted = generate(folder / "own", options.rows, levels=options.levels, polls=options.polls)
    sys.stdout.write(f"{options.rows:,} probes, {planted['records']:,} records, planted: {planted['verdicts']}\n")
    missed = 0
    for layout in options.layouts.split(","):
        if layout == "any":
            scatter(folder / "own", folder / "any")
        name = "own, large" if layout == "own" and options.rows >= LARGE else layout
        missed += _compared(folder / layout, planted, name, duckdb=not options.skip_duckdb)
    if not options.keep:
        shutil.rmtree(folder)
    return 1 if missed else 0


def _compared(folder: Path, planted: dict[str, object], layout: str, *, duckdb: bool) -> int:
    """Measure both sides on one folder; return how many answers differ and limits are missed."""
    spark, used = run(["-m", "tests.benchmarks.reconcile_spark", str(folder)])
    _say(f"{layout}: spark", used)
    wrong: int = _differs("spark", spark["verdicts"], planted["verdicts"])
    wrong += _differs("spark's anomalies", spark["anomalies"], planted["anomalies"])
    wrong += _above("peak GiB", used.peak / 2**30, MEMORY / 2**30)
    if duckdb:
        answer, reference = run(["-m", "tests.benchmarks.reconcile_duckdb", str(folder)])
        _say(f"{layout}: duckdb", reference)
        wrong += _differs("duckdb", answer["verdicts"], planted["verdicts"])
        wrong += _above("of duckdb's CPU", used.cpu / reference.cpu, MOST[layout])
    return wrong


def _say(name: str, usage: Usage) -> None:
    sys.stdout.write(f"{name}: {usage.cpu:.1f} CPU-s, {usage.seconds:.1f} s, peak {usage.peak / 2**30:.2f} GiB\n")


def _differs(name: str, got: object, expected: object) -> bool:
    sys.stdout.write(f"{name}: {'the same' if got == expected else f'DIFFERS: {got} instead of {expected}'}\n")
    return got != expected


def _above(what: str, figure: float, most: float) -> bool:
    sys.stdout.write(f"{figure:.2f} {what}, at most {most}: {'good' if figure <= most else 'MISSED'}\n")
    return figure > most


if __name__ == "__main__":
    sys.exit(main())
