"""The side of Spark, in a process of its own."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from spark_reconcile.job import driver
from spark_reconcile.job.inputs import look
from spark_reconcile.job.session import session

if __name__ == "__main__":
    folder = Path(sys.argv[-1])
    if "--session-only" in sys.argv:
        with session("benchmark", light=True) as spark:
            spark.sparkContext.parallelize([1, 2], 2).map(str).collect()
        sys.stdout.write("{}\n")
    else:
        inputs = look(str(folder / "log"), str(folder / "dump"))
        with session("benchmark", light=True) as spark:
            report = driver.run(spark, inputs, str(folder / "out"))
        sys.stdout.write(json.dumps(report.summary) + "\n")
