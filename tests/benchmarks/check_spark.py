"""``canary check --engine spark`` on a large history: time, CPU and memory, and the same answer as the local engine.

``python -m tests.benchmarks.check_spark [operations] [operations for both engines]``. Prints one line of JSON for each
run; fails when the engines differ, or when the driver (its Python process, and its JVM, which in local mode is the
executors' too) takes more memory than its bound: a fixed part, and so many bytes for each operation.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import psutil

from tests.benchmarks.check import write_history

if TYPE_CHECKING:
    from collections.abc import Iterator

CANARY = [sys.executable, "-c", "from canary.cli import main; main()", "check"]
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


def watched(command: list[str]) -> tuple[bytes, dict[str, Any]]:
    """Run ``command``; return what it printed and what it, its JVM and its workers took."""
    peaks = {"driver": 0.0, "jvm": 0.0, "workers": 0.0}
    cpu: dict[int, float] = {}
    begun = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        root = psutil.Process(process.pid)
        done = threading.Event()

        def sample() -> None:
            while not done.wait(0.2):
                now = dict.fromkeys(peaks, 0.0)
                for one, role in family(root):
                    try:
                        now[role] += one.memory_full_info().pss / 2**20
                        times = one.cpu_times()
                        cpu[one.pid] = times.user + times.system
                    except psutil.Error:
                        continue
                for role, memory in now.items():
                    peaks[role] = max(peaks[role], memory)

        sampler = threading.Thread(target=sample)
        sampler.start()
        out, _ = process.communicate()
        done.set()
        sampler.join()
    seconds = time.monotonic() - begun
    assert process.returncode in (0, 1), process.returncode
    return out, {
        "wall_s": round(seconds, 1),
        "cpu_s": round(sum(cpu.values()), 1),
        **{f"{role}_mib": round(peak) for role, peak in peaks.items()},
    }


def family(root: psutil.Process) -> Iterator[tuple[psutil.Process, str]]:
    """Yield the process and all it started, each with its role."""
    yield root, "driver"
    try:
        children = root.children(recursive=True)
    except psutil.Error:
        return
    for child in children:
        try:
            yield child, "jvm" if "java" in child.name() else "workers"
        except psutil.Error:
            continue


def normal(text: bytes) -> dict[str, Any]:
    """Return a verdict without the order of its cases."""
    verdict: dict[str, Any] = orjson.loads(text)
    for name, cases in verdict["anomalies"].items():
        if name in ("G0", "G1c"):
            verdict["anomalies"][name] = sorted(len(case["ops"]) for case in cases)
        else:
            verdict["anomalies"][name] = sorted(orjson.dumps(case, option=orjson.OPT_SORT_KEYS) for case in cases)
    return verdict


def large(path: Path, operations: int) -> bool:
    """Check a large history; return whether it was judged as it should be, in bounded memory."""
    if not path.exists():
        write_history(path, operations, transactions=False)
    out, usage = watched([*CANARY, str(path), "--engine", "spark", "--json"])
    verdict = orjson.loads(out)
    found = verdict["counts"]
    good = set(found) <= {"unseen"} and verdict["operations"] == operations  # the last sends are polled by nobody
    good = good and usage["driver_mib"] <= DRIVER_MIB + operations * BYTES_EACH / 2**20 and usage["jvm_mib"] <= JVM_MIB
    size = round(path.stat().st_size / 2**20)
    said = {"operations": operations, "file_mib": size, "found": found, **usage, "good": bool(good)}
    sys.stdout.write(json.dumps(said) + "\n")
    return bool(good)


def alike(path: Path, operations: int) -> bool:
    """Check a broken history by both engines; return whether they say the same."""
    if not path.exists():
        right = path.with_suffix(".right")
        write_history(right, operations, transactions=True)
        broken(right, path)
    spark, usage = watched([*CANARY, str(path), "--engine", "spark", "--json"])
    local, local_usage = watched([*CANARY, str(path), "--json"])
    counts = orjson.loads(local)["counts"]
    good = bool(counts) and normal(spark) == normal(local)
    sys.stdout.write(
        json.dumps({"operations": operations, "found": counts, "spark": usage, "local": local_usage}) + "\n"
    )
    sys.stdout.write(f"the engines {'agree' if good else 'DIFFER'}\n")
    return good


def main(operations: int, both: int) -> int:
    """Do both; return how many failed."""
    with tempfile.TemporaryDirectory() as directory:
        return sum(not good for good in (alike(Path(directory) / "b", both), large(Path(directory) / "a", operations)))


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    sys.exit(main(given[0] if given else 10_000_000, given[1] if len(given) > 1 else 1_000_000))
