"""Objectives: is each met, how much of its error budget is left, how fast it goes; and how sure durability is."""

from canary.metrics.objectives import WINDOWS
from dashboards.boards.board import CLUSTER, Panels, board, to_page
from dashboards.boards.panels import RED_FROM_ONE, describe, level, lines, rows, states, words
from dashboards.boards.queries import HERE, gauge
from dashboards.rules.objectives import BURN, ERRORS, KNOWN, SPENT, days
from dashboards.rules.thresholds import FAST, SLOW, STEADY

UID = "kafka-durability-objectives"
_WHOLE = f'{HERE}, topic=""'
_TOPICS = f'{HERE}, topic!=""'
_NAMES = "{{cluster}} {{objective}}"
_OF_TOPIC = "{{topic}} {{objective}}"
_TARGETS = f"max by (cluster, objective) ({gauge('canary_objective_target_ratio', HERE)})"
_EXPLAINED = """No acknowledged write may be lost: that objective has no budget. *Verified* writes were certainly read
back; of them, with 95 % confidence, at most the share shown is lost. That holds for losses that come one by one. They
come in blocks, when leaders change: see how many faults the probes have lived through on the status page."""
_STEPS = [(STEADY, "yellow"), (SLOW, "orange"), (FAST, "red")]


def dashboard() -> str:
    """Return the dashboard as Grafana's JSON."""
    return board(
        UID,
        "Kafka durability: objectives",
        "Is each objective met, how much of its error budget is left, how fast it goes, and how sure durability is.",
        variables=[CLUSTER],
        sections=[
            ("Is each objective met?", _met()),
            ("No acknowledged write is lost", _durable()),
            ("How fast budgets go", _burning()),
            ("By topic", _topics()),
            ("What is asked for", _asked()),
        ],
        back="7d",
        folded=("By topic", "What is asked for"),
    )


def _met() -> Panels:
    unknown = "Unknown where there were no events for an hour: a cluster that does nothing meets nothing."
    spent = f"{SPENT}{{{_WHOLE}}}"
    now = f"{ERRORS}1h{{{_WHOLE}}}"
    return [
        states(
            "Objectives",
            f"By what is known of the window so far. {unknown}",
            f"(1 + (({spent} >= bool 1) and {now})) or on (cluster, objective) 0 * {_TARGETS}",
            _NAMES,
            [("unknown", "purple"), ("met so far", "green"), ("missed", "red")],
            w=24,
        ),
        lines(
            "Budget left",
            f"Of the bad events that the window allows: 1 is all of them, below 0 the objective is missed. {unknown}",
            [(f"1 - {spent}", _NAMES)],
            unit="percentunit",
            floor=None,
            limits=[(0, "red")],
        ),
        lines(
            "How much of the window is known",
            "Share of its hours in which there were events. Prometheus knows what it has kept: see its retention.",
            [(f"{KNOWN}{days(seconds)}{{{_WHOLE}}}", f"{_NAMES} {days(seconds)}") for seconds in WINDOWS],
            unit="percentunit",
        ),
    ]


def _durable() -> Panels:
    verified = "Without what no reader was given so far, and what expired before."
    lost = f'{HERE}, kind="lost-write"'
    return [
        words("How sure is that", "What the numbers below say, and what they do not.", _EXPLAINED),
        level("Verified writes", "canary_verified_writes", HERE, verified, w=8),
        level("Of them lost", "canary_violations_total", lost, "Ever, of every severity.", steps=RED_FROM_ONE, w=8),
        level(
            "At most this share is lost (95 %)",
            "canary_loss_rate_upper_bound",
            HERE,
            "The worst cluster's; no data: nothing is verified, and nothing is known.",
            total="max",
            unit="percentunit",
            w=8,
        ).links([to_page("What the probes have lived through", "/")]),
    ]


def _burning() -> Panels:
    pages = "The lines are those at which alerts fire: "
    return [
        lines(
            "Burn rate, 1 h and 5 min",
            f"1: the budget lasts for 30 days. {pages}CanaryBudgetBurnFast, when both are above.",
            [(f"{BURN}{window}{{{_WHOLE}}}", f"{_NAMES} {window}") for window in ("1h", "5m")],
            limits=[(FAST, "red")],
        ),
        lines(
            "Burn rate, 6 h and 30 min",
            f"1: the budget lasts for 30 days. {pages}CanaryBudgetBurnSlow, when both are above.",
            [(f"{BURN}{window}{{{_WHOLE}}}", f"{_NAMES} {window}") for window in ("6h", "30m")],
            limits=[(SLOW, "orange")],
        ),
        lines(
            "Burn rate, 3 d and 6 h",
            f"1: the budget lasts for 30 days. {pages}CanaryBudgetBurnSteady, when both are above.",
            [(f"{BURN}{window}{{{_WHOLE}}}", f"{_NAMES} {window}") for window in ("3d", "6h")],
            limits=[(STEADY, "yellow")],
        ),
        lines(
            "Bad events",
            "Share of all events, of the last hour and the last day.",
            [(f"{ERRORS}{window}{{{_WHOLE}}}", f"{_NAMES} {window}") for window in ("1h", "1d")],
            unit="percentunit",
        ),
    ]


def _topics() -> Panels:
    return [
        lines(
            "Burn rate by topic, 1 h",
            "1: the budget lasts for 30 days. A topic alone rings where its cluster as a whole does not.",
            [(f"{BURN}1h{{{_TOPICS}}}", _OF_TOPIC)],
            limits=_STEPS,
        ),
        lines(
            "Budget left by topic",
            "Of the bad events that the window allows of the topic's own.",
            [(f"1 - {SPENT}{{{_TOPICS}}}", _OF_TOPIC)],
            unit="percentunit",
            floor=None,
            limits=[(0, "red")],
        ),
    ]


def _asked() -> Panels:
    bound, window = "canary_objective_bound_seconds", "canary_objective_window_seconds"
    return [
        rows("Targets", describe("canary_objective_target_ratio"), _TARGETS, value=("target", "percentunit"), w=8),
        rows(
            "Bounds",
            describe(bound),
            f"max by (cluster, objective) ({gauge(bound, HERE)})",
            value=("within", "s"),
            w=8,
        ),
        rows("Windows", describe(window), f"max by (cluster) ({gauge(window, HERE)})", value=("window", "s"), w=8),
    ]
