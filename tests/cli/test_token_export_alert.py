from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from storage.store import Store
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
