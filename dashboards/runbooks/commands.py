"""The commands that several runbooks share: Kafka's own tools (as of 4.1), the API, and PromQL."""

from typing import Final

from dashboards.runbooks.runbook import Command


def _tool(words: str, shows: str = "") -> Command:
    """Return a call of one of Kafka's tools; its first option is the brokers' address."""
    script, _, rest = words.partition(" ")
    return Command(f"{script} --bootstrap-server $BOOTSTRAP {rest}", "tools", shows)


def get(path: str) -> Command:
    """Return a read from the API."""
    return Command(f'curl -sS "$CANARY/api/v1/{path}"', "api")


def post(path: str, body: str) -> Command:
    """Return a request that changes something; ``body`` is JSON."""
    return Command(f"curl -sS -X POST -H 'Content-Type: application/json' -d '{body}' \"$CANARY/api/v1/{path}\"", "api")


def query(expression: str) -> Command:
    """Return a query for Prometheus or Grafana."""
    return Command(expression, "prometheus")


_LOG: Final = '"$(ls {log_dir}/{topic}-{partition}/*.log | paste -sd,)"'
"""The segments of a partition, as kafka-dump-log.sh wants them."""

# The canary's own view.
FIRING: Final = query('ALERTS{alertname="{alert}",alertstate="firing"}')
OPEN: Final = query('canary_violations_open{cluster="{cluster}",kind="{kind}"} > 0')
ISR: Final = query('canary_partition_isr{cluster="{cluster}"}')
UNACKNOWLEDGED: Final = query(
    'max by (topic, partition, leader) (canary_unacknowledged_seconds{cluster="{cluster}"}) > 0'
)
LATE: Final = query('max by (topic, partition, consumer) (canary_unseen_oldest_seconds{cluster="{cluster}"}) > 10')
PRODUCE_P99: Final = query(
    "histogram_quantile(0.99, sum by (le, topic, partition) "
    '(rate(canary_produce_latency_seconds_bucket{cluster="{cluster}"}[5m])))'
)
READ_P99: Final = query(
    "histogram_quantile(0.99, sum by (le, topic, partition) "
    '(rate(canary_end_to_end_latency_seconds_bucket{cluster="{cluster}"}[5m])))'
)
ACKED_SHARE: Final = query(
    'sum by (topic, partition) (rate(canary_probes_acked_total{cluster="{cluster}"}[5m])) '
    '/ sum by (topic, partition) (rate(canary_probes_sent_total{cluster="{cluster}"}[5m]))'
)
HEARTBEAT: Final = query("time() - max by (cluster, runner) (canary_runner_heartbeat_timestamp_seconds)")
FAILING: Final = query("max by (cluster, part) (canary_part_failing) > 0")
ALL_FIRING: Final = query('ALERTS{service="kafka-durability-canary",alertstate="firing"}')
ALL_OPEN: Final = query('canary_violations_open{cluster="{cluster}"} > 0')
LEDGER_PENDING: Final = query("canary_ledger_pending_rows > 0")
LEDGER_ERRORS: Final = query("increase(canary_ledger_errors_total[1h]) > 0")
FORGOTTEN: Final = get("violations?kind=memory-lost&state=open")
SHARDS: Final = query("canary_shards_missing > 0")
SERVED: Final = query("canary_api_cluster_store_up")
EXPIRY: Final = query(
    "(canary_certificate_expiry_timestamp_seconds or canary_api_certificate_expiry_timestamp_seconds) - time()"
)
RECONCILED: Final = query('time() - canary_reconcile_last_success_timestamp_seconds{cluster="{cluster}"}')
SCRUB: Final = query('canary_scrub_age_seconds{cluster="{cluster}"}')
UNVERIFIED: Final = query('increase(canary_unverified_expired_total{cluster="{cluster}"}[1d]) > 0')
WITHOUT_PROBE: Final = query('canary_brokers_without_probe{cluster="{cluster}"}')
MIRRORS: Final = get("mirrors?cluster={cluster}")
RECOVERY_POINT: Final = query('max by (source, topic) (canary_mirror_recovery_point_seconds{cluster="{cluster}"})')
FINDINGS: Final = get("audit?cluster={cluster}")
DRILLS: Final = get("drills")
VIOLATIONS: Final = get("violations?cluster={cluster}&kind={kind}&state=open")
VIOLATION: Final = get("violations/{violation}")
EXPOSURE: Final = get("violations/{violation}/exposure")
PROBE_LOG: Final = get("log?cluster={cluster}&topic={topic}&partition={partition}&from={offset}&limit=20")
TOPOLOGY: Final = get("topology?cluster={cluster}&subject=partition&topic={topic}&partition={partition}")
BROKERS: Final = get("topology?cluster={cluster}&subject=broker")
SUMMARY: Final = get("clusters/{cluster}/summary")
PARTITIONS: Final = get("clusters/{cluster}/partitions")
RECONCILIATIONS: Final = get("reconciliations?cluster={cluster}&limit=5")
RECONCILE: Final = post("reconciliations", '{"cluster": "{cluster}"}')
ACKNOWLEDGE: Final = post("incidents/{incident}/acknowledge", '{"note": "who works on it"}')
RESOLVE_LOST: Final = post(
    "incidents/{incident}/resolve", '{"reason": "lost", "note": "what was lost, what came back"}'
)
RESOLVE_FALSE: Final = post("incidents/{incident}/resolve", '{"reason": "false", "note": "why it is none"}')
EXPORT: Final = Command('curl -sS -o history.jsonl "$CANARY/api/v1/violations/{violation}/export?format=jsonl"', "api")
CHECK: Final = Command("canary check history.jsonl --no-ww-deps", "canary")
READY: Final = Command('curl -sS "$CANARY/readyz"', "api")
AUDIT: Final = Command("canary audit", "canary")
SMOKE: Final = Command("canary smoke --for 30s", "canary")
CONFIG_CHECK: Final = Command("canary config check", "canary")
STORE_CHECK: Final = Command("canary db current", "canary")
TOPICS_PLAN: Final = Command("canary topics plan", "canary")
TOPICS_APPLY: Final = Command("canary topics apply", "canary")
ALERT_TEST: Final = Command("canary alert test --cluster {cluster} --for 300", "canary")
DRILL: Final = Command("canary drill run duplicate --cluster {cluster}", "canary")
DUMP_TOPICS: Final = Command("canary dump --cluster {cluster} --out {keep}/dump", "canary")
RECONCILE_BY_HAND: Final = Command(
    "canary reconcile --probe-log var/canary/probe-log --dump {keep}/dump --out {keep}/reconciled", "canary"
)
DISKS_CANARY: Final = Command("df -h && iostat -x 1 3", "canary")
CERTIFICATE: Final = Command("openssl x509 -noout -subject -enddate -in client.crt", "canary")

# Partitions, brokers and controllers.
DESCRIBE: Final = _tool("kafka-topics.sh --describe --topic {topic}", "LastKnownElr")
UNAVAILABLE: Final = _tool("kafka-topics.sh --describe --unavailable-partitions", "Leader: none")
UNDER_MIN_ISR: Final = _tool("kafka-topics.sh --describe --under-min-isr-partitions", "Isr:")
AT_MIN_ISR: Final = _tool("kafka-topics.sh --describe --at-min-isr-partitions", "Isr:")
UNDER_REPLICATED: Final = _tool("kafka-topics.sh --describe --under-replicated-partitions", "Isr:")
OVERRIDES: Final = _tool("kafka-topics.sh --describe --topics-with-overrides", "Configs:")
QUORUM: Final = _tool("kafka-metadata-quorum.sh describe --status", "LeaderId:")
QUORUM_LAG: Final = _tool("kafka-metadata-quorum.sh describe --replication --human-readable", "LastCaughtUpTimestamp")
ANSWERING: Final = _tool("kafka-broker-api-versions.sh | grep 'id: '", "id: 1")
LED_BY: Final = _tool("kafka-topics.sh --describe | grep 'Leader: {broker}[^0-9]'", "Leader: ")
REASSIGNMENTS: Final = _tool("kafka-reassign-partitions.sh --list", "reassignments")
LOG_DIRS: Final = _tool("kafka-log-dirs.sh --describe --topic-list {topic}", "logDir")
FIRST_OFFSET: Final = _tool(
    "kafka-get-offsets.sh --topic-partitions {topic}:{partition} --time earliest", "{topic}:{partition}:"
)
END_OFFSET: Final = _tool(
    "kafka-get-offsets.sh --topic-partitions {topic}:{partition} --time latest", "{topic}:{partition}:"
)
SETTINGS: Final = _tool(
    "kafka-configs.sh --describe --all --entity-type topics --entity-name {topic} "
    "| grep -E 'insync|unclean|retention|cleanup|timestamp'",
    "min.insync.replicas",
)
BROKER_SETTINGS: Final = _tool(
    "kafka-configs.sh --describe --all --entity-type brokers --entity-name {broker} | grep -E "
    "'throttled|unclean|insync'",
    "unclean.leader.election.enable",
)
READ: Final = _tool(
    "kafka-console-consumer.sh --topic {topic} --partition {partition} --offset {offset} --max-messages 3 "
    "--timeout-ms 10000 --property print.offset=true --property print.timestamp=true --property print.key=true",
    "Offset:",
)

# What changes something in the cluster.
UNCLEAN_OFF: Final = _tool(
    "kafka-configs.sh --alter --entity-type brokers --entity-default --add-config unclean.leader.election.enable=false",
    "Completed updating",
)
UNCLEAN_OFF_TOPIC: Final = _tool(
    "kafka-configs.sh --alter --entity-type topics --entity-name {topic} "
    "--add-config unclean.leader.election.enable=false",
    "Completed updating",
)
MIN_ISR_2: Final = _tool(
    "kafka-configs.sh --alter --entity-type topics --entity-name {topic} --add-config min.insync.replicas=2",
    "Completed updating",
)
KEEP_ALL_RECORDS: Final = _tool(
    "kafka-configs.sh --alter --entity-type topics --entity-name {topic} "
    "--add-config retention.ms=-1,retention.bytes=-1",
    "Completed updating",
)
ELECT_PREFERRED: Final = _tool(
    "kafka-leader-election.sh --election-type preferred --topic {topic} --partition {partition}", "{topic}-{partition}"
)
ELECT_UNCLEAN: Final = _tool(
    "kafka-leader-election.sh --election-type unclean --topic {topic} --partition {partition}", "{topic}-{partition}"
)

# On a broker's disk.
KEEP_PARTITION: Final = Command(
    "cp -a {log_dir}/{topic}-{partition} {keep}/ && ls {keep}/{topic}-{partition}", "broker", "leader-epoch-checkpoint"
)
KEEP_SET_ASIDE: Final = Command("cp -a {log_dir}/{topic}-{partition}.*-stray {keep}/{topic}-{partition}", "broker")
KEEP_BROKER: Final = Command(
    "tar -C {log_dir} -cf {keep}/broker-{broker}.tar . && tar -tf {keep}/broker-{broker}.tar | grep meta.properties",
    "broker",
    "meta.properties",
)
DUMP: Final = Command(
    f"kafka-dump-log.sh --print-data-log --files {_LOG} | grep -E '[| ]offset: {{offset}} '", "broker", "offset: "
)
BATCHES: Final = Command(
    f"kafka-dump-log.sh --files {_LOG} | grep -oE '(baseOffset|lastOffset|producerId|baseSequence|partitionLeaderEpoch"
    "|crc): [-0-9]+' | paste - - - - - - > {keep}/{topic}-{partition}.{broker} && tail -3 "
    "{keep}/{topic}-{partition}.{broker}",
    "broker",
    "crc: ",
)
COMPARE: Final = Command("canary replicas compare {topic} --partition {partition}", "canary")
DIFF: Final = Command("diff {keep}/{topic}-{partition}.1 {keep}/{topic}-{partition}.2", "broker")
EPOCHS: Final = Command(
    "grep -H '' {log_dir}/{topic}-{partition}/leader-epoch-checkpoint", "broker", "leader-epoch-checkpoint:"
)
META: Final = Command("cat {log_dir}/meta.properties", "broker", "cluster.id=")
KERNEL: Final = Command("dmesg --ctime --level=err,warn | tail -50", "broker")
DISKS: Final = Command("df -h {log_dir} && iostat -x 1 3", "broker")
CLOCK: Final = Command("chronyc tracking", "broker")

# Transactions.
TRANSACTIONS: Final = _tool("kafka-transactions.sh list", "TransactionState")
TRANSACTION: Final = _tool(
    "kafka-transactions.sh describe --transactional-id {transactional_id}", "CurrentTransactionStartTimeMs"
)
PRODUCERS: Final = _tool(
    "kafka-transactions.sh describe-producers --topic {topic} --partition {partition}", "CurrentTransactionStartOffset"
)
HANGING: Final = _tool("kafka-transactions.sh find-hanging --topic {topic} --partition {partition}", "CoordinatorEpoch")
HANGING_BROKER: Final = _tool("kafka-transactions.sh find-hanging --broker-id {broker}", "CoordinatorEpoch")
ABORT: Final = Command(
    "kafka-transactions.sh --bootstrap-server $BOOTSTRAP abort --topic {topic} --partition {partition} "
    f"--start-offset {{offset}} && {PRODUCERS.text}",
    "tools",
    "CurrentTransactionStartOffset",
)
TERMINATE: Final = Command(
    "kafka-transactions.sh --bootstrap-server $BOOTSTRAP forceTerminateTransaction "
    f"--transactionalId {{transactional_id}} && {TRANSACTION.text}",
    "tools",
    "CurrentTransactionStartTimeMs",
)
FEATURES: Final = _tool("kafka-features.sh describe", "transaction.version")

# Consumer groups.
GROUP: Final = _tool("kafka-consumer-groups.sh --describe --group {group}", "LOG-END-OFFSET")
GROUP_MEMBERS: Final = _tool("kafka-consumer-groups.sh --describe --group {group} --state", "COORDINATOR")
GROUPS: Final = _tool("kafka-consumer-groups.sh --describe --all-groups", "LOG-END-OFFSET")
RESET_PLAN: Final = _tool(
    "kafka-consumer-groups.sh --group {group} --topic {topic}:{partition} --reset-offsets --to-offset {offset} "
    "--dry-run",
    "NEW-OFFSET",
)
RESET: Final = _tool(
    "kafka-consumer-groups.sh --group {group} --topic {topic}:{partition} --reset-offsets --to-offset {offset} "
    "--execute",
    "NEW-OFFSET",
)

# What a kept copy has, and the cluster does not.
SALVAGE_COUNT: Final = Command(
    "canary salvage --log-dir {keep} --epochs-from {cluster} --topic {topic} --dry-run", "canary"
)
SALVAGE: Final = Command(
    "canary salvage --log-dir {keep} --epochs-from {cluster} --topic {topic} --out {keep}/salvaged", "canary"
)
SALVAGE_ALL: Final = Command(
    "canary salvage --log-dir {keep} --epochs-from {cluster} --topic {topic} --any-topic-id --out {keep}/salvaged",
    "canary",
)
REPLAY: Final = Command("canary salvage replay {keep}/salvaged --to-topic {topic}.salvaged --create", "canary")

# A throwaway broker that serves what was kept.
RESCUE_UP: Final = Command("canary lab up --directory {keep}/lab --brokers 1", "canary", "127.0.0.1")
RESCUE_TOPIC: Final = Command(
    "RESCUE=$(canary lab status --directory {keep}/lab | sed -n s/^bootstrap.servers=//p) && kafka-topics.sh "
    "--bootstrap-server $RESCUE --create --topic rescued --partitions 1 --replication-factor 1 "
    "--config retention.ms=-1 --config retention.bytes=-1",
    "canary",
    "Created topic rescued",
)
RESCUE_FILL: Final = Command(
    "canary lab down --directory {keep}/lab && rm {keep}/lab/broker-1/data/rescued-0/0* "
    "&& cp {keep}/{topic}-{partition}/*.log {keep}/lab/broker-1/data/rescued-0/ && canary lab up --directory "
    "{keep}/lab",
    "canary",
    "127.0.0.1",
)
RESCUE_DOWN: Final = Command("canary lab down --directory {keep}/lab", "canary")
RESCUE_READ: Final = Command(
    "RESCUE=$(canary lab status --directory {keep}/lab | sed -n s/^bootstrap.servers=//p) && kafka-console-consumer.sh "
    "--bootstrap-server $RESCUE --topic rescued --partition 0 --offset {offset} --max-messages 20 --timeout-ms 10000 "
    "--property print.offset=true --property print.key=true",
    "canary",
    "Offset:",
)
