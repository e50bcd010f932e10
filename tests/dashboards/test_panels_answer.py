"""The panels' queries, answered by promtool: what is not known is never shown as none, nor as 0."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from canary.metrics import METRICS
from canary.settings import Settings
from canary.settings.clusters import ClusterSettings
from canary.workloads.catalogue import WORKLOADS
from dashboards.boards.catalogue import boards
from dashboards.boards.queries import HEARTBEAT, SWITCHES
from tests.dashboards.test_rules_fire import both, inputs, promtool_test
from tests.support.grafana import chosen, panels

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.dashboards.test_rules_fire import Series

BOARDS: dict[str, dict[str, Any]] = {uid: json.loads(text) for uid, text in boards().items()}
ONLY_IF_SOME = {"canary_incident_begin_timestamp_seconds", "canary_quiet", "canary_audit_check_findings"}
"""Metrics that have series only where there is something."""
LABELS = {"severity": "critical", "kind": "lost-write", "verdict": "lost"}
Answers = dict[str, list[tuple[str, int]]]
"""By query, the labels and the values that are expected."""
LIVE, SILENT = "0+15x60", "0+15x20 300x40"


def asking() -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Yield each panel with queries, and its queries."""
    for board in BOARDS.values():
        for panel in panels(board):
            if "targets" in panel:
                yield panel, [chosen(target["expr"]) for target in panel["targets"]]


def defaults(panel: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = panel["fieldConfig"]["defaults"]
    return found


def counts() -> list[str]:
    """Return the queries of the numbers that are red or orange from 1 on, and green at 0."""
    steps: list[dict[str, Any]] = [{"value": None, "color": "green"}, {"value": 1, "color": "red"}]
    either = [steps, [steps[0], steps[1] | {"color": "orange"}]]
    return [q[0] for panel, q in asking() if defaults(panel).get("thresholds", {}).get("steps") in either]


def lists() -> list[str]:
    """Return the queries of tables that say none."""
    return [queries[0] for panel, queries in asking() if "none" in json.dumps(defaults(panel).get("mappings", []))]


def standing(cluster: str, heartbeat: str, value: int = 0) -> Series:
    """The series of a cluster as two replicas of the API show them."""
    found = both(HEARTBEAT, f'cluster="{cluster}", runner="r"', heartbeat)
    for name, metric in METRICS.items():
        if metric.type != "histogram" and name not in {HEARTBEAT, *ONLY_IF_SOME} and "cluster" in metric.labels:
            given = LABELS | {"cluster": cluster}
            labels = {label: given.get(label, "x") for label in metric.labels}
            found |= both(name, ", ".join(f'{label}="{said}"' for label, said in labels.items()), f"{value}x60")
    return found


def answered(series: Series, expected: Answers, tmp_path: Path) -> None:
    """Assert what queries answer at 10 min: labels and values."""
    asked = [
        {
            "expr": query,
            "eval_time": "10m",
            "exp_samples": [{"labels": labels, "value": value} for labels, value in samples],
        }
        for query, samples in expected.items()
    ]
    promtool_test({"interval": "15s", "input_series": inputs(series), "promql_expr_test": asked}, tmp_path, set())


def test_a_panel_without_series_says_no_data_and_none_is_the_word_for_a_sample_of_0() -> None:
    for panel, _ in asking():
        assert re.match(r"(off or )?no data", defaults(panel)["noValue"]), panel["title"]
        for mapping in defaults(panel).get("mappings", ()):
            for value, shown in mapping["options"].items():
                assert shown["text"] != "none" or value == "0", panel["title"]
    assert len(counts()) > 10
    assert len(lists()) > 6


@pytest.mark.e2e
def test_without_a_canary_no_panel_shows_anything(tmp_path: Path) -> None:
    answered({"up": "1x60"}, {query: [] for _, queries in asking() for query in queries}, tmp_path)


@pytest.mark.e2e
def test_none_and_0_are_shown_only_of_clusters_that_are_judged(tmp_path: Path) -> None:
    live, silent = standing("live", LIVE), standing("silent", SILENT)
    answered(live, {q: [("{}", 0)] for q in counts()} | {q: [('{cluster="live"}', 0)] for q in lists()}, tmp_path)
    answered(silent, {query: [] for query in (*counts(), *lists())}, tmp_path)
    one_of_two: Answers = {q: [] for q in counts()} | {q: [('{cluster="live"}', 0)] for q in lists()}
    answered(live | silent, one_of_two, tmp_path)


@pytest.mark.e2e
def test_what_is_wrong_is_shown_also_of_a_cluster_that_is_silent(tmp_path: Path) -> None:
    certain = [query for query in counts() if not any(name in query for name in (*ONLY_IF_SOME, "increase("))]
    assert len(certain) > 8
    answered(standing("silent", SILENT, 2), {query: [("{}", 2)] for query in certain}, tmp_path)


def default_of(path: str) -> object:
    """Return what the settings say by default at a path like clusters[].watch.groups."""
    found: Any = ClusterSettings() if path.startswith("clusters[].") else Settings()  # type: ignore[call-arg]
    *above, last = path.removeprefix("clusters[].").split(".")
    for name in above:
        found = getattr(found, name)
    return last in found.enabled() if last in WORKLOADS else getattr(found, last)


def test_each_switch_names_a_setting_that_is_off_by_default_and_metrics_that_there_are() -> None:
    for begins, what in SWITCHES.items():
        assert any(name.startswith(begins) for name in METRICS), begins
        (path,) = re.findall(r"(?:set |\()((?:clusters\[\]\.)?[a-z_.]+)(?= \(|\)|$)", what)
        if path not in {"clusters[].kafka", "schedule.reconcile"}:
            assert not default_of(path), what
    for name, metric in METRICS.items():
        if re.search(r"\b(?:watch|digests|receipts|readers)\.[a-z_]+", metric.help):
            assert name.startswith(tuple(SWITCHES)), name


def test_boards_that_are_empty_in_a_default_install_say_what_to_switch_on() -> None:
    for panel in panels(BOARDS["kafka-durability-applications"]):
        assert "set clusters[]." in defaults(panel)["noValue"], panel["title"]
        assert "Off by default: set clusters[]." in panel["description"], panel["title"]
    off = [one for one in panels(BOARDS["kafka-durability-reconciliation"]) if "off or" in defaults(one)["noValue"]]
    assert len(off) >= 13
    spark = [one for one in off if "canary_reconcile_" in json.dumps(one["targets"])]
    assert len(spark) >= 5
    assert all("kafka-durability-canary[spark]" in defaults(one)["noValue"] for one in spark)
    always = [one for one in panels(BOARDS["kafka-durability-canary"]) if "off or" in defaults(one)["noValue"]]
    assert not always
