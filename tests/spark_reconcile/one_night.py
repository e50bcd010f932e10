"""A night of `canary schedule` whose dump is there already: ``python -m tests.spark_reconcile.one_night FOLDER ID``.

Everything else is what the scheduler's child does: it may be killed at any moment, and run again.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from canary.settings import load
from spark_reconcile.dump.dumping import Dumped
from spark_reconcile.job.session import session
from spark_reconcile.nightly import run
from spark_reconcile.nightly.scheduler import Ticket
from storage.store import Store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from spark_reconcile.dump.dumping import Wanted


IDENTITY = ("cluster", "topic", "partition", "producer_id", "generation", "sequence")


def planted(folder: Path) -> dict[str, Any]:
    """Return the verdicts and anomalies that are to be found in a night."""
    read: dict[str, Any] = json.loads((folder / "planted.json").read_text())
    return read


def verdicts(out: Path) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """Return a run's verdicts by identity; nothing may be there twice."""
    rows = pq.read_table(out / "verdicts").to_pylist()
    found = {tuple(row[name] for name in IDENTITY): (row["verdict"], row["offset"]) for row in rows}
    assert len(found) == len(rows)
    cases = pq.read_table(out / "anomalies").to_pylist()
    assert len({tuple(case.items()) for case in cases}) == len(cases)
    return found


def reconcile(folder: Path, which: str, spark: SparkSession) -> None:
    """Reconcile the folder's log and dump under a claimed row."""

    def dump(_spark: SparkSession, _wanted: Sequence[Wanted], out: str) -> Dumped:
        shutil.copytree(folder / "dump", out, dirs_exist_ok=True)
        return Dumped({}, pq.read_table(folder / "dump" / "bounds").to_pylist(), 0, 0.0)

    settings = load(folder / "canary.yaml", os.environ)
    with Store.connect(settings.store.url.get_secret_value(), timeout=60) as store:
        run.run(settings, store, Ticket(which, "me", "c"), spark, settle_s=0, dump=dump)


if __name__ == "__main__":
    with session("one night", light=True) as started:
        reconcile(Path(sys.argv[1]), sys.argv[2], started)
