from __future__ import annotations

import json
import subprocess
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
import yaml

from storage.store import Store
from tests.dashboards.test_rules_fire import promtool
from tests.support import stores
from tests.support.command import canary

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.command import Ended


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "canary.yaml").write_text(
        json.dumps(
            {
                "clusters": [{"name": "prod", "kafka": {"bootstrap.servers": "127.0.0.1:1"}}],
                "store": {"url": f"sqlite:///{tmp_path}/store.db"},
                "probe_log": {"url": str(tmp_path / "probe-log")},
            }
        )
    )
    return tmp_path


def run(place: Path, *words: str) -> Ended:
    return canary(*words, "--config", place / "canary.yaml")


def store_of(place: Path) -> Store:
    return Store.connect(f"sqlite:///{place}/store.db", timeout=5)


def test_a_token_is_made_listed_and_revoked(place: Path) -> None:
    made = run(place, "token", "create", "grafana", "--scope", "operate", "--expires", "90d")
    assert made.status == 0, made.err
    text = made.out.strip()
    with store_of(place) as store:
        token = store.tokens.verify(text, time.time_ns())
        assert token is not None
        assert (token.name, token.scope) == ("grafana", "operate")
        assert token.expires_ns == pytest.approx(time.time_ns() + 90 * 86_400 * 10**9, rel=1e-3)
        (row,) = json.loads(run(place, "token", "list", "--json").out)
        assert (row["id"], row["state"]) == (token.id, "valid")
        assert text not in run(place, "token", "list").out
        assert run(place, "token", "revoke", text).status == 0
        assert store.tokens.verify(text, time.time_ns()) is None
        assert [action.action for action in store.actions.page().items] == ["revoke-token", "create-token"]
        made = json.loads(run(place, "token", "create", "x", "--json").out)
        left = datetime.fromisoformat(made["expires_at"]) - datetime.now(UTC)
        assert timedelta(days=89) < left <= timedelta(days=90), "told nothing, it expires"
        assert json.loads(run(place, "token", "create", "y", "--expires", "never", "--json").out)["expires_at"] is None
    unknown = run(place, "token", "revoke", "nobody")
    assert (unknown.status, "canary token list" in unknown.err) == (2, True)
    assert run(place, "token", "create", "x", "--expires", "soon").status == 2


def test_a_token_for_some_clusters_says_so_and_which_of_them_there_are_not(place: Path) -> None:
    made = run(place, "token", "create", "eu", "--cluster", "prod", "--cluster", "prod-ue", "--json")
    assert (made.status, json.loads(made.out)["clusters"]) == (0, ["prod", "prod-ue"])
    assert "No cluster is called prod-ue yet" in made.err
    assert "prod yet" not in made.err
    assert run(place, "token", "list").out.strip().endswith("eu (prod, prod-ue)")
    with store_of(place) as store:
        assert store.actions.page().items[0].detail["clusters"] == ["prod", "prod-ue"]


def test_a_test_of_the_alarm_opens_and_ends(place: Path) -> None:
    ran = run(place, "alert", "test", "--for", "1", "--json")
    assert ran.status == 0, ran.err
    with store_of(place) as store:
        row = store.violations.get(json.loads(ran.out)["violation"])
        assert row is not None
        assert (row.kind, row.severity, row.state, row.reason) == ("alert-test", "critical", "resolved", "ended")
    assert run(place, "alert", "test", "--cluster", "other", "--for", "1").status == 2


def test_a_test_of_the_alarm_says_whom_nobody_tells(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CANARY_NOTIFY", "[{name: bus, kind: webhook, url: 'https://nowhere.invalid/'}]")
    ran = run(place, "alert", "test", "--for", "1", "--json")
    assert ran.status == 3
    assert json.loads(ran.out)["receivers"] == {"bus": None}
    assert "bus (no `canary serve`" in ran.err


def test_a_test_of_the_alarm_asks_when_a_heartbeat_was_called_and_waits_for_no_notification(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY_NOTIFY", "[{name: pulse, kind: heartbeat, url: 'https://nowhere.invalid/'}]")
    never = run(place, "alert", "test", "--for", "1", "--json")
    assert (never.status, json.loads(never.out)["heartbeats"]) == (3, {"pulse": None})
    assert "pulse (a heartbeat, not called for 120 s: see heartbeat_stops" in never.err
    for ago_s, status in {30: 0, 130: 3}.items():
        with store_of(place) as store:
            store.notifications.register(["pulse"], time.time_ns())
            store.notifications.looked("pulse", time.time_ns() - ago_s * 10**9)
        ran = run(place, "alert", "test", "--for", "1", "--json")
        assert (ran.status, json.loads(ran.out)["receivers"]) == (status, {})
        assert ago_s <= json.loads(ran.out)["heartbeats"]["pulse"] < ago_s + 60


@pytest.mark.e2e
def test_rules_of_the_settings_ring_for_each_cluster_that_is_absent_until_it_is_back(place: Path) -> None:
    """Another canary is in the same Prometheus throughout; `never` was never seen, `prod` is gone for a day."""
    names = ("prod", "never.seen-1", "well")
    clusters = [{"name": name, "kafka": {"bootstrap.servers": "b:1"}} for name in names]
    (place / "canary.yaml").write_text(json.dumps({"clusters": clusters, "api": {"url": "https://canary.example"}}))
    made = run(place, "alert", "rules")
    assert made.status == 0, made.err
    (place / "rules.yml").write_text(made.out)
    checked = subprocess.run(
        [promtool(), "check", "rules", "--lint-fatal", place / "rules.yml"], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stderr
    (group,) = yaml.safe_load(made.out)["groups"]
    labels = {"severity": "critical", "class": "blindness", "service": "kafka-durability-canary"}
    assert [one["labels"] for one in group["rules"]] == [labels | {"cluster": name} for name in names]
    for one in group["rules"]:
        texts = one["annotations"]
        assert "See whether Prometheus scrapes it" in texts["description"], "it stands alone while the API is down"
        assert "{{ with query" not in json.dumps(texts), "no address is asked of series that are absent"
        assert texts["runbook_url"].startswith("https://canary.example/runbooks/CanaryVanished?")
    served = "canary_api_cluster_store_up"
    series = {
        f'{served}{{cluster="prod"}}': "1x10 stale _x1430 1x100",
        f'{served}{{cluster="well"}}': "1x2000",
        f'{served}{{cluster="other"}}': "1x2000",
    }
    expected = {"9m": ["never.seen-1"], "14m": ["never.seen-1", "prod"], "23h": ["never.seen-1", "prod"]}
    told = [
        {
            "expr": 'count by (cluster) (ALERTS{alertname="CanaryAbsent", alertstate="firing"})',
            "eval_time": at,
            "exp_samples": [{"labels": f'{{cluster="{name}"}}', "value": 1} for name in silent],
        }
        for at, silent in (expected | {"24h30m": ["never.seen-1"]}).items()
    ]
    inputs = [{"series": name, "values": values} for name, values in series.items()]
    test = {"interval": "1m", "input_series": inputs, "promql_expr_test": told}
    (place / "test.yml").write_text(
        json.dumps({"rule_files": ["rules.yml"], "evaluation_interval": "1m", "tests": [test]})
    )
    ran = subprocess.run([promtool(), "test", "rules", place / "test.yml"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_an_export_needs_a_violation_or_a_time_and_says_so(place: Path) -> None:
    now = datetime.now(UTC)
    early = (now - timedelta(hours=1)).isoformat()
    for arguments in ((), ("--from", early), ("--from", "soon", "--to", early), ("--from", early, "--to", early)):
        refused = run(place, "export", *arguments)
        assert refused.status == 2, arguments
        assert len(refused.err.splitlines()) == 1
    empty = run(place, "export", "--from", early, "--to", now.isoformat())
    assert (empty.status, empty.out) == (3, "")
    assert "holds nothing of cluster prod" in empty.err


def test_a_decommissioned_cluster_is_forgotten(place: Path) -> None:
    with store_of(place) as store:
        stores.upgrade(store)
        for cluster in ("prod", "old"):
            store.views.save(cluster, "canary-0", time.time_ns(), b"{}")
        done = run(place, "forget", "old")
        assert (done.status, done.out, done.err) == (
            0,
            "old is forgotten: 0 violations, 0 incidents, 0 reconciliations\n",
            "",
        )
        assert store.retention.clusters() == ["prod"]
        assert store.actions.page().items[0].target == "cluster old"
        unknown = run(place, "forget", "old")
        assert (unknown.status, "it does of: prod" in unknown.err) == (2, True)
        named = run(place, "forget", "prod", "--json")
        assert json.loads(named.out) == {"cluster": "prod", "violations": 0, "incidents": 0, "reconciliations": 0}
        store.views.save("prod", "canary-0", time.time_ns(), b"{}")
        assert "still in" in run(place, "forget", "prod").err
