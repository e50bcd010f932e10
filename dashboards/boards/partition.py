"""One partition, or a few: its log, its replicas, its readers, in detail."""

from dashboards.boards.board import NUMBER, ONE_CLUSTER, PARTITION, TOPIC, Panels, board, to_page
from dashboards.boards.panels import PER_INTERVAL, describe, legend, lines, median_and_worst, outcomes, trend
from dashboards.boards.queries import gauge, increase, quantile
from dashboards.rules.thresholds import SCRUBBED_S, UNSEEN_S

UID = "kafka-durability-partition"
_ACKNOWLEDGED = "canary_last_acknowledged_timestamp_seconds"
_PLACE = "topic, partition"
_READER = "topic, partition, consumer"


def dashboard() -> str:
    """Return the dashboard as Grafana's JSON."""
    return board(
        UID,
        "Kafka durability: partition",
        "One partition, or a few: the log, the replicas, the readers.",
        variables=[ONE_CLUSTER, TOPIC, NUMBER],
        sections=[("The log", _log()), ("Its replicas", _replicas()), ("Its readers", _readers())],
        back="1h",
    )


def _log() -> Panels:
    where, by = PARTITION, _PLACE
    return [
        lines(
            "First and end offset",
            describe("canary_log_end_offset", "It must never go back; the first offset follows retention."),
            [
                (gauge("canary_log_end_offset", where), f"{legend(by)} end"),
                (gauge("canary_log_start_offset", where), f"{legend(by)} start"),
            ],
            floor=None,
        ).links([to_page("Violations here", "/api/v1/violations?cluster=${cluster}&topic=${topic}")]),
        outcomes(where),
        trend("Ends that went back", "canary_offset_regressions_total", where, "In each interval.", by=by),
        median_and_worst("Acknowledged within", "canary_produce_latency_seconds", where, by),
        lines(
            "Last acknowledgement",
            describe(_ACKNOWLEDGED, "How long ago; a mode that writes rarely is acknowledged as rarely."),
            [(f"time() - ({gauge(_ACKNOWLEDGED, where)} > 0)", legend(by))],
            unit="s",
        ),
    ]


def _replicas() -> Panels:
    where, by = PARTITION, _PLACE
    alone = "One alone is one failure away from a loss."
    return [
        trend("In-sync replicas", "canary_partition_isr", where, alone, by=by, w=8),
        trend("Under min.insync.replicas", "canary_partition_under_min_isr", where, by=by, w=8),
        lines(
            "Leader epoch and unclean elections",
            "Each step of the epoch is an election; unclean ones, in each interval, lose what the new leader has not.",
            [
                (gauge("canary_leader_epoch", where), f"{legend(by)} epoch"),
                (increase("canary_unclean_elections_total", where, PER_INTERVAL), f"{legend(by)} unclean"),
            ],
            w=8,
            floor=None,
        ),
    ]


def _readers() -> Panels:
    where, by = PARTITION, _READER
    latency = "canary_end_to_end_latency_seconds"
    return [
        trend("Position", "canary_consumer_position", where, by=by, w=8, floor=None),
        trend("Unseen probes", "canary_unseen_probes", where, by=by, w=8),
        trend(
            "Age of the oldest unseen probe",
            "canary_unseen_oldest_seconds",
            where,
            by=by,
            w=8,
            limits=[(UNSEEN_S, "orange")],
        ),
        trend("Stalled", "canary_consumer_stalled", where, by=by),
        lines(
            "Readable within",
            describe(latency, "The 99th percentile."),
            [(quantile(0.99, latency, where, by), legend(by))],
            unit="s",
        ),
        trend("Scrubber: how far", "canary_scrub_position_ratio", where, by=_PLACE),
        trend(
            "Scrubber: last finished",
            "canary_scrub_age_seconds",
            where,
            "How long ago.",
            by=_PLACE,
            limits=[(SCRUBBED_S, "orange")],
        ),
    ]
