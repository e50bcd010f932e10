#!/bin/sh
# "executor" is what Spark on Kubernetes asks a pod of its own to be; anything else is arguments of canary.
set -eu
if [ "${1:-}" != executor ]; then
    exec canary "$@"
fi
# Spark hands Java's options over as SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, …
set --
while option=$(printenv "SPARK_JAVA_OPT_$#"); do
    set -- "$@" "$option"
done
exec java "$@" -Xms"$SPARK_EXECUTOR_MEMORY" -Xmx"$SPARK_EXECUTOR_MEMORY" -cp "$SPARK_HOME/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
