from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from api import create_app, health
from api.pages import incident, incident_list, runbooks, status
from canary.anomalies.catalogue import CATALOGUE
from canary.anomalies.policy import CLASSES
from canary.metrics import METRICS
from dashboards.__main__ import GENERATED, ROOT, made
from dashboards.boards.board import TAG
from dashboards.boards.catalogue import boards
from dashboards.reference.alerts import rules_yaml
from dashboards.reference.conditions import conditions
from dashboards.reference.drawings import drawing
from dashboards.rules import GROUPS, RECORDINGS, alert_name
from dashboards.rules import thresholds as alarms
from dashboards.rules.anomalies import rings
from dashboards.runbooks import runbook_of
from tests.api.serving import BrokenStore, settings
from tests.support.grafana import panels as of_board

if TYPE_CHECKING:
    from collections.abc import Iterator

BOARDS: dict[str, dict[str, Any]] = {uid: json.loads(text) for uid, text in boards().items()}
EACH = pytest.mark.parametrize("board", BOARDS.values(), ids=BOARDS)
WITHOUT = {"canary_build_info", "absent_over_time(canary_api_store_up[3h])"}


def panels() -> Iterator[dict[str, Any]]:
    for board in BOARDS.values():
        yield from of_board(board)


def expressions() -> list[str]:
    shown = [target["expr"] for panel in panels() for target in panel.get("targets", ())]
    recorded = [rule.expression for rules in RECORDINGS.values() for rule in rules]
    return shown + recorded + [rule.expression for rules in GROUPS.values() for rule in rules]


def test_what_is_checked_in_is_what_the_code_makes() -> None:
    stale = [str(path) for path, text in made().items() if (ROOT / path).read_text(encoding="utf-8") != text]
    assert not stale, f"run: python -m dashboards ({stale})"


def test_nothing_is_checked_in_that_the_code_no_longer_makes() -> None:
    docs = ROOT / "docs"
    folders = (ROOT / GENERATED, docs / "runbooks", docs / "pictures")
    present = {path.relative_to(ROOT) for folder in folders for path in folder.rglob("*") if path.is_file()}
    assert present <= set(made())


def test_there_is_a_dashboard_for_each_thing_that_is_looked_at() -> None:
    named = {board["title"].removeprefix("Kafka durability: ") for board in BOARDS.values()}
    assert named == {
        "overview",
        "objectives",
        "cluster",
        "partition",
        "applications",
        "incident",
        "reconciliation",
        "the canary itself",
    }


def test_every_panel_says_what_it_shows() -> None:
    assert not [panel["title"] for panel in panels() if len(panel.get("description", "")) < 20]


@EACH
def test_every_panel_asks_the_chosen_data_source(board: dict[str, Any]) -> None:
    assert {panel["datasource"]["uid"] for panel in of_board(board) if panel["type"] != "text"} == {"${datasource}"}
    assert BOARDS[board["uid"]] is board


@EACH
def test_a_dashboard_leads_to_the_others_the_status_page_and_the_incidents(board: dict[str, Any]) -> None:
    links = {link["title"]: link for link in board["links"]}
    assert links["Dashboards"]["tags"] == [TAG]
    assert TAG in board["tags"]
    assert links["Status page"]["url"] == "${canary}/"
    assert links["Incidents"]["url"] == "${canary}/incidents"
    assert links["Runbooks"]["url"] == "${canary}/runbooks"
    variables = {one["name"]: one for one in board["templating"]["list"]}
    assert variables["canary"]["query"] == "label_values(canary_api_info, url)"
    (mark,) = board["annotations"]["list"]
    assert "canary_violations_total" in mark["expr"]


def test_addresses_in_links_are_pages_that_there_are() -> None:
    app = create_app(settings("prod"), BrokenStore(int))
    served = set(app.openapi()["paths"])
    for module in (health, status, incident_list, incident, runbooks):
        served |= {route.path for route in module.router.routes}
    found = re.findall(r"\$\{canary\}([^\"?$]*)", "".join(boards().values()))
    assert len(found) > 15
    for path in found:
        assert path in served or path + "{incident_id}" in served, path
    for uid in re.findall(r"/d/([\w-]+)", "".join(boards().values())):
        assert uid in BOARDS


@EACH
def test_variables_that_are_used_are_there(board: dict[str, Any]) -> None:
    known = {one["name"] for one in board["templating"]["list"]}
    used = set(re.findall(r"\$\{?([a-z]\w*)\}?", json.dumps(board["panels"]) + json.dumps(board["links"])))
    assert used <= known


@EACH
def test_panels_do_not_overlap(board: dict[str, Any]) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in board["panels"]:
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
    once = r"(?:max|min) without \(instance, pod\) \((?:rate\(|increase\(|changes\(|delta\(|max_over_time\()?canary_"
    lag = "max without (instance, pod) (timestamp({0}) - {0})".format("canary_runner_heartbeat_timestamp_seconds")
    for expression in expressions():
        if expression in WITHOUT or "process_" in expression:
            continue  # what is said of each replica
        left = expression.replace(lag, "")  # joined replica by replica
        assert len(re.findall(once, left)) == len(re.findall(r"canary_\w+", left)), expression


OF_NO_CLUSTER = {"CanaryApiDown", "CanaryNotificationsWaiting", "CanaryCertificateExpiring"}
"""Rules that read a metric without the label cluster: the worst of all canaries in one Prometheus fires."""


def test_no_rule_is_silent_because_of_another_canary() -> None:
    """All that is aggregated or matched is so within a cluster, and what is absent is judged by cluster."""
    for rule in (rule for rules in GROUPS.values() for rule in rules):
        named = {name.removesuffix("_bucket") for name in re.findall(r"canary_\w+", rule.expression)}
        if rule.name not in OF_NO_CLUSTER:
            assert all("cluster" in METRICS[name].labels for name in named), rule.name
            matched = re.findall(r"\b(?:by|on) \(([^)]*)\)", rule.expression)
            assert all("cluster" in labels.split(", ") for labels in matched), rule.name
            assert "absent" not in rule.expression, rule.name
    held_back = yaml.safe_load((ROOT / "deploy/alertmanager.yml").read_text(encoding="utf-8"))["inhibit_rules"]
    assert all("cluster" in one.get("equal", ()) for one in held_back)


def test_what_a_panel_asks_of_recordings_is_recorded() -> None:
    recorded = {rule.name for rules in RECORDINGS.values() for rule in rules}
    asked = {name for expression in expressions() for name in re.findall(r"canary:\w+:\w+", expression)}
    assert asked <= recorded
    assert {name for name in recorded if not name.endswith("2h")} <= asked  # nothing is recorded in vain


def test_a_panel_turns_and_has_its_line_where_an_alert_fires() -> None:
    """One of what is there at all, and what is a share of a budget, turns at 0 or 1."""
    fires = {float(value) for name, value in vars(alarms).items() if name.isupper()}
    found = 0
    for panel in panels():
        defaults = panel.get("fieldConfig", {}).get("defaults", {})
        turns = {step["value"] for step in defaults.get("thresholds", {}).get("steps", ())} - {None, 0, 1}
        assert turns <= fires, panel["title"]
        found += bool(turns)
        if turns and panel["type"] == "timeseries":
            assert defaults["custom"]["thresholdsStyle"]["mode"] == "dashed", panel["title"]
    assert found > 10
    alerts = " ".join(rule.expression for rules in GROUPS.values() for rule in rules)
    for value in fires:
        assert re.search(rf"[<>+] {value:.10g}\b", alerts), value


def test_an_axis_has_one_unit() -> None:
    words = {"seconds": "s", "ratio": "percentunit", "bytes": "bytes"}
    for panel in panels():
        if panel["type"] == "timeseries":
            asked = " ".join(target["expr"] for target in panel["targets"])
            names = {name.removesuffix("_bucket") for name in re.findall(r"canary_\w+", asked)} & set(METRICS)
            units = {words.get(name.rpartition("_")[2], "") for name in names}
            assert len(units) <= 1, panel["title"]


@EACH
def test_grafana_11_and_12_take_a_dashboard_as_it_is(board: dict[str, Any]) -> None:
    """Each of these is what a migration of DashboardMigrator would change, from the SDK's schema 36 to 42.

    37: legends say whether they are shown; 38: no displayMode of table cells; 39: no timeSeriesTable without options;
    40: the refresh is a text; 41: no time_options; 42: what is hidden from the picture is hidden from the tooltip. And
    the panels' own: no Angular panels, a heatmap's tooltip with a mode, data sources as objects everywhere.
    """
    assert board["schemaVersion"] == 42
    assert board["refresh"] == "15s"
    assert "time_options" not in board.get("timepicker", {})
    asking = [*board["annotations"]["list"], *(one for one in board["templating"]["list"] if one["type"] == "query")]
    for one in (*asking, *(panel for panel in of_board(board) if panel["type"] != "text")):
        assert set(one["datasource"]) == {"type", "uid"}
    for panel in of_board(board):
        assert panel["type"] in {"stat", "timeseries", "table", "text", "heatmap"}, panel["title"]
        assert "hideFrom" not in json.dumps(panel)
        assert "displayMode" not in json.dumps(panel.get("fieldConfig", {}))
        assert not [one for one in panel.get("transformations", ()) if one["id"] == "timeSeriesTable"]
        if panel["type"] == "timeseries":
            assert panel["options"]["legend"]["showLegend"] is True
        if panel["type"] == "heatmap":
            options, (target,) = panel["options"], panel["targets"]
            assert options["calculate"] is False
            assert options["tooltip"] == {"mode": "single", "yHistogram": True, "showColorScale": False}
            assert target["format"] == "heatmap"
            assert target["legendFormat"] == "{{le}}"


def test_rows_fold_and_those_that_are_folded_hold_their_panels() -> None:
    rows = [row for board in BOARDS.values() for row in board["panels"] if row["type"] == "row"]
    assert len(rows) > 12
    assert all(bool(row["panels"]) == bool(row["collapsed"]) for row in rows)
    assert sum(row["collapsed"] for row in rows) >= 3


def test_every_kind_that_a_running_canary_or_a_night_reports_as_more_than_info_has_an_alert() -> None:
    alerts = {rule.name: rule for rules in GROUPS.values() for rule in rules}
    reported = {kind: entry for kind, entry in CATALOGUE.items() if set(entry.scopes) != {"offline"}}
    for kind, entry in reported.items():
        ringing = [one for one in ("critical", "warning") if one in entry.severities]
        rule = alerts.get(alert_name(kind))
        assert ([rule.severity, *rule.milder] if rule else []) == ringing, kind
    assert {alert_name(kind) for kind in CATALOGUE.keys() - reported.keys()}.isdisjoint(alerts)
    assert {
        "CanaryRunnerDown",
        "CanaryUnseenGrowing",
        "CanaryStoreDown",
        "CanaryLedgerPending",
        "CanaryReconcileStale",
        "CanaryShardMissing",
        "CanaryScrubberBehind",
        "CanaryStoreBehind",
        "CanaryCertificateExpiring",
    } <= alerts.keys()


def test_alert_names_are_unique_and_every_alert_is_complete() -> None:
    rules = [rule for group in yaml.safe_load(rules_yaml())["groups"] for rule in group["rules"] if "alert" in rule]
    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["for"]
        severities = (
            {"none"} if rule["alert"] == "CanaryWatchdog" else {"critical", "warning", "{{ $labels.severity }}"}
        )
        assert rule["labels"]["severity"] in severities
        assert rule["labels"]["class"] in CLASSES
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"]
        assert {"incident_url", "status_url"} & set(rule["annotations"])
        assert f"/runbooks/{rule['alert']}{{{{ with $labels.cluster }}}}?cluster=" in rule["annotations"]["runbook_url"]
        assert (ROOT / "docs" / "runbooks" / f"{rule['alert']}.md").is_file()


def test_every_anomaly_has_a_picture_that_tells_its_name() -> None:
    for name in CATALOGUE:
        picture = ET.fromstring(drawing(name))  # noqa: S314  # our own
        titles = [one.text for one in picture.iter("{http://www.w3.org/2000/svg}title")]
        assert titles == [CATALOGUE[name].title]
        width = int(picture.attrib["width"])
        for cell in picture.iter("{http://www.w3.org/2000/svg}rect"):
            assert int(cell.attrib["x"]) + int(cell.attrib["width"]) <= width


def test_everything_that_is_told_reaches_both_ways_or_says_why_not() -> None:
    """Each rule is about a kind, of whose incidents receivers are told, or says how they learn of it, or why not."""
    page = conditions()
    for rule in (rule for rules in GROUPS.values() for rule in rules):
        assert bool(rule.kind) != bool(rule.notify), rule.name
        assert rule.kind or re.match(r"incident \(`|heartbeat|no: ", rule.notify), rule.name
        assert all(kind in CATALOGUE for kind in re.findall(r"`([a-z-]+)`", rule.notify)), rule.name
        assert rule.severity != "critical" or not rule.notify.startswith("no: ") or rule.name in ALONE, rule.name
        assert f"[{rule.name}](runbooks/{rule.name}.md)" in page
        assert runbook_of(rule.name, rule.kind).sections(rule.name, rule.kind), rule.name
    for kind, entry in CATALOGUE.items():
        assert rings(entry) or f"`{kind}` (" in page.partition("## Without an alert")[2], kind


ALONE = {"CanaryBudgetBurnFast"}
"""What wakes somebody by Prometheus alone."""
