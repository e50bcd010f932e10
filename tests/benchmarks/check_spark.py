"""``canary check --engine spark`` on a large history: CPU, memory, and the same answer as the local engine.

The driver (its Python process, and its JVM, which in local mode is the executors', too) may take a fixed part of
memory, and so many bytes for each operation.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from tests.benchmarks.check import write_history
from tests.benchmarks.measuring import MIB, Figure, command, output, same

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECK = ["-m", "canary.cli", "check"]
DRIVER_MIB, BYTES_EACH, JVM_MIB = 512, 100, 1200
"""What the driver may take: a base, and for each operation; and its JVM."""
EVERY_WRONG = 5_003
"""One line in so many is broken in the history that both engines judge."""


def broken(path: Path, to: Path) -> None:
    """Copy a history with some polls that miss a message, and some offsets that belong to others."""
    with path.open("rb") as source, to.open("wb") as target:
        for number, line in enumerate(source):
            if number % EVERY_WRONG:
                target.write(line)
                continue
            op = orjson.loads(line)
            for micro in op["value"]:
                if micro[0] == "poll" and len(micro) > 1:
                    for pairs in micro[1].values():
                        pairs[0][0] += (number // EVERY_WRONG) % 2
                        del pairs[1:2]
            target.write(orjson.dumps(op) + b"\n")


def normal(text: bytes) -> dict[str, Any]:
    """Return a verdict without the order of its cases."""
    verdict: dict[str, Any] = orjson.loads(text)
    for name, cases in verdict["anomalies"].items():
        if name in ("G0", "G1c"):
            verdict["anomalies"][name] = sorted(len(case["ops"]) for case in cases)
        else:
            verdict["anomalies"][name] = sorted(orjson.dumps(case, option=orjson.OPT_SORT_KEYS) for case in cases)
    return verdict


def large(path: Path, operations: int) -> Iterator[Figure]:
    """Check a large history; yield whether it was judged as it should be, in bounded memory."""
    write_history(path, operations, transactions=False)
    out, usage = output([*CHECK, str(path), "--engine", "spark", "--json"], statuses=(0, 1))
    verdict = orjson.loads(out)
    subject = f"{operations:,} operations"
    yield same(subject, "operations judged", operations, verdict["operations"])
    yield same(subject, "anomalies", [], sorted(set(verdict["counts"]) - {"unseen"}))  # nobody polls the last sends
    yield Figure(subject, "CPU", usage.cpu, "CPU-s")
    yield Figure(subject, "time", usage.seconds, "s")
    for part, most in (("driver", DRIVER_MIB + operations * BYTES_EACH / MIB), ("jvm", JVM_MIB), ("workers", None)):
        yield Figure(subject, f"PSS of the {part}", usage.peaks.get(part, 0) / MIB, "MiB", most=most)


def alike(path: Path, operations: int) -> Iterator[Figure]:
    """Check a broken history by both engines; yield whether they say the same."""
    right = path.with_suffix(".right")
    write_history(right, operations, transactions=True)
    broken(right, path)
    spark, usage = output([*CHECK, str(path), "--engine", "spark", "--json"], statuses=(1,))
    local, local_usage = output([*CHECK, str(path), "--json"], statuses=(1,))
    subject = f"{operations:,} operations, some wrong"
    yield same(subject, "verdicts of the engines", normal(spark), normal(local))
    yield Figure(subject, "CPU with Spark", usage.cpu, "CPU-s")
    yield Figure(subject, "CPU without", local_usage.cpu, "CPU-s")


def measure(operations: int = 10_000_000, both: int = 1_000_000) -> Iterator[Figure]:
    """Do both."""
    with tempfile.TemporaryDirectory() as directory:
        yield from alike(Path(directory) / "b", both)
        yield from large(Path(directory) / "a", operations)


if __name__ == "__main__":
    command(measure)
