"""Alerts about a cluster that takes no writes, or hides those that it acknowledged.

One that answers nothing at all is ``blind``. A broker or a partition alone that acknowledges nothing has an alert of
its own, with a hold longer than a canary that was frozen (SIGSTOP, a suspended machine) takes to receive the answers
that came meanwhile.
"""

from dashboards.boards.queries import gauge, rate
from dashboards.rules.rule import PLANNED, SILENCE, Rule

_WAITING = "canary_unacknowledged_seconds"
_LONGEST_S = 60
_HOLD = "15s"
_LED = gauge(_WAITING, 'leader!="none"')
_LEADER = f"min by (cluster, leader) ({_LED}) > {_LONGEST_S}"
_SILENT = gauge("canary_violations_open", 'kind="blind", severity="critical"')
_BLIND = f"max by (cluster) ({_SILENT}) > 0"
_UNLESS = f"unless on (cluster) ({_BLIND}) unless on (cluster) {PLANNED}"

WRITES = (
    Rule(
        name="CanaryNothingAcknowledged",
        expression=f"(sum by (cluster) ({rate('canary_probes_acked_total', window='5m')}) == 0)"
        f" and on (cluster) ({SILENCE} < 60) unless on (cluster) {PLANNED}",
        hold="5m",
        severity="critical",
        summary="{{ $labels.cluster }} acknowledges no probe",
        meaning="The canary runs, but the cluster has acknowledged nothing for five minutes: it is not available to "
        "writers.",
        now="Cluster {{ $labels.cluster }}.",
        advice=(
            "See the runner's log for the client's error: authentication, ACLs, quota, no route, no leader.",
            "See whether other producers have the same trouble.",
        ),
    ),
    Rule(
        name="CanaryLeaderUnwritable",
        expression=f"({_LEADER}) {_UNLESS}",
        hold=_HOLD,
        severity="critical",
        summary="Broker {{ $labels.leader }} of {{ $labels.cluster }} takes no writes",
        meaning="No probe partition that the broker leads has acknowledged anything that was sent to it for a minute.",
        now="Broker {{ $labels.leader }} of {{ $labels.cluster }}, for {{ $value | humanizeDuration }}.",
        advice=(
            "See whether the broker answers its clients: its disks, its network, its request queue.",
            "See whether its partitions have enough in-sync replicas (min.insync.replicas).",
        ),
    ),
    Rule(
        name="CanaryPartitionUnwritable",
        expression=f"(max by (cluster, topic, partition, leader) ({gauge(_WAITING)}) > {_LONGEST_S}) "
        f"unless on (cluster, leader) ({_LEADER}) {_UNLESS}",
        hold=_HOLD,
        severity="critical",
        summary="{{ $labels.topic }}-{{ $labels.partition }} of {{ $labels.cluster }} takes no writes",
        meaning="The partition has acknowledged nothing that was sent to it for a minute; others have.",
        now="{{ $labels.topic }}-{{ $labels.partition }} in {{ $labels.cluster }}, led by {{ $labels.leader }}, for "
        "{{ $value | humanizeDuration }}.",
        advice=(
            "See whether it has a leader and enough in-sync replicas (min.insync.replicas).",
            "See the runner's log for the client's error: ACLs, quota, record size.",
        ),
    ),
    Rule(
        name="CanaryUnseenGrowing",
        expression=f"max by (cluster, topic, partition, consumer) ({gauge('canary_unseen_oldest_seconds')}) > 60",
        hold="2m",
        summary="Acknowledged probes of {{ $labels.cluster }} are not readable",
        meaning="An acknowledged probe is late: the consumer has not read it yet.",
        now="{{ $labels.consumer }} of {{ $labels.topic }}-{{ $labels.partition }} in {{ $labels.cluster }} "
        "waits for {{ $value | humanizeDuration }}.",
        advice=(
            "Late is not lost. See whether the partition has a leader and whether other consumers lag too.",
            "If only read_committed is late, a transaction hangs: kafka-transactions.sh find-hanging.",
        ),
    ),
)
