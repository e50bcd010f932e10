"""The API over the real probe log."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from api import create_app
from storage.probe_log.reading import ProbeLogReader
from storage.probe_log.schemas import POLLS, PROBES
from storage.probe_log.windows import Window, WindowRows, WindowTooLargeError
from tests.api.serving import BIG, Client, lost, settings, view

if TYPE_CHECKING:
    from pathlib import Path

    from storage.store import Store

WHEN = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
PLACE: dict[str, Any] = {"cluster": "prod", "topic": "durability-canary", "partition": 1}
TIME = {"from": "2026-01-02T03:00:00Z", "to": "2026-01-02T04:00:00Z"}
NOT_HERE = (
    "The probe log is not available (it holds nothing of cluster prod where the API reads it: probe_log.url has to "
    "name where the runner writes it). Probing goes on; ask again."
)


def test_a_shipped_probe_is_found_by_its_identity_and_by_its_offset(store: Store, tmp_path: Path) -> None:
    place = {"cluster": "prod", "topic": "t", "topic_id": "x", "partition": 1}
    who = {"producer_id": BIG, "generation": 3, "sequence": 7}
    sent = {"mode": "idempotent", "sent_at": WHEN, "outcome": "acked", "offset": 17, "acked_at": WHEN}
    polled = {"consumer_id": "read_committed", "isolation": "read_committed", "offset": 17, "polled_at": WHEN}
    for table, schema, row in (
        ("probes", PROBES, {**place, **who, **sent}),
        ("polls", POLLS, {**place, **who, **polled}),
    ):
        (tmp_path / table).mkdir()
        pq.write_table(pa.Table.from_pylist([row], schema=schema), tmp_path / table / "a.parquet")
    client = Client(create_app(settings("prod"), store, ProbeLogReader(str(tmp_path))))
    life = client.get(f"/api/v1/probes/{BIG}/3/1/7").json()
    assert (life["outcome"], life["offset"], life["sent_at"]) == ("acked", 17, "2026-01-02T03:04:05.678Z")
    assert life["seen"] == [
        {"by": "read_committed", "isolation": "read_committed", "offset": 17, "at": "2026-01-02T03:04:05.678Z"}
    ]
    (item,) = client.get("/api/v1/log", cluster="prod", topic="t", partition=1).json()["items"]
    assert (item["offset"], item["identity"]["producer_id"], item["seen_by"]) == (17, BIG, ["read_committed"])


@pytest.mark.parametrize("since", [None, "just now"])
def test_a_probe_log_that_nothing_was_shipped_to_yet_is_no_error(
    store: Store, tmp_path: Path, since: str | None
) -> None:
    if since is not None:
        store.views.save("prod", "canary-0", time.time_ns(), view(since_ns=time.time_ns() - 60 * 10**9))
    client = Client(create_app(settings("prod"), store, ProbeLogReader(str(tmp_path / "none"))))
    assert client.get("/api/v1/probes/1/1/0/0").status_code == 404
    assert client.get("/api/v1/log", **PLACE).json()["items"] == []
    assert client.get("/api/v1/unseen", **PLACE).json()["items"] == []
    assert client.get("/api/v1/export", **PLACE, **TIME).text == ""


def test_a_probe_log_that_is_not_where_the_api_reads_it_is_said_to_be(store: Store, tmp_path: Path) -> None:
    store.views.save("prod", "canary-0", time.time_ns(), view())
    store.views.save("other", "canary-0", time.time_ns(), view())
    store.violations.record("prod", [lost(1)])
    (tmp_path / "empty").mkdir()
    for place in ("none", "empty"):
        client = Client(create_app(settings("prod"), store, ProbeLogReader(str(tmp_path / place))))
        for path, more in (("log", {}), ("unseen", {}), ("export", TIME)):
            answer = client.get(f"/api/v1/{path}", **PLACE, **more)
            assert (answer.status_code, answer.json()["detail"]) == (503, NOT_HERE), path
        assert client.get(f"/api/v1/probes/{BIG}/3/1/7").status_code == 503
        assert (
            "it holds nothing of cluster prod where the API reads it"
            in client.get(f"/incidents/{lost(1).key('prod')}").text
        )
    (tmp_path / "probes").mkdir()
    rows = pa.Table.from_pylist([], schema=PROBES)
    pq.write_table(rows, tmp_path / "probes" / "other--canary-0--ab-0000000001.parquet")
    client = Client(create_app(settings("prod"), store, ProbeLogReader(str(tmp_path))))
    assert client.get("/api/v1/log", **PLACE).status_code == 503, "another cluster's is none of this one's"
    assert client.get("/api/v1/log", **(PLACE | {"cluster": "other"})).json()["items"] == []


def test_too_long_a_window_is_the_askers_to_mend(store: Store, tmp_path: Path) -> None:
    class Full(ProbeLogReader):
        def window(self, _wanted: Window) -> WindowRows:
            raise WindowTooLargeError("the window holds too much")

    store.views.save("prod", "canary-0", time.time_ns(), view())
    client = Client(create_app(settings("prod"), store, Full(str(tmp_path))))
    for path, more in (("unseen", {}), ("export", TIME)):
        answer = client.get(f"/api/v1/{path}", **PLACE, **more)
        assert (answer.status_code, "too much" in answer.json()["detail"]) == (422, True), path
