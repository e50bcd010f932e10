"""Alerts about a cluster that takes no writes, or hides those that it acknowledged.

One that answers nothing at all is ``blind``. A rack, a broker or a partition alone that acknowledges nothing has an
alert of its own, and Alertmanager keeps those within it back (deploy/alertmanager.yml). They have a hold longer than a
canary that was frozen (SIGSTOP, a suspended machine) takes to receive the answers that came meanwhile.
"""

from dashboards.boards.queries import gauge, rate
from dashboards.rules.rule import PLANNED, SILENCE, Rule, broker_in
from dashboards.rules.thresholds import UNSEEN_S, UNWRITABLE_S

_WAITING = "canary_unacknowledged_seconds"
_HOLD = "15s"
_LED = gauge(_WAITING, 'leader!="none"')
_WAITED = f"min by (cluster, leader) ({_LED})"
_LEADER = f"{_WAITED} > {UNWRITABLE_S}"
_RACKS = (
    "topk by (cluster, leader) (1, label_replace("
    + gauge("canary_broker_info", 'rack!=""')
    + (', "leader", "$1", "broker", "(.*)"))')
)
"""One rack of each leader, also while two replicas of the API differ."""
_OF_RACK = f"{_WAITED} * on (cluster, leader) group_left (rack) {_RACKS}"
_SILENT = gauge("canary_violations_open", 'kind="blind", severity="critical"')
_BLIND = f"max by (cluster) ({_SILENT}) > 0"
_UNLESS = f"unless on (cluster) ({_BLIND}) unless on (cluster) {PLANNED}"

WRITES = (
    Rule(
        name="CanaryNothingAcknowledged",
        notify="incident (`unwritable`, `blind` or `offline-partition`)",
        class_="unavailability",
        expression=f"(sum by (cluster) ({rate('canary_probes_acked_total', window='5m')}) == 0)"
        f" and on (cluster) ({SILENCE} < 60) unless on (cluster) {PLANNED}",
        hold="5m",
        keep="5m",
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
        name="CanaryRackUnwritable",
        notify="incident (`unwritable`)",
        class_="unavailability",
        expression=f"(min by (cluster, rack) ({_OF_RACK}) > {UNWRITABLE_S} "
        f"and count by (cluster, rack) ({_OF_RACK}) > 1) {_UNLESS}",
        hold=_HOLD,
        keep="5m",
        severity="critical",
        summary="Rack {{ $labels.rack }} of {{ $labels.cluster }} takes no writes",
        meaning="None of the brokers of the rack that lead probe partitions, which are two or more, has acknowledged "
        "anything that was sent to it for a minute.",
        now="Rack {{ $labels.rack }} of {{ $labels.cluster }}, for {{ $value | humanizeDuration }}.",
        advice=(
            "See what the brokers of the rack have in common: power, switch, availability zone, storage.",
            "See whether they still lead: brokers that the controller has expelled do not, and then writes go on.",
            "Do not elect uncleanly: what the rack has acknowledged may be on its disks alone.",
        ),
    ),
    Rule(
        name="CanaryLeaderUnwritable",
        notify="incident (`unwritable`)",
        class_="unavailability",
        expression=f"({_LEADER}) {_UNLESS}",
        hold=_HOLD,
        keep="5m",
        severity="critical",
        summary="Broker {{ $labels.leader }} of {{ $labels.cluster }} takes no writes",
        meaning="No probe partition that the broker leads has acknowledged anything that was sent to it for a minute.",
        now="Broker {{ $labels.leader }} of {{ $labels.cluster }}, for {{ $value | humanizeDuration }}.",
        advice=(
            "See whether the broker answers its clients: its disks, its network, its request queue.",
            "See whether its partitions have enough in-sync replicas (min.insync.replicas).",
        ),
        labels=broker_in("leader"),
    ),
    Rule(
        name="CanaryPartitionUnwritable",
        notify="incident (`unwritable`)",
        class_="unavailability",
        expression=f"(max by (cluster, topic, partition, leader) ({gauge(_WAITING)}) > {UNWRITABLE_S}) "
        f"unless on (cluster, leader) ({_LEADER}) {_UNLESS}",
        hold=_HOLD,
        keep="5m",
        severity="critical",
        summary="{{ $labels.topic }}-{{ $labels.partition }} of {{ $labels.cluster }} takes no writes",
        meaning="The partition has acknowledged nothing that was sent to it for a minute; others have.",
        now="{{ $labels.topic }}-{{ $labels.partition }} in {{ $labels.cluster }}, led by {{ $labels.leader }}, for "
        "{{ $value | humanizeDuration }}.",
        advice=(
            "See whether it has a leader and enough in-sync replicas (min.insync.replicas).",
            "See the runner's log for the client's error: ACLs, quota, record size.",
        ),
        labels=broker_in("leader"),
    ),
    Rule(
        name="CanaryUnseenGrowing",
        notify="incident (`stalled`)",
        expression=f"max by (cluster, topic, partition, consumer) ({gauge('canary_unseen_oldest_seconds')}) "
        f"> {UNSEEN_S}",
        hold="2m",
        keep="5m",
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
