"""Maintenance, exports, unseen, events, ETags, actions."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from api import create_app
from api.server import ApiServer
from canary.anomalies.offline import Verdict, check
from canary.history.reading import load
from storage.probe_log.reading import ProbeLogReader
from storage.probe_log.schemas import POLLS, PROBES, TRANSACTIONS
from tests.api.serving import Client, ProbeLogFake, lost, settings

if TYPE_CHECKING:
    from pathlib import Path

    from storage.store import Store

SENT = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=10)
PLACE = {"cluster": "prod", "topic": "durability-canary", "topic_id": "q7Vb1nVZQbeh5w0m4hV6xA"}


def window(**more: Any) -> dict[str, Any]:
    ends = datetime.now(UTC) + timedelta(hours=1)
    return {"cluster": "prod", "ends_at": ends.isoformat(), "reason": "upgrade"} | more


def test_a_planned_window_is_planned_listed_and_ended(client: Client, store: Store) -> None:
    made = client.post("/api/v1/maintenance", window())
    assert made.status_code == 201
    assert made.json()["active"] is True
    now_ns = time.time_ns()
    store.violations.record("prod", [replace(lost(1, at_ns=now_ns), happened_after_ns=now_ns - 1)])
    (found,) = client.get("/api/v1/violations").json()["items"]
    assert (found["state"], found["planned"]) == ("acknowledged", True)
    assert found["happened_after"] <= found["happened_before"] == found["first_seen_at"]
    summary = client.get("/api/v1/clusters/prod/summary").json()["sentence"]
    assert summary == "prod has lost 1 acknowledged write; in a planned window: upgrade."
    page = client.get(f"/violations/{found['id']}").text
    assert "in a planned window" in page
    assert "acknowledged</span>" not in page
    assert (
        'canary_violations_open{cluster="prod",kind="lost-write",severity="critical"} 0.0'
        in client.get("/metrics").text
    )
    assert 'canary_quiet{cluster="prod",reason="maintenance"} 1.0' in client.get("/metrics").text
    ended = client.ask("DELETE", made.headers["location"])
    assert ended.json()["active"] is False
    (listed,) = client.get("/api/v1/maintenance").json()["items"]
    assert listed["id"] == made.json()["id"]
    assert [row.action for row in store.actions.page().items] == ["end-maintenance", "plan-maintenance"]


def test_a_window_that_makes_no_sense_is_refused(client: Client) -> None:
    expected: list[tuple[dict[str, Any], int]] = [
        ({"cluster": "nowhere"}, 404),
        ({"ends_at": "2020-01-01T00:00:00Z"}, 422),
        ({"ends_at": "2999-01-01T00:00:00Z"}, 422),
        ({"begins_at": "9999-01-01T00:00:00Z", "ends_at": "9999-01-02T00:00:00Z"}, 422),
        ({"reason": ""}, 422),
        ({"strange": 1}, 422),
    ]
    assert [(change, client.post("/api/v1/maintenance", window(**change)).status_code) for change, _ in expected] == (
        expected
    )
    assert client.ask("DELETE", "/api/v1/maintenance/none").status_code == 404


def test_a_cluster_in_shadow_mode_is_told_to_the_rules(store: Store) -> None:
    client = Client(create_app(settings("prod", shadow=("prod",)), store, ProbeLogFake()))
    assert 'canary_quiet{cluster="prod",reason="shadow"} 1.0' in client.get("/metrics").text


def test_an_unchanged_list_is_not_sent_again(client: Client, store: Store) -> None:
    first = client.get("/api/v1/violations")
    tag = first.headers["etag"]
    again = client.ask("GET", "/api/v1/violations", headers={"If-None-Match": f'"x", {tag}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    store.violations.record("prod", [lost(1)])
    assert client.ask("GET", "/api/v1/violations", headers={"If-None-Match": tag}).status_code == 200


def put(directory: Path, **tables: list[dict[str, Any]]) -> ProbeLogReader:
    for name, schema in (("probes", PROBES), ("polls", POLLS), ("transactions", TRANSACTIONS)):
        (directory / name).mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(tables.get(name, []), schema=schema), directory / name / "a.parquet")
    return ProbeLogReader(str(directory))


def after(seconds: float) -> datetime:
    return SENT + timedelta(seconds=seconds)


def sent(sequence: int, **more: Any) -> dict[str, Any]:
    who = {"partition": 1, "producer_id": 7, "generation": 1, "sequence": sequence, "mode": "idempotent"}
    done = {"sent_at": after(sequence), "outcome": "acked", "offset": sequence, "acked_at": after(sequence + 1.5)}
    return PLACE | who | done | more


def polled(sequence: int, **more: Any) -> dict[str, Any]:
    who = {"partition": 1, "producer_id": 7, "generation": 1, "sequence": sequence, "offset": sequence}
    read = {"consumer_id": "reader", "isolation": "read_committed", "polled_at": after(sequence + 2)}
    return PLACE | who | read | more


@pytest.fixture
def history(tmp_path: Path, store: Store) -> Client:
    """Ten probes of which the fifth was never read, one that failed, one of which nobody knows."""
    probes = [sent(n) for n in range(10)]
    probes.append(sent(10, outcome="failed", offset=None, acked_at=after(11), error="full"))
    probes.append(sent(11, outcome="indeterminate", offset=None, acked_at=None))
    reader = put(tmp_path / "log", probes=probes, polls=[polled(n) for n in range(10) if n != 5])
    return Client(create_app(settings("prod"), store, reader))


def verdict(path: Path) -> Verdict:
    with path.open("rb") as file:
        return check(load(file, path.name))


def window_of(**more: Any) -> dict[str, Any]:
    return {"cluster": "prod", "from": SENT.isoformat(), "to": after(60).isoformat()} | more


@pytest.mark.parametrize("kind", ["jsonl", "edn"])
def test_an_exported_history_shows_our_checker_the_loss(history: Client, tmp_path: Path, kind: str) -> None:
    answer = history.get("/api/v1/export", **window_of(format=kind))
    assert answer.status_code == 200
    path = tmp_path / f"history.{kind}"
    path.write_bytes(answer.content)
    assert verdict(path).counts["lost-write"] == 1


def test_what_was_kept_is_valid(tmp_path: Path, store: Store) -> None:
    reader = put(tmp_path / "log", probes=[sent(n) for n in range(10)], polls=[polled(n) for n in range(10)])
    client = Client(create_app(settings("prod"), store, reader))
    path = tmp_path / "history.jsonl"
    path.write_bytes(client.get("/api/v1/export", **window_of()).content)
    assert {kind: n for kind, n in verdict(path).counts.items() if n} == {}


def test_no_process_has_two_operations_at_once(history: Client) -> None:
    lines = [json.loads(line) for line in history.get("/api/v1/export", **window_of()).text.splitlines()]
    busy: set[int] = set()
    crashed: set[int] = set()
    for line in lines:
        assert line["process"] not in crashed
        if line["type"] == "invoke":
            assert line["process"] not in busy
            busy.add(line["process"])
        else:
            busy.remove(line["process"])
            if line["type"] == "info":
                crashed.add(line["process"])
    assert [line["index"] for line in lines] == list(range(len(lines)))
    assert [line["time"] for line in lines] == sorted(line["time"] for line in lines)


def test_what_a_transaction_sent_is_one_operation(tmp_path: Path, store: Store) -> None:
    probes = [sent(n, transaction_id=n // 2, mode="transactional") for n in range(4)]
    place = {"cluster": "prod", "producer_id": 7, "generation": 1}
    transactions = [
        place | {"transaction_id": 0, "began_at": after(0), "outcome": "committed", "ended_at": after(3)},
        place | {"transaction_id": 1, "began_at": after(2), "outcome": "aborted", "ended_at": after(5)},
    ]
    polls = [polled(0), polled(1), polled(2, consumer_id="u", isolation="read_uncommitted")]
    reader = put(tmp_path / "log", probes=probes, polls=polls, transactions=transactions)
    client = Client(create_app(settings("prod"), store, reader))
    lines = [json.loads(line) for line in client.get("/api/v1/export", **window_of()).text.splitlines()]
    ends = [(line["f"], line["type"], len(line["value"])) for line in lines if line["type"] in {"ok", "fail"}]
    assert ends.count(("txn", "ok", 2)) == 1
    assert ends.count(("txn", "fail", 2)) == 1
    assert sum(1 for line in lines if line["f"] == "poll") == 4


def test_the_export_of_a_violation_begins_before_its_probe_was_sent(history: Client, store: Store) -> None:
    store.violations.record("prod", [lost(1, at_ns=int(after(600).timestamp() * 1e9))])
    (row,) = store.violations.page().items
    answer = history.get(f"/api/v1/violations/{row.id}/export", around=1200)
    assert answer.headers["content-disposition"] == f'attachment; filename="violation-{row.id}.jsonl"'
    assert len(answer.text.splitlines()) > 20
    assert history.get("/api/v1/violations/none/export").status_code == 404
    (incident,) = store.incidents.page().items
    assert history.get(f"/api/v1/incidents/{incident.id}/export", format="edn").status_code == 200


def test_a_window_that_is_empty_or_too_long_is_refused(history: Client) -> None:
    assert history.get("/api/v1/export", **window_of(to=SENT.isoformat())).status_code == 422
    assert history.get("/api/v1/export", **window_of(to=after(90_000).isoformat())).status_code == 422
    assert history.get("/api/v1/export", **window_of(to="0001-01-01T00:00:00Z")).status_code == 422


def test_unseen_over_time_rises_while_a_probe_is_unread(history: Client) -> None:
    answer = history.get(
        "/api/v1/unseen", cluster="prod", since=SENT.isoformat(), until=after(100).isoformat(), points=101
    )
    (series,) = answer.json()["items"]
    counts = [point["unseen"] for point in series["points"]]
    assert counts[0] == 0
    assert counts[50] == counts[100] == 1  # the fifth, for ever
    assert series["points"][100]["oldest_s"] == pytest.approx(93.5)
    assert history.get("/api/v1/unseen", cluster="prod", since=after(1e6).isoformat()).status_code == 422


def test_events_tell_what_is_new_and_what_changes(store: Store) -> None:
    app = create_app(settings("prod"), store, ProbeLogFake())
    store.violations.record("prod", [lost(1)])
    old = store.violations.page().items[0]
    with (
        ApiServer(app, "127.0.0.1", 0) as server,
        httpx.stream("GET", f"{server.address}/api/v1/stream", timeout=20) as stream,
    ):
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.iter_lines()
        assert next(lines) == "retry: 2000"
        store.violations.record("prod", [lost(2, at_ns=time.time_ns())])
        seen = [json.loads(line.removeprefix("data: ")) for line in _until(lines, "data:")]
        assert seen[-1]["offset"] == 1002
        store.violations.acknowledge(old.id, "mine")
        seen = [json.loads(line.removeprefix("data: ")) for line in _until(lines, "data:")]
        assert (seen[-1]["id"], seen[-1]["state"]) == (old.id, "acknowledged")


def test_events_go_on_where_a_connection_broke_off(store: Store) -> None:
    app = create_app(settings("prod"), store, ProbeLogFake())
    store.violations.record("prod", [lost(1), lost(2, at_ns=time.time_ns())])
    first = min(row.first_seen_ns for row in store.violations.page().items)
    with (
        ApiServer(app, "127.0.0.1", 0) as server,
        httpx.stream(
            "GET", f"{server.address}/api/v1/stream", timeout=20, headers={"Last-Event-ID": str(first)}
        ) as stream,
    ):
        (line,) = _until(stream.iter_lines(), "data:")
        assert json.loads(line.removeprefix("data: "))["offset"] == 1002


def _until(lines: Any, prefix: str) -> list[str]:
    for line in lines:
        if line.startswith(prefix):
            return [line]
    raise AssertionError("the stream ended")


def test_times_beyond_what_can_be_stored_are_the_first_or_the_last_ones(client: Client) -> None:
    for when in ("0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"):
        for path in ("violations", "incidents"):
            for side in ("since", "until"):
                assert client.get(f"/api/v1/{path}", **{side: when}).status_code == 200, (path, side, when)
        assert client.get("/api/v1/unseen", cluster="prod", since=when).status_code == 422, when
        assert client.get("/api/v1/unseen", cluster="prod", until=when).status_code in {200, 422}, when
        assert client.get("/api/v1/export", cluster="prod", **{"from": when, "to": when}).status_code == 422, when
