"""Alerts about who is slow, or out of reach: a leader, a coordinator, a broker; or all of them, which is said once.

Of two minutes one write in ten must be slow, for three minutes on end: an election, a pause for garbage or a rolling
restart holds back fewer, or for less long. A broker is slow beside others: while more than half of them are slow, it is
no broker's fault. All are warnings but for a coordinator that commits nothing at all.
"""

from collections.abc import Mapping

from api.knowledge.slowness import LEAST, REQUESTS, SHARE, SLOW_S, TIMES, WINDOW_S
from dashboards.boards.queries import buckets, gauge, increase, quantile, rate
from dashboards.rules.rule import PLANNED, Rule, broker_in

_WINDOW, _HOLD = f"{WINDOW_S // 60}m", "3m"
_LEADERS = quantile(SHARE, "canary_leader_produce_latency_seconds", "", "cluster, leader", _WINDOW)
_COMMITS = {
    of: quantile(SHARE, f"canary_{of}_commit_latency_seconds", "", "cluster, coordinator", _WINDOW)
    for of in ("group", "transaction")
}
_COUNT = buckets(REQUESTS, 'le="+Inf"', _WINDOW)
_ANSWERS = (
    f"({quantile(SHARE, REQUESTS, '', 'cluster, broker', _WINDOW)} and on (cluster, broker) sum by (cluster, broker) "
    f"({_COUNT}) >= {LEAST})"
)
_REACHED = gauge("canary_broker_reachable")
_UNPLANNED = f"unless on (cluster) {PLANNED}"


def _most(latencies: str) -> str:
    """Return the slowest of each cluster in which more than half are slow."""
    some = f"count by (cluster) ({latencies} > {SLOW_S}) > 0.5 * count by (cluster) ({latencies} >= 0)"
    return f"max by (cluster) ({latencies}) and on (cluster) ({some})"


def _few(latencies: str) -> str:
    """Return those that are slow while half of them or more are not."""
    others = f"{TIMES} * quantile by (cluster) (0.5, {latencies} <= {SLOW_S})"
    return f"({latencies} > {SLOW_S} > on (cluster) group_left () {others}) unless on (cluster) ({_most(latencies)})"


def _either(expressions: Mapping[str, str]) -> str:
    """Return all series of some expressions, with the label ``of`` that says of which."""
    return " or ".join(f'label_replace({one}, "of", "{of}", "", "")' for of, one in expressions.items())


def _silent(of: str) -> str:
    """Return the coordinators that were asked to commit and have committed nothing."""
    asked = increase(f"canary_{of}_commit_failures_total", "", _WINDOW)
    done = buckets(f"canary_{of}_commit_latency_seconds", 'le="+Inf"', _WINDOW)
    by = "sum by (cluster, coordinator)"
    return f"({by} ({asked}) > 0) unless on (cluster, coordinator) ({by} ({done}) > 0)"


_SLOW_BROKERS = f'max by (cluster, leader) (label_replace({_few(_ANSWERS)}, "leader", "$1", "broker", "(.*)"))'
"""Every leader waits for a slow follower: a broker's own answers say whose fault it is, wherever they say anything."""
_ALL_SLOW = f"({_most(_LEADERS)}) or ({_most(_COMMITS['transaction'])})"
_SLOW_COORDINATORS = _either({"group": f"{_COMMITS['group']} > {SLOW_S}", "transaction": _few(_COMMITS["transaction"])})
"""A group has one coordinator, which has none to be compared with."""
_SILENT_COORDINATORS = _either({of: _silent(of) for of in _COMMITS})
_DONE = f"sum by (cluster) ({rate('canary_probes_acked_total', window=_WINDOW)})"
_NEIGHBOURS = "Compare it with its neighbours: disks (latency, fill), CPU, network errors, garbage collection pauses."

_TREND = "no: it is a trend, which Prometheus alone keeps"

SLOWNESS = (
    Rule(
        name="CanaryLeaderSlow",
        notify=_TREND,
        expression=f"({_SLOW_BROKERS} or ({_few(_LEADERS)}) unless on (cluster) ({_SLOW_BROKERS})) {_UNPLANNED}",
        hold=_HOLD,
        summary="Broker {{ $labels.leader }} of {{ $labels.cluster }} is slow",
        meaning="Of the canary's requests to the broker (metadata, offsets), more than one in ten takes longer than "
        "half a second and four times as long as those to other brokers; or, where no broker's requests say so, of the "
        "writes to partitions that it leads.",
        now="One in ten takes longer than {{ $value | humanizeDuration }} at broker {{ $labels.leader }} of "
        "{{ $labels.cluster }}.",
        advice=(
            f"{_NEIGHBOURS} See its request queue and its handlers' idle ratio.",
            "An acknowledgement waits for every replica in sync: see which followers of its partitions fetch late.",
            "If it stays slow, let others lead: kafka-reassign-partitions.sh (another first replica), and an election.",
        ),
        labels=broker_in("leader"),
    ),
    Rule(
        name="CanaryClusterSlow",
        notify=_TREND,
        expression=f"(({_ALL_SLOW}) unless on (cluster) ({_SLOW_BROKERS})) {_UNPLANNED}",
        hold=_HOLD,
        summary="{{ $labels.cluster }} is slow",
        meaning="More than half of the leaders take longer than half a second for one write in ten, or more than half "
        "of the transaction coordinators for one commit in ten. No broker is named: none "
        "answers the canary's requests slower than the others, so they have a cause in common.",
        now="At the slowest of {{ $labels.cluster }} one in ten takes longer than {{ $value | humanizeDuration }}.",
        advice=(
            "If one leader alone is not slow, see whether it fetches slowly as a follower: the others wait for it.",
            "See what changed for all: network, storage, a rollout, quotas, a client that sends much more.",
            "See whether the canary itself is slow: its CPU, and the way from it to the cluster.",
        ),
    ),
    Rule(
        name="CanaryCoordinatorSlow",
        notify=_TREND,
        expression=f"({_SLOW_COORDINATORS}) unless on (cluster) ({_ALL_SLOW}) {_UNPLANNED}",
        hold=_HOLD,
        summary="Coordinator {{ $labels.coordinator }} of {{ $labels.cluster }} is slow",
        meaning="Of the commits that the broker does as a coordinator, of a group's offsets or of transactions (label "
        "of), more than one in ten takes longer than half a second; most leaders of the cluster are not slow.",
        now="One {{ $labels.of }} commit in ten takes longer than {{ $value | humanizeDuration }} at broker "
        "{{ $labels.coordinator }} of {{ $labels.cluster }}.",
        advice=(
            _NEIGHBOURS,
            "It writes to __consumer_offsets or __transaction_state with acks=all: see which replicas of it are late.",
            "See what it coordinates: kafka-consumer-groups.sh --describe --state, kafka-transactions.sh list.",
        ),
        labels=broker_in("coordinator"),
    ),
    Rule(
        name="CanaryCoordinatorUnavailable",
        notify="incident (`unwritable`, of transactional modes)",
        class_="unavailability",
        expression=f"({_SILENT_COORDINATORS}) and on (cluster) ({_DONE} > 0) {_UNPLANNED}",
        hold=_HOLD,
        severity="critical",
        summary="Coordinator {{ $labels.coordinator }} of {{ $labels.cluster }} commits nothing",
        meaning="The broker, as the coordinator of a group or of transactions (label of), has done no commit for two "
        "minutes though it was asked to. Writes outside transactions go on.",
        now="{{ $value | humanize }} {{ $labels.of }} commits failed within two minutes at broker "
        "{{ $labels.coordinator }} of {{ $labels.cluster }}.",
        advice=(
            "See whether __consumer_offsets and __transaction_state are in sync: kafka-topics.sh --describe.",
            "See the runner's log for the client's error: ACLs of the group or the transactional id, no coordinator.",
            "A coordinator that hangs gives way when its broker is restarted; nothing that was committed is lost.",
        ),
        labels=broker_in("coordinator"),
    ),
    Rule(
        name="CanaryBrokerUnreachable",
        notify="incident (`unwritable`), if it leads probe partitions",
        expression=f"(min by (cluster, broker) ({_REACHED}) == 0 and on (cluster) max by (cluster) ({_REACHED}) == 1) "
        f"{_UNPLANNED}",
        hold="2m",
        summary="Broker {{ $labels.broker }} of {{ $labels.cluster }} is live and cannot be reached",
        meaning="The cluster counts the broker among its live ones, and the canary gets no connection or no answer "
        "from it, though it reaches others. Clients on the same side of the network have the same trouble.",
        now="Broker {{ $labels.broker }} of {{ $labels.cluster }}.",
        advice=(
            "See the way from here to there: DNS name and port as advertised, firewall, security group, certificate.",
            "See whether it accepts connections at all: its limit of them, its network threads, whether it hangs.",
            "Whatever it leads takes no writes from clients that do not reach it: move its leaders off if it lasts.",
        ),
        labels={"rack": broker_in("broker")["rack"]},
    ),
)
