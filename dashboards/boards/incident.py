"""An incident: what is open, when it was found, and what the cluster did around that time."""

from dashboards.boards.board import CRITICAL, ONE_CLUSTER, Panels, board, to_page
from dashboards.boards.panels import OUTCOMES, PER_INTERVAL, RED_FROM_ONE, describe, lines, number, rows, trend, words
from dashboards.boards.queries import BEGAN, HEARTBEAT, HERE, gauge, increase

UID = "kafka-durability-incident"
INFO = "canary_incident_info"
STEPS = """**1.** Open the incident's page: it has the evidence, what else was exposed, and what to do first.
**2.** Do not restart, reassign or clean up anything before you have read it: copies may survive on brokers that left.
**3.** Acknowledge it there, so that others know; resolve it with a reason when it is dealt with."""


def dashboard() -> str:
    """Return the dashboard as Grafana's JSON."""
    return board(
        UID,
        "Kafka durability: incident",
        "What is open, when it was found, and what the cluster did around that time.",
        variables=[ONE_CLUSTER],
        sections=[("What is open", _open()), ("Around it", _around())],
        back="1h",
    )


def _open() -> Panels:
    by_kind = "In each interval, by kind; the first cause comes first."
    return [
        words("What to do", "The order in which to go about it.", STEPS),
        number(
            "Incidents",
            describe(BEGAN, "How many."),
            f"count({gauge(BEGAN, HERE)}) or 0 * max({gauge(HEARTBEAT, HERE)})",
            steps=RED_FROM_ONE,
        ),
        number(
            "Critical violations open",
            describe("canary_violations_open", "Neither acknowledged nor resolved."),
            f"sum({gauge('canary_violations_open', CRITICAL)})",
            steps=RED_FROM_ONE,
        ),
        rows(
            "Incidents that are not resolved",
            describe(BEGAN, "Each leads to its page, with timeline, evidence and exposure."),
            f"{gauge(BEGAN, HERE)} * 1000",
            w=16,
            hidden=("cluster",),
            value=("began", "dateTimeAsIso"),
            none=gauge(HEARTBEAT, HERE),
            links={"incident": ("The incident's page", "${canary}/incidents/${__value.raw}")},
        ).height(5),
        rows(
            "What they are about",
            describe(INFO, "In words, by class: data, blindness, unavailability, warning."),
            f"{gauge(INFO, HERE)} > 0",
            w=24,
            hidden=("cluster", "Value"),
            none=gauge(HEARTBEAT, HERE),
            links={"incident": ("The incident's page", "${canary}/incidents/${__value.raw}")},
        ).height(5),
        trend("New violations", "canary_violations_total", HERE, by_kind, by="kind", total="sum", above="> 0").links(
            [to_page("Incidents of this cluster", "/incidents?cluster=${cluster}")]
        ),
        trend("Open violations", "canary_violations_open", HERE, "By kind.", by="kind", total="sum", above="> 0"),
    ]


def _around() -> Panels:
    place, reader = "topic, partition", "topic, partition, consumer"
    missing = "Which replicas were missing when it happened."
    dropped = "They become violations or are dropped."
    return [
        trend("In-sync replicas", "canary_partition_isr", HERE, missing, by=place, floor=None),
        trend("Leader epoch", "canary_leader_epoch", HERE, "Each step is an election.", by=place, floor=None),
        trend("End of each log", "canary_log_end_offset", HERE, "A step down is a loss.", by=place, floor=None),
        trend("Unseen probes", "canary_unseen_probes", HERE, "What readers had not received.", by=reader, floor=None),
        lines(
            "Outcomes of probes",
            "In each interval: the outcomes that producers got around that time.",
            [(f"sum ({increase(f'canary_probes_{one}_total', HERE, PER_INTERVAL)})", one) for one in OUTCOMES[1:]],
        ),
        trend("Suspicions", "canary_suspects", HERE, dropped, by="kind", total="sum"),
    ]
