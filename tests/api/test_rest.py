from __future__ import annotations

import dataclasses
import json
import re
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from api import create_app
from api.rest.violations import ViolationOut
from api.shapes import Listing
from canary.anomalies.catalogue import CATALOGUE
from canary.anomalies.online import Tracker
from canary.facts import MemoryLost
from storage.store import StoreError
from storage.store.errors import BadValueError
from tests.api.serving import BIG, NOW_NS, BrokenStore, Client, lost, settings, view

if TYPE_CHECKING:
    from storage.store import Store

API = "/api/v1"
PATHS = (
    "/clusters",
    "/clusters/prod/summary",
    "/clusters/prod/partitions",
    "/violations",
    "/violations/x",
    "/incidents",
    "/incidents/x",
    "/reconciliations",
    "/reconciliations/x",
)


def problem(answer: Any, status: int) -> dict[str, Any]:
    assert answer.status_code == status, f"{answer.url}: {answer.text}"
    assert answer.headers["content-type"] == "application/problem+json"
    assert "Traceback" not in answer.text
    body: dict[str, Any] = answer.json()
    assert body["status"] == status
    assert body["title"]
    return body


def test_a_quiet_cluster_is_healthy_and_says_how_sure_that_is(client: Client) -> None:
    body = client.get(f"{API}/clusters/prod/summary").json()
    assert body["healthy"] is True
    assert "kept every write" in body["sentence"]
    assert body["probes"] == {"sent": 300, "acked": 300, "failed": 0, "indeterminate": 0, "seen": 600, "unseen": 0}
    assert body["violations"] == dict.fromkeys(CATALOGUE, 0)
    assert body["loss_rate_upper_95"] == pytest.approx(1 - 0.05 ** (1 / 300))
    assert body["since"].endswith("Z")


def test_a_lost_write_makes_the_cluster_unhealthy_until_it_is_resolved(client: Client, store: Store) -> None:
    store.violations.record("prod", [lost(1)])
    body = client.get(f"{API}/clusters/prod/summary").json()
    assert body["healthy"] is False
    assert body["sentence"] == "prod has lost 1 acknowledged write."
    (incident,) = client.get(f"{API}/incidents").json()["items"]
    client.post(f"{API}/incidents/{incident['id']}/acknowledge", {"note": "on it"})
    assert client.get(f"{API}/clusters/prod/summary").json()["healthy"] is False
    client.post(f"{API}/incidents/{incident['id']}/resolve", {"reason": "lost"})
    body = client.get(f"{API}/clusters/prod/summary").json()
    assert body["healthy"] is True
    assert body["violations"]["lost-write"] == 1


def test_a_time_that_the_canary_has_forgotten_is_unknown_until_a_reconciliation_has_read_everything(
    client: Client, store: Store
) -> None:
    tracker = Tracker()
    tracker.fold([MemoryLost(NOW_NS, NOW_NS - 60 * 10**9, "the ledger's disk is another one")])
    (violation,) = tracker.drain().violations
    store.violations.record("prod", [violation])
    for _ in range(2):
        body = client.get(f"{API}/clusters/prod/summary").json()
        assert body["healthy"] is False
        before = datetime.fromtimestamp(NOW_NS // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        assert body["sentence"] == f"The canary of prod has forgotten a part of what was acknowledged before {before}."
        page = client.get("/").text
        assert body["sentence"] in page
        assert "kept every write" not in page
        (incident,) = client.get(f"{API}/incidents").json()["items"]
        client.post(f"{API}/incidents/{incident['id']}/acknowledge", {"note": "on it"})
    store.violations.end([violation.key("prod")], NOW_NS)
    assert "kept every write" in client.get(f"{API}/clusters/prod/summary").json()["sentence"]


def test_a_cluster_whose_runner_is_silent_is_not_healthy(client: Client, store: Store) -> None:
    store.views.save("prod", "canary-0", time.time_ns() - 60_000_000_000, view())
    body = client.get(f"{API}/clusters/prod/summary").json()
    assert body["healthy"] is False
    assert re.search(r"not reported for 6\d s", body["sentence"])


def test_a_runner_that_waits_says_what_for(client: Client, store: Store) -> None:
    store.views.save("prod", "canary-0", time.time_ns(), view(waiting_for="topic: no answer"))
    assert "cannot judge now: topic: no answer" in client.get(f"{API}/clusters/prod/summary").json()["sentence"]


def test_a_canary_that_sees_nothing_says_so_and_not_that_promises_are_broken(client: Client, store: Store) -> None:
    store.violations.record("prod", [lost(1, kind="blind")])
    body = client.get(f"{API}/clusters/prod/summary").json()
    assert body["healthy"] is False
    assert body["sentence"] == "Nothing is known of prod now: we cannot look."
    store.views.save("prod", "canary-0", time.time_ns(), view(waiting_for="members: _TIMED_OUT: no answer"))
    assert "members: _TIMED_OUT" in client.get(f"{API}/clusters/prod/summary").json()["sentence"]
    store.violations.record("prod", [lost(2)])
    said = client.get(f"{API}/clusters/prod/summary").json()["sentence"]
    assert said.startswith("prod has lost 1 acknowledged write. The canary of prod cannot judge now: members")


def test_a_partition_that_takes_no_writes_is_named_on_the_page(client: Client, store: Store) -> None:
    for seconds, healthy in ((0, "has kept every write"), (7, "1 partition takes no writes")):
        more = [["canary_unacknowledged_seconds", ["durability-canary", "1", "2"], seconds]]
        store.views.save("prod", "canary-0", time.time_ns(), view(more=more))
        assert healthy in client.get(f"{API}/clusters/prod/summary").json()["sentence"]


def test_clusters_lists_what_is_configured_and_what_was_reported(client: Client, store: Store) -> None:
    store.views.save("elsewhere", "canary-7", time.time_ns(), view())
    body = client.get(f"{API}/clusters").json()
    assert [item["name"] for item in body["items"]] == ["elsewhere", "prod"]
    assert body["items"][0]["runners"][0]["name"] == "canary-7"
    assert body["next_cursor"] is None


def test_partitions_are_given_as_the_runner_sees_them(client: Client) -> None:
    items = client.get(f"{API}/clusters/prod/partitions").json()["items"]
    assert [item["partition"] for item in items] == [0, 1, 2]
    assert items[0]["isr"] == [1, 2, 3]
    assert items[0]["consumers"]["read_committed"]["seen"] == 100


def test_identities_keep_all_63_bits(client: Client, store: Store) -> None:
    store.violations.record("prod", [lost(7)])
    (item,) = client.get(f"{API}/violations").json()["items"]
    assert item["identity"] == {"producer_id": BIG, "generation": 3, "partition": 1, "sequence": 7}
    assert str(BIG) in client.get(f"{API}/violations").text
    body = client.get(f"{API}/probes/{BIG}/3/1/7").json()
    assert (body["outcome"], body["offset"], body["identity"]["producer_id"]) == ("acked", 17, BIG)
    assert body["seen"][0]["by"] == "read_committed"


def test_violations_are_filtered_and_paged_through(client: Client, store: Store) -> None:
    store.violations.record("prod", [lost(n, at_ns=NOW_NS + n) for n in range(25)])
    store.violations.record("prod", [lost(99, kind="duplicate", severity="warning")])
    seen: list[str] = []
    cursor: str | None = None
    while True:
        more = {"cursor": cursor} if cursor else {}
        body = client.get(f"{API}/violations", kind="lost-write", limit=10, **more).json()
        seen += [item["id"] for item in body["items"]]
        cursor = body["next_cursor"]
        if cursor is None:
            break
    assert len(seen) == len(set(seen)) == 25
    assert len(client.get(f"{API}/violations", severity="warning").json()["items"]) == 1
    assert client.get(f"{API}/violations", partition=2).json()["items"] == []
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert client.get(f"{API}/violations", since=later).json()["items"] == []
    assert len(client.get(f"{API}/violations", until=later).json()["items"]) == 26


def test_a_range_is_one_violation_and_every_total_counts_its_records(client: Client, store: Store) -> None:
    store.violations.record("prod", [lost(1, count=2_500_000), lost(5_000_000)])
    (row,) = client.get("/api/v1/violations", offset=2000).json()["items"]
    assert (row["offset"], row["last_offset"], row["count"]) == (1001, 2_501_000, 2_500_000)
    assert (row["identity"]["sequence"], row["last_identity"]["sequence"]) == (1, 2_500_000)
    detail = client.get(f"/api/v1/violations/{row['id']}").json()
    assert detail["evidence"]["records"] == [[1001, 2_500_000, [BIG, 3, 1, 1]]]
    assert client.get("/api/v1/violations", offset=1000).json()["items"] == []
    single = client.get("/api/v1/violations", offset=5_001_000).json()["items"][0]
    assert (single["last_offset"], single["count"], single["last_identity"]) == (5_001_000, 1, single["identity"])
    summary = client.get("/api/v1/clusters/prod/summary").json()
    assert summary["violations"]["lost-write"] == 2_500_001
    assert summary["sentence"] == "prod has lost 2,500,001 acknowledged writes."
    series = 'canary_violations_total{cluster="prod",kind="lost-write",severity="critical"} '
    (line,) = (one for one in client.get("/metrics").text.splitlines() if one.startswith(series))
    assert float(line.removeprefix(series)) == 2_500_001
    client.post(f"/api/v1/incidents/{row['incident_id']}/acknowledge", {"note": ""})
    sentence = client.get("/api/v1/clusters/prod/summary").json()["sentence"]
    assert sentence == "prod has lost 2,500,001 acknowledged writes; an operator has acknowledged that."


def test_a_violation_has_evidence_and_advice_and_can_be_acknowledged(client: Client, store: Store) -> None:
    store.violations.record("prod", [lost(1)])
    key = lost(1).key("prod")
    body = client.get(f"{API}/violations/{key}").json()
    assert body["evidence"]["acked_offset"] == 1001
    assert body["do_first"] == CATALOGUE["lost-write"].do_first
    assert body["sightings"][0]["by"] == "online"
    answer = client.post(f"{API}/violations/{key}/acknowledge", {"note": "looking"})
    assert (answer.status_code, answer.json()["state"], answer.json()["note"]) == (200, "acknowledged", "looking")
    assert "evidence" not in client.get(f"{API}/violations").json()["items"][0]
    assert client.get(f"{API}/violations", state="open").json()["items"] == []


def test_an_incident_gathers_its_violations_and_resolves_them_all(client: Client, store: Store) -> None:
    store.violations.record("prod", [lost(1), lost(2)])
    (incident,) = client.get(f"{API}/incidents", state="open").json()["items"]
    body = client.post(f"{API}/incidents/{incident['id']}/resolve", {"reason": "planned", "note": "drill"}).json()
    assert (body["state"], body["reason"], len(body["violations"])) == ("resolved", "planned", 2)
    assert {item["state"] for item in client.get(f"{API}/violations").json()["items"]} == {"resolved"}
    problem(client.post(f"{API}/incidents/{incident['id']}/resolve", {"reason": "because"}), 422)
    problem(client.post(f"{API}/incidents/none/resolve", {"reason": "lost"}), 404)


def test_a_young_probe_is_not_found_with_the_reason(client: Client) -> None:
    assert "within a minute" in problem(client.get(f"{API}/probes/1/1/0/0"), 404)["detail"]


def test_the_log_is_paged_by_offset_and_never_cuts_an_offset_with_two_claims(client: Client) -> None:
    where = {"cluster": "prod", "topic": "durability-canary", "partition": 1, "from": 12, "to": 25}
    offsets: list[int] = []
    more: dict[str, Any] = {}
    while True:
        body = client.get(f"{API}/log", **where, **more, limit=9).json()
        offsets += [item["offset"] for item in body["items"]]
        if body["next_cursor"] is None:
            break
        more = {"cursor": body["next_cursor"]}
    assert offsets == [12, 13, 14, 15, 16, 17, 18, 19, 20, 20, 21, 22, 23, 24]


def test_a_reconciliation_is_asked_for_and_found_again(client: Client) -> None:
    answer = client.post(f"{API}/reconciliations", {"cluster": "prod"})
    assert answer.status_code == 202
    assert answer.json()["state"] == "requested"
    assert answer.json()["progress"].startswith("waits for a scheduler"), "no scheduler may have the cluster"
    found = client.get(answer.headers["location"]).json()
    assert found["id"] == answer.json()["id"]
    assert [item["id"] for item in client.get(f"{API}/reconciliations").json()["items"]] == [found["id"]]
    problem(client.post(f"{API}/reconciliations", {"cluster": "nobody"}), 404)


def test_wrong_input_is_named(client: Client) -> None:
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("/violations", {"severity": "terrible"}),
        ("/violations", {"kind": "no-such-kind"}),
        ("/violations", {"limit": 0}),
        ("/violations", {"since": "yesterday"}),
        ("/violations", {"cursor": "!!"}),
        ("/violations", {"partition": -1}),
        ("/incidents", {"state": "gone"}),
        ("/log", {"cluster": "prod"}),
        ("/probes/x/1/0/0", {}),
        (f"/probes/{2**63}/1/0/0", {}),
    ]
    for path, params in wrong:
        assert problem(client.get(API + path, **params), 422)["detail"], (path, params)


def test_unknown_places_and_methods_are_problems_too(client: Client) -> None:
    problem(client.get(f"{API}/nothing"), 404)
    problem(client.get(f"{API}/clusters/nobody/summary"), 404)
    problem(client.get(f"{API}/violations/nobody"), 404)
    assert "GET" in client.ask("DELETE", f"{API}/violations").headers["allow"]
    problem(client.ask("DELETE", f"{API}/violations"), 405)


def test_a_body_that_is_no_json_is_a_problem(client: Client) -> None:
    answer = client.ask("POST", f"{API}/reconciliations", content=b"{", headers={"Content-Type": "application/json"})
    problem(answer, 422)


def refuse() -> None:
    raise StoreError("the store postgresql://… does not answer")


def crash() -> None:
    raise ZeroDivisionError("secret detail")


def test_a_store_that_refuses_is_503_everywhere() -> None:
    client = Client(create_app(settings("prod"), BrokenStore(refuse)))
    for path in PATHS:
        answer = client.get(API + path)
        assert "Probing goes on" in problem(answer, 503)["detail"], path
        assert answer.headers["retry-after"], path


def test_a_store_that_hangs_is_503_in_time() -> None:
    hangs = BrokenStore(lambda: threading.Event().wait(30))
    client = Client(create_app(settings("prod", store_timeout=0.0), hangs))
    began = time.monotonic()
    for _ in range(3):
        problem(client.get(f"{API}/violations"), 503)
    assert time.monotonic() - began < 25  # 1 s each; one that waited for the store would take 30


def test_an_error_of_our_own_tells_nobody_its_traceback() -> None:
    client = Client(create_app(settings("prod"), BrokenStore(crash)))
    answer = client.get(f"{API}/violations")
    problem(answer, 500)
    assert "secret detail" not in answer.text
    assert answer.headers["content-security-policy"]


def test_a_value_that_the_store_cannot_hold_is_the_askers_mistake() -> None:
    def hold_not() -> None:
        raise BadValueError("no text with a NUL")

    client = Client(create_app(settings("prod"), BrokenStore(hold_not)))
    assert "no text with a NUL" in problem(client.get(f"{API}/violations/%00"), 422)["detail"]


def test_health_needs_no_store() -> None:
    client = Client(create_app(settings("prod"), BrokenStore(refuse)))
    assert client.get("/healthz").status_code == 200
    problem(client.get("/readyz"), 503)


def test_ready_means_that_a_runner_reported_lately(client: Client, store: Store) -> None:
    assert client.get("/readyz").status_code == 200
    store.views.save("prod", "canary-0", time.time_ns() - 20_000_000_000, view())
    assert re.search(r"not reported for 2\d s", problem(client.get("/readyz"), 503)["detail"])
    idle = Client(create_app(settings("new"), store))
    assert "No runner has probed new yet. Start one" in problem(idle.get("/readyz"), 503)["detail"]
    assert "No runner" in problem(Client(create_app(settings(), store)).get("/readyz"), 503)["detail"]


def test_the_document_describes_every_route(client: Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert {f"{API}/violations/{{violation_id}}/acknowledge", f"{API}/log", "/healthz", "/readyz"} <= set(paths)


def test_a_list_is_written_as_its_shape_would_be(client: Client, store: Store) -> None:
    store.violations.record("prod", [lost(1), dataclasses.replace(lost(2), partition=None, offset=None, identity=None)])
    answer = client.get("/api/v1/violations")
    assert answer.json() == json.loads(Listing[ViolationOut].model_validate_json(answer.text).model_dump_json())
    one = answer.json()["items"][0]
    detail = client.get(f"/api/v1/violations/{one['id']}").json()
    assert {name: detail[name] for name in one} == one
