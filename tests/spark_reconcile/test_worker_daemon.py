"""What Spark's Python workers are forked from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_a_task_costs_no_import_no_look_into_archives_and_no_search_for_garbage(spark: SparkSession) -> None:
    def seen(_: int) -> tuple[bool, int, str]:
        import gc  # noqa: PLC0415  # in the worker
        import sys  # noqa: PLC0415
        import zipimport  # noqa: PLC0415

        forget = zipimport.zipimporter.invalidate_caches
        return "spark_reconcile.job.tasks" in sys.modules, gc.get_freeze_count(), forget.__module__

    ((imported, frozen, forget),) = spark.sparkContext.parallelize([0], 1).map(seen).collect()
    assert imported
    assert frozen > 10_000
    assert forget != "zipimport"
