#!/bin/sh
# A reconciliation on a standalone cluster: MASTER=spark://host:7077 deploy/spark/standalone.sh PROBE_LOG DUMP OUT
# The three are folders that every worker sees, or URLs (s3://…). On each worker the canary is installed at $PYTHON
# with the extra spark (and s3 for such URLs).
set -eu
: "${MASTER:?spark://host:7077}" "${PYTHON:=/opt/canary/bin/python}"
exec spark-submit --master "$MASTER" --deploy-mode client \
    --conf spark.pyspark.python="$PYTHON" --conf spark.pyspark.driver.python="$PYTHON" \
    --driver-memory 1g --executor-memory 1g --conf spark.executor.cores=1 \
    "$(dirname "$0")/canary_job.py" reconcile --probe-log "$1" --dump "$2" --out "$3"
