#!/bin/sh
# A reconciliation on YARN, its driver there, too: deploy/spark/yarn.sh PROBE_LOG DUMP OUT, all of them URLs
# (webhdfs://namenode:9870/…, s3://…). $ARCHIVE is a packed environment, without Spark, which YARN brings:
#   python3 -m venv env && env/bin/pip install 'kafka-durability-canary[spark,hdfs,s3]' venv-pack
#   env/bin/venv-pack --prefix env --exclude '*/site-packages/pyspark/*' --output canary.tar.gz
# It has links to the Python it was made with, which must be at the same path on every node.
# YARN knows success and failure only: the exit status is 1 for all but 0, and summary.json says what was found.
set -eu
: "${ARCHIVE:=canary.tar.gz}" "${EXECUTORS:=4}"
exec spark-submit --master yarn --deploy-mode cluster \
    --archives "$ARCHIVE#canary" --conf spark.pyspark.python=./canary/bin/python \
    --num-executors "$EXECUTORS" --executor-cores 1 \
    --driver-memory 1g --executor-memory 512m --conf spark.executor.memoryOverhead=1g \
    --conf spark.yarn.maxAppAttempts=1 \
    "$(dirname "$0")/canary_job.py" reconcile --probe-log "$1" --dump "$2" --out "$3"
