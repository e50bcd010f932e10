from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from canary.anomalies.catalogue import CATALOGUE
from canary.metrics import METRICS
from dashboards.__main__ import ROOT, made
from dashboards.overview import UID, overview
from dashboards.rules import alert_name, groups, rules_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

BOARD: dict[str, Any] = json.loads(overview())


def panels() -> Iterator[dict[str, Any]]:
    for panel in BOARD["panels"]:
        yield from panel.get("panels") or ([] if panel["type"] == "row" else [panel])


def expressions() -> list[str]:
    board = [target["expr"] for panel in panels() for target in panel["targets"]]
    return board + [rule.expression for rules in groups().values() for rule in rules]


def test_what_is_checked_in_is_what_the_code_makes() -> None:
    stale = [str(path) for path, text in made().items() if (ROOT / path).read_text(encoding="utf-8") != text]
    assert not stale, f"run: python -m dashboards ({stale})"


def test_nothing_is_checked_in_that_the_code_no_longer_makes() -> None:
    chart = ROOT / "deploy" / "helm" / "kafka-durability-canary" / "files"
    folders = (ROOT / "dashboards" / "generated", ROOT / "docs" / "runbooks", chart)
    present = {path.relative_to(ROOT) for folder in folders for path in folder.iterdir() if path.is_file()}
    assert present | {Path("docs/configuration.md")} == set(made())


def test_every_panel_says_what_it_shows() -> None:
    assert not [panel["title"] for panel in panels() if len(panel.get("description", "")) < 20]


def test_every_panel_asks_the_chosen_data_source() -> None:
    assert {panel["datasource"]["uid"] for panel in panels()} == {"${datasource}"}
    assert BOARD["uid"] == UID


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24, panel["title"]
        taken |= cells


def test_only_metrics_of_the_catalogue_are_asked_for() -> None:
    asked = {name for expression in expressions() for name in re.findall(r"canary_\w+", expression)}
    known = set(METRICS) | {f"{name}_bucket" for name, entry in METRICS.items() if entry.type == "histogram"}
    assert asked <= known


def test_every_metric_is_on_the_dashboard() -> None:
    shown = {name.removesuffix("_bucket") for e in expressions() for name in re.findall(r"canary_\w+", e)}
    assert set(METRICS) - shown == set()


def test_every_expression_is_safe_with_several_replicas() -> None:
    for expression in expressions():
        if expression in {"canary_build_info", "absent(canary_api_store_up)"}:
            continue
        inner = re.findall(r"max without \(instance, pod\) \((?:rate\(|increase\()?canary_", expression)
        assert len(inner) == len(re.findall(r"canary_\w+", expression)), expression


def test_every_kind_that_may_be_critical_has_an_alert() -> None:
    alerts = {rule.name for rules in groups().values() for rule in rules}
    assert {alert_name(kind) for kind, entry in CATALOGUE.items() if "critical" in entry.severities} <= alerts
    assert {
        "CanaryRunnerDown",
        "CanaryUnseenGrowing",
        "CanaryStoreDown",
        "CanaryLedgerPending",
        "CanaryReconcileStale",
    } <= alerts


def test_alert_names_are_unique_and_every_alert_is_complete() -> None:
    rules = [rule for group in yaml.safe_load(rules_yaml())["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["for"]
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]
        assert (ROOT / "docs" / "runbooks" / rule["annotations"]["runbook_url"].rsplit("/", 1)[1]).is_file()
