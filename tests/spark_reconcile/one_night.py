"""A night of `canary schedule` whose dump is there already: ``python -m tests.spark_reconcile.one_night FOLDER ID``.

Everything else is what the scheduler's child does: it may be killed at any moment, and run again.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

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
