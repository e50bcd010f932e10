"""How much CPU and memory a reconciliation takes, against DuckDB reaching the same verdicts from the same files.

    python -m tests.benchmarks.reconcile --rows 10_000_000 [--levels 2] [--polls] [--keep DIR] [--skip-duckdb]

Files are in the layout that the canary writes. About a thousand faults of all kinds are planted, and both must find
them all and nothing else. Figures are CPU seconds of all processes (JVM and Python workers included) and the peak of
their memory (PSS, so that shared pages count once). Starting Spark is measured apart.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.measuring import Usage, run
from tests.benchmarks.reconcile_data import generate


def main() -> None:
    """Generate, measure, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--levels", type=int, default=1, choices=(1, 2), help="isolation levels in the dump")
    parser.add_argument("--polls", action="store_true", help="and a read_committed poll of every record")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--skip-duckdb", action="store_true")
    options = parser.parse_args()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="reconcile-"))
    planted = generate(folder, options.rows, levels=options.levels, polls=options.polls)
    sys.stdout.write(f"{options.rows:,} probes, {planted['records']:,} records, planted: {planted['verdicts']}\n")
    spark, used = run(["-m", "tests.benchmarks.reconcile_spark", str(folder)])
    _, idle = run(["-m", "tests.benchmarks.reconcile_spark", "--session-only", str(folder)])
    _say("spark", used)
    _say("spark, session alone", idle)
    _compare("spark", spark["verdicts"], planted["verdicts"])
    _compare("spark anomalies", spark["anomalies"], planted["anomalies"])
    if not options.skip_duckdb:
        duckdb, reference = run(["-m", "tests.benchmarks.reconcile_duckdb", str(folder)])
        _say("duckdb", reference)
        _compare("duckdb", duckdb["verdicts"], planted["verdicts"])
        sys.stdout.write(f"spark without its session: {(used.cpu - idle.cpu) / reference.cpu:.2f} of duckdb's CPU; ")
        sys.stdout.write(f"with it: {used.cpu / reference.cpu:.2f}\n")
    if not options.keep:
        shutil.rmtree(folder)


def _say(name: str, usage: Usage) -> None:
    sys.stdout.write(f"{name}: {usage.cpu:.1f} CPU-s, {usage.seconds:.1f} s, peak {usage.peak / 2**30:.2f} GiB\n")


def _compare(name: str, got: object, expected: object) -> None:
    sys.stdout.write(f"{name}: {'the same' if got == expected else f'DIFFERS: {got} instead of {expected}'}\n")


if __name__ == "__main__":
    main()
