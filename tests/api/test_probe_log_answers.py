"""The API over the real probe log."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from api import create_app
from storage.probe_log import ProbeLogReader
from storage.probe_log.schemas import POLLS, PROBES
from tests.api.serving import BIG, Client, settings

if TYPE_CHECKING:
    from pathlib import Path

    from storage.store import Store

WHEN = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)


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


def test_an_empty_probe_log_knows_nothing_and_is_no_error(store: Store, tmp_path: Path) -> None:
    client = Client(create_app(settings("prod"), store, ProbeLogReader(str(tmp_path / "none"))))
    assert client.get("/api/v1/probes/1/1/0/0").status_code == 404
    assert client.get("/api/v1/log", cluster="prod", topic="t", partition=0).json()["items"] == []
