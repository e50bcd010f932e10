"""python -m tests.benchmarks.reconcile_yarn ROWS DIR: a night on YARN and HDFS of this machine, and its memory.

Two executors of one core each; the files of the night are made in DIR, unless they are there, and copied to HDFS.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import fsspec
import psutil

from tests.benchmarks.reconcile_data import generate
from tests.spark_reconcile.test_yarn import operators, reconciling
from tests.support.hadoop import hadoop


def main(rows: int, folder: Path) -> None:
    """Do it, and tell."""
    planted, here = folder / "planted.json", folder / "night"
    if not planted.exists():
        planted.write_text(json.dumps(generate(here, rows, levels=1, polls=False)))
    (folder / "hadoop").mkdir()
    with hadoop(folder / "hadoop") as cluster:
        night = f"{cluster.http}/night"
        filesystem, root = fsspec.core.url_to_fs(night)
        began = time.monotonic()
        filesystem.put(f"{here}/", root, recursive=True)
        size = sum(one["size"] for one in filesystem.find(root, detail=True).values())
        sys.stdout.write(f"{rows} probes, {size / 2**20:.0f} MiB on HDFS after {time.monotonic() - began:.0f} s\n")
        began, most = time.monotonic(), 0
        environment = operators(folder, cluster, {})
        job = reconciling(folder, night, f"{cluster.http}/out", "--master", "yarn", environment=environment)
        while job.poll() is None:
            for executor in cluster.executors().values():
                most = max(most, _held(executor))
            time.sleep(0.2)  # measured from outside: there is no event to wait for
        took = time.monotonic() - began
        out, place = fsspec.core.url_to_fs(f"{cluster.http}/out/summary.json")
        summary, expected = json.loads(out.cat_file(place)), json.loads(planted.read_text())
        assert summary["verdicts"] == expected["verdicts"], (summary["verdicts"], expected["verdicts"])
        assert summary["anomalies"] == expected["anomalies"]
        sys.stdout.write(f"status {job.returncode}, {took:.0f} s, an executor with its Python {most / 2**20:.0f} MiB\n")


def _held(executor: psutil.Process) -> int:
    """Return the bytes that an executor and what it started hold for themselves, shared ones once."""
    held = 0
    for one in (executor, *executor.children(recursive=True)):
        try:
            held += one.memory_full_info().pss
        except psutil.Error:  # it has ended
            continue
    return held


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
