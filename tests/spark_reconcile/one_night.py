"""A night of `canary schedule` whose dump is there already: ``python -m tests.spark_reconcile.one_night FOLDER ID``.

Everything else is what the scheduler's child does: it may be killed at any moment, and run again.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from canary.settings import load
from spark_reconcile import nightly
from spark_reconcile.dump import Dumped
from spark_reconcile.nightly import Ticket
from spark_reconcile.session import session
from storage.store import Store


def main() -> None:
    """Reconcile the folder's log and dump under a claimed row."""
    folder, which = Path(sys.argv[1]), sys.argv[2]

    def dump(_spark: Any, _wanted: Any, out: str) -> Dumped:
        shutil.copytree(folder / "dump", out, dirs_exist_ok=True)
        return Dumped({}, pq.read_table(folder / "dump" / "bounds").to_pylist(), 0, 0.0)

    replaced: Any = nightly
    replaced.dumping.dump, replaced.target = dump, lambda *_: None
    settings = load(folder / "canary.yaml", os.environ)
    with (
        Store.connect(settings.store.url.get_secret_value(), timeout=60) as store,
        session("one night", conf={"spark.python.worker.reuse": "true"}) as spark,
    ):
        nightly.run(settings, store, Ticket(which, "me", "c"), spark, settle_s=0)


if __name__ == "__main__":
    main()
