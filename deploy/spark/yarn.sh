#!/bin/sh
# A reconciliation on YARN: deploy/spark/yarn.sh PROBE_LOG DUMP OUT, all of them URLs (hdfs://…, s3://…).
# $ARCHIVE is a packed environment: pip install 'kafka-durability-canary[spark,s3]' venv-pack; venv-pack -o canary.tar.gz
set -eu
: "${ARCHIVE:=canary.tar.gz}" "${EXECUTORS:=4}"
exec spark-submit --master yarn --deploy-mode cluster \
    --archives "$ARCHIVE#canary" \
    --conf spark.pyspark.python=./canary/bin/python \
    --conf spark.yarn.appMasterEnv.PYSPARK_PYTHON=./canary/bin/python \
    --conf spark.yarn.appMasterEnv.CANARY_CACHE=./cache \
    --num-executors "$EXECUTORS" --executor-cores 1 \
    --driver-memory 1g --executor-memory 1g --conf spark.executor.memoryOverhead=1g \
    "$(dirname "$0")/canary_job.py" reconcile --probe-log "$1" --dump "$2" --out "$3"
