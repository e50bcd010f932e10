from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from storage.store import Store

if TYPE_CHECKING:
    from pathlib import Path


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


def canary(place: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "canary.cli", *arguments, "--config", str(place / "canary.yaml")],
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
        env={name: value for name, value in os.environ.items() if not name.startswith("CANARY_")},
    )


def store_of(place: Path) -> Store:
    return Store.connect(f"sqlite:///{place}/store.db", timeout=5)


def test_a_token_is_made_listed_and_revoked(place: Path) -> None:
    made = canary(place, "token", "create", "grafana", "--scope", "operate", "--expires", "90d")
    assert made.returncode == 0, made.stderr
    text = made.stdout.strip()
    with store_of(place) as store:
        token = store.token(text, time.time_ns())
        assert token is not None
        assert (token.name, token.scope) == ("grafana", "operate")
        assert token.expires_ns == pytest.approx(time.time_ns() + 90 * 86_400 * 10**9, rel=1e-3)
        (row,) = json.loads(canary(place, "token", "list", "--json").stdout)
        assert (row["id"], row["state"]) == (token.id, "valid")
        assert text not in canary(place, "token", "list").stdout
        assert canary(place, "token", "revoke", text).returncode == 0
        assert store.token(text, time.time_ns()) is None
        assert [action.action for action in store.actions().items] == ["revoke-token", "create-token"]
    unknown = canary(place, "token", "revoke", "nobody")
    assert (unknown.returncode, "canary token list" in unknown.stderr) == (2, True)
    assert canary(place, "token", "create", "x", "--expires", "soon").returncode == 2


def test_a_test_of_the_alarm_opens_and_ends(place: Path) -> None:
    ran = canary(place, "alert", "test", "--for", "1", "--json")
    assert ran.returncode == 0, ran.stderr
    with store_of(place) as store:
        row = store.violation(json.loads(ran.stdout)["violation"])
        assert row is not None
        assert (row.kind, row.severity, row.state, row.reason) == ("alert-test", "critical", "resolved", "ended")
    assert canary(place, "alert", "test", "--cluster", "other", "--for", "1").returncode == 2


def test_an_export_needs_a_violation_or_a_time_and_says_so(place: Path) -> None:
    now = datetime.now(UTC)
    early = (now - timedelta(hours=1)).isoformat()
    for arguments in ((), ("--from", early), ("--from", "soon", "--to", early), ("--from", early, "--to", early)):
        refused = canary(place, "export", *arguments)
        assert refused.returncode == 2, arguments
        assert len(refused.stderr.splitlines()) == 1
    empty = canary(place, "export", "--from", early, "--to", now.isoformat())
    assert (empty.returncode, empty.stdout) == (0, "")
