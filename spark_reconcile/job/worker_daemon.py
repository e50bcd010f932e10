"""The process from which Spark forks its Python workers; it imports what tasks need once, before the first fork.

Spark starts it instead of its own (``spark.python.daemon.module``). With its own, every worker imports NumPy and Arrow
for itself, and every task costs about 150 ms of CPU time besides its work: PySpark invalidates the import caches, for
which Python reads the directory of pyspark.zip again for each package in it, and collects garbage among all modules.
"""

import gc
from zipimport import zipimporter

from pyspark import daemon

from spark_reconcile.job import tasks  # noqa: F401  # for the workers


def _unchanged(self: zipimporter) -> None:
    """Keep the directory of an archive: pyspark.zip does not change while Spark runs."""


def main() -> None:
    """Fork workers until Spark closes stdin."""
    zipimporter.invalidate_caches = _unchanged  # type: ignore[method-assign]
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
