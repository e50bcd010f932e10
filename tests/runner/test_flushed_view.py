"""What a runner says of itself beside what it measures: its share, and when its certificates expire."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import orjson

from canary.client.ports import SteadyClock
from canary.metrics import Measurement
from canary.runner import flush
from canary.runner.flush import Flusher
from canary.settings.sharing import Share
from storage.store import Store

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_view_tells_the_share_and_when_certificates_expire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def expiries(properties: object) -> dict[str, float]:
        asked.append(properties)
        return {"client": 1234.0}

    monkeypatch.setattr(flush, "expiries", expiries)
    shown = SimpleNamespace(view={"version": 1}, measurements=[Measurement("canary_leader_epoch", ("t", "0"), 3)])
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=5) as store:
        store.upgrade()
        flusher = Flusher(store, "prod", "canary-1", SteadyClock(), latest=lambda: cast("Any", shown))
        flusher.share, flusher.properties = Share(1, 3), {"ssl.ca.location": "ca.pem"}
        assert flusher.flush()
        assert flusher.flush()
        (row,) = store.views()
    told = orjson.loads(row.view)
    assert told["shard"] == [1, 3]
    assert told["measurements"] == [
        ["canary_leader_epoch", ["t", "0"], 3],
        ["canary_certificate_expiry_timestamp_seconds", ["client"], 1234.0],
    ]
    assert asked == [{"ssl.ca.location": "ca.pem"}], "files are not read anew with every view"
    assert time.time_ns() - row.at_ns < 60 * 10**9
