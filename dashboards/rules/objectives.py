"""Objectives: good and all events of each kind, which share of them is bad, and alerts when a budget goes too fast.

What a cluster is to achieve comes as metrics (canary_objective_*), so the rules are the same for every cluster. Every
series is there for each topic (label ``topic``) and for the whole cluster (without it). The alerts are those of chapter
5 of Google's SRE workbook: a long window shows that it matters, a short one that it goes on. What is said to be spent
is measured, and an alert over six hours needs half of them.

Without events there is no share, and nothing calls that met (CanaryObjectiveUnknown). What is planned is no event.
"""

from typing import Any, Final

from canary.metrics import METRICS
from canary.metrics.objectives import OBJECTIVES, WINDOWS, Kind
from canary.workloads.catalogue import WORKLOADS
from dashboards.boards.queries import bucket_rate, change, gauge, rate
from dashboards.rules.rule import PLANNED, Recording, Rule
from dashboards.rules.thresholds import COVERED, FAST, SLOW, STEADY


def days(seconds: float) -> str:
    """Return a time in s as PromQL has it, in days."""
    return f"{round(seconds / 86_400)}d"


GOOD: Final = "canary:objective_good:rate"
TOTAL: Final = "canary:objective_total:rate"
"""Events a second; what follows is the window of the average."""
ERRORS: Final = "canary:objective_errors:ratio"
"""The share of bad events; what follows is the window."""
KNOWN: Final = "canary:objective_known:ratio"
"""The share of a window in which there were events; what follows is the window."""
BURN: Final = "canary:objective_burn:ratio"
"""How fast the budget goes, 1: it lasts for just 30 days; what follows is the window. What is not known of a long
window is not bad: a minute's trouble of a canary that was just started is no hour's.
"""
SPENT: Final = "canary:objective_budget_spent:ratio"

_BURNS: Final = ("5m", "30m", "1h", "6h", "3d")
_AVERAGES: Final = {
    **{window: f"avg_over_time({{}}5m[{window}])" for window in ("30m", "1h")},
    **{window: f"avg_over_time({{}}5m[{window}:5m])" for window in ("2h", "6h", "1d")},
    **{window: f"avg_over_time({{}}1h[{window}:1h])" for window in ("3d", *(days(seconds) for seconds in WINDOWS))},
}
"""How rates are averaged over each window; of a long one in steps as long as what the rates are of."""
_MONTH_S: Final = 2_592_000
_SECONDS: Final = {"1h": 3_600, "6h": 21_600, "3d": 259_200}
_ON: Final = "on (cluster, objective) group_left ()"


def _on_purpose(*, read: bool) -> str:
    """Return the modes whose writes fail on purpose or, if ``read``, are read late on purpose, as a pattern."""
    found = (one for one in WORKLOADS.values() if one.fenced or one.rehearses or (read and one.abandons))
    return "|".join(sorted(one.name for one in found))


def _buckets(kind: Kind, le: str = "") -> str:
    """Return the rates of an objective's buckets, without those of writes that are late on purpose."""
    if "mode" in METRICS[kind.histogram].labels:
        return bucket_rate(kind.histogram, ", ".join(filter(None, (f'mode!~"{_on_purpose(read=False)}"', le))), "5m")
    return _read(bucket_rate(kind.histogram, le, "5m"))


def _read(expression: str) -> str:
    """Leave out the topics that are read late on purpose: what is counted by reader has no label ``mode``."""
    late = gauge("canary_probes_sent_total", f'mode=~"{_on_purpose(read=True)}"')
    return f"{expression} unless on (cluster, topic) {late}"


def _within(kind: Kind) -> tuple[str, str]:
    """Return the rates of the events within the bound, which is a bucket, and of all."""
    bound = gauge("canary_objective_bound_seconds", f'objective="{kind.name}"')
    chosen = f'label_replace({bound}, "le", "$1", "bucket", "(.+)")'
    every = _buckets(kind, 'le="+Inf"')
    return _sum(f"{_buckets(kind)} and on (cluster, le) {chosen}"), _sum(every)


def _sum(expression: str) -> str:
    return f"sum by (cluster, topic) ({expression})"


def _events(kind: Kind) -> tuple[str, str]:
    """Return the rates (1/s) of an objective's good events and of all, by topic.

    A write that had no room in an outage is not acknowledged; one for which the canary came too late says nothing. A
    write that a reader still waits for is an event, and not a good one: what waits now was added, what waits no more
    was delivered, so that over time each counts once.
    """
    if kind.name == "availability":
        selector = f'mode!~"{_on_purpose(read=False)}"'
        acked, sent, skipped, late = (
            _sum(rate(f"canary_probes_{outcome}_total", selector, "5m"))
            for outcome in ("acked", "sent", "skipped", "late")
        )
        return acked, f"{sent} + {skipped} - {late}"
    good, every = _within(kind)
    if kind.name == "freshness":
        waiting = _sum(_read(change("canary_unseen_probes", window="5m")))
        every = f"({every} + {waiting} / 300) or {every}"
    return good, every


def _measured(kind: Kind) -> tuple[Recording, Recording]:
    asked = gauge("canary_objective_target_ratio", f'objective="{kind.name}"')
    good, total = (
        Recording(
            name=f"{name}5m",
            expression=f"({expression}) and on (cluster) {asked} unless on (cluster) {PLANNED}",
            labels={"objective": kind.name},
        )
        for name, expression in zip((GOOD, TOTAL), _events(kind), strict=True)
    )
    return good, total


def _share(good: str, total: str) -> str:
    return f"1 - {good} / ({total} > 0)"


_BUDGET: Final = f"(1 - max by (cluster, objective) ({gauge('canary_objective_target_ratio')}))"
_WINDOW: Final = f"max by (cluster) ({gauge('canary_objective_window_seconds')})"


def _known(window: str, rates: str, step: str, steps: int) -> Recording:
    """Return what records for how much of a window, which is so many steps long, there were events."""
    expression = f"clamp_max(sum_over_time(({TOTAL}{rates} > bool 0)[{window}:{step}]) / {steps}, 1)"
    return Recording(name=f"{KNOWN}{window}", expression=expression)


def _burn_rate(window: str) -> Recording:
    weighed = f"{ERRORS}{window}" if window.endswith("m") else f"{ERRORS}{window} * {KNOWN}{window}"
    unit = f"({_BUDGET} * on (cluster) group_left () {_WINDOW} / {_MONTH_S})"
    return Recording(name=f"{BURN}{window}", expression=f"{weighed} / {_ON} {unit}")


def _spent(seconds: float) -> str:
    """Return which part of the budget is spent, of clusters whose objectives hold over ``seconds``."""
    window = days(seconds)
    return f"({ERRORS}{window} * {KNOWN}{window} / {_ON} {_BUDGET}) and on (cluster) ({_WINDOW} == {seconds:g})"


MEASURED: Final = (
    *(recording for kind in OBJECTIVES.values() for recording in _measured(kind)),
    *(
        Recording(name=f"{name}5m", expression=f'sum by (cluster, objective) ({name}5m{{topic!=""}})')
        for name in (GOOD, TOTAL)
    ),
    *(Recording(name=f"{name}1h", expression=f"avg_over_time({name}5m[1h])") for name in (GOOD, TOTAL)),
    Recording(name=f"{ERRORS}5m", expression=_share(f"{GOOD}5m", f"{TOTAL}5m")),
    *(
        Recording(name=f"{ERRORS}{window}", expression=_share(*(over.format(name) for name in (GOOD, TOTAL))))
        for window, over in _AVERAGES.items()
    ),
    _known("1h", "5m", "2m", 30),
    _known("6h", "5m", "5m", 72),
    _known("3d", "1h", "1h", 72),
    *(_known(days(seconds), "1h", "1h", round(seconds / 3600)) for seconds in WINDOWS),
    *(_burn_rate(window) for window in _BURNS),
    Recording(name=SPENT, expression=" or ".join(map(_spent, WINDOWS))),
)
"""What is recorded, in the order in which one needs the other."""


def _worst(condition: str) -> str:
    """Return the clusters for which a condition holds; the topics for which it does, in those for which it does not.

    In ``condition`` TOPIC stands for the selector of either.
    """
    whole, each = condition.replace("TOPIC", 'topic=""'), condition.replace("TOPIC", 'topic!=""')
    return f"(({whole}) or (({each}) unless on (cluster, objective) ({whole}))) unless on (cluster) {PLANNED}"


_WHAT = "{{ $labels.objective }} of {{ $labels.cluster }}"
_WHERE = _WHAT + "{{ with $labels.topic }}, topic {{ . }}{{ end }}"
_ADVICE = (
    "The dashboard of objectives shows since when; that of the cluster, which topic, leader or broker it is.",
    "availability: look at the client's errors in the runner's log, and at CanaryNothingAcknowledged.",
    "freshness: look at CanaryUnseenGrowing: an open transaction, or a partition without a leader.",
    "produce, end_to_end, commit: look at the brokers' disks, request queues and network.",
    "If the objective asks for more than you need, change clusters[].objectives; null switches one off.",
)

_ALONE = "no: Prometheus alone keeps hours and days; an outage of a minute is an incident"


def _burns(name: str, factor: float, windows: tuple[str, str], *, known: float = 0, **more: Any) -> Rule:
    """Return the alert that a budget goes ``factor`` times too fast; its value is the share of the budget spent.

    ``known``: the share of the long window in which there must have been events: a canary that is minutes old spends
    its budget of an hour, and has no six hours of which to speak.
    """
    long, short = windows
    burning, on = (f"{BURN}{window}{{TOPIC}} > {factor}" for window in windows)
    condition = f"({burning}) * {_SECONDS[long]} / {_MONTH_S} and {on}"
    spent = f"{{{{ $value | humanizePercentage }}}} of the error budget of {_WHERE} went within {long}"
    return Rule(
        name=name,
        expression=_worst(condition + (f" and {KNOWN}{long}{{TOPIC}} >= {known}" if known else "")),
        summary=spent,
        meaning=f"Bad events come more than {factor} times as fast as the objective allows over 30 days: on average of "
        f"the last {long}, and still in the last {short}."
        + (f" At least {known * 100:g} % of the last {long} are known." if known else ""),
        now=f"{spent}.",
        advice=_ADVICE,
        class_="unavailability",
        notify=_ALONE,
        **more,
    )


BUDGETS: Final = (
    _burns("CanaryBudgetBurnFast", FAST, ("1h", "5m"), severity="critical", keep="10m"),
    _burns("CanaryBudgetBurnSlow", SLOW, ("6h", "30m"), known=COVERED, keep="30m"),
    _burns("CanaryBudgetBurnSteady", STEADY, ("3d", "6h"), known=COVERED, keep="1h"),
    Rule(
        name="CanaryObjectiveMissed",
        notify=_ALONE,
        expression=_worst(f"{SPENT}{{TOPIC}} >= 1"),
        keep="1h",
        summary=f"The objective {_WHERE} is missed",
        meaning="There were more bad events than the objective allows within its window.",
        now=f"{_WHAT}: {{{{ $value | humanizePercentage }}}} of the budget is spent.",
        advice=(
            "See on the dashboard of objectives when it was spent; the alert ends when that is older than the window.",
            *_ADVICE[1:],
        ),
    ),
    Rule(
        name="CanaryObjectiveUnknown",
        notify=_ALONE,
        expression=f'({ERRORS}1d{{topic=""}} unless {ERRORS}1h) unless on (cluster) {PLANNED}',
        hold="5m",
        keep="10m",
        summary=f"Whether {_WHERE} meets its objective is unknown",
        meaning="There were events within a day, and none for an hour: no share of good ones can be told.",
        now=f"{_WHAT}.",
        advice=(
            "See whether a runner probes the cluster, and whether the cluster acknowledges anything.",
            "If a mode was switched off on purpose, do nothing: the alert ends after a day.",
        ),
    ),
)
