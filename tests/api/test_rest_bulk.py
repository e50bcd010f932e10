"""Reopening, resolving many at once, reports, HEAD, what does not exist, and who may do what."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from api import create_app
from api.rest import incidents
from storage.store.receivers import Interest
from tests.api.serving import NOW_NS, Client, ProbeLogFake, lost, settings, view

if TYPE_CHECKING:
    from storage.store import Store

API = "/api/v1"


def places(store: Store, *partitions: int, cluster: str = "prod") -> list[str]:
    """Record a loss in each partition; return the incidents' ids, in their order."""
    ids = []
    for number in partitions:
        found = replace(lost(number), partition=number)
        store.violations.record(cluster, [found])
        ids.append(found.key(cluster))
    return ids


def states(client: Client) -> dict[str, str]:
    return {one["id"]: one["state"] for one in client.get(f"{API}/incidents").json()["items"]}


def test_many_incidents_are_resolved_by_their_ids_with_one_reason_and_one_action(store: Store, client: Client) -> None:
    first, second, third = places(store, 1, 2, 3)
    answer = client.post(f"{API}/incidents/resolve", {"ids": [first, second, first], "reason": "planned", "note": "w"})
    assert (answer.status_code, answer.json()) == (200, {"ids": [first, second]})
    assert states(client) == {first: "resolved", second: "resolved", third: "open"}
    violation = client.get(f"{API}/violations/{first}").json()
    assert (violation["state"], violation["planned"]) == ("resolved", True)
    (action,) = client.get(f"{API}/actions").json()["items"]
    assert (action["action"], action["target"]) == ("resolve", "2 incidents")
    assert action["detail"] == {"reason": "planned", "note": "w", "incidents": [first, second]}


def test_of_many_one_that_does_not_exist_leaves_all_as_they_were(store: Store, client: Client) -> None:
    (first,) = places(store, 1)
    answer = client.post(f"{API}/incidents/resolve", {"ids": [first, "0" * 32], "reason": "false"})
    assert answer.status_code == 404
    assert "0" * 32 in answer.json()["detail"]
    assert states(client) == {first: "open"}
    assert client.get(f"{API}/actions").json()["items"] == [], "nothing was done"


def test_many_incidents_are_resolved_by_filters(store: Store, client: Client) -> None:
    store.views.save("other", "canary-0", time.time_ns(), view())
    first, second = places(store, 1, 2)
    (other,) = places(store, 1, cluster="other")
    store.incidents.acknowledge(first)

    def resolve(**wanted: Any) -> list[str]:
        answer = client.post(f"{API}/incidents/resolve", {"filter": wanted, "reason": "false"})
        assert answer.status_code == 200, answer.text
        return sorted(answer.json()["ids"])

    assert resolve(cluster="prod", severity="warning") == []
    assert resolve(cluster="prod", kind="stalled") == []
    assert resolve(cluster="prod", until="2020-01-01T00:00:00Z") == []
    assert resolve(cluster="prod", kind="lost-write") == sorted([first, second]), "acknowledged ones are not resolved"
    assert states(client)[other] == "open"
    assert resolve(partition=1) == [other]
    unknown = client.post(f"{API}/incidents/resolve", {"filter": {"cluster": "prd"}, "reason": "false"})
    assert (unknown.status_code, "there are: prod" in unknown.json()["detail"]) == (404, True)


@pytest.mark.parametrize(
    "body",
    [
        {"reason": "false"},
        {"reason": "false", "ids": []},
        {"reason": "false", "filter": {}},
        {"reason": "false", "ids": ["a"], "filter": {"cluster": "prod"}},
        {"reason": "false", "ids": [f"{n:032}" for n in range(501)]},
        {"reason": "ended", "ids": ["a"]},
        {"ids": ["a"]},
    ],
)
def test_what_would_resolve_everything_or_is_unclear_is_refused(store: Store, client: Client, body: Any) -> None:
    (first,) = places(store, 1)
    answer = client.post(f"{API}/incidents/resolve", body)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert states(client) == {first: "open"}


def test_more_than_may_be_resolved_at_once_resolves_none(
    store: Store, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incidents, "MOST_RESOLVED", 2)
    ids = places(store, 1, 2, 3)
    answer = client.post(f"{API}/incidents/resolve", {"filter": {"cluster": "prod"}, "reason": "false"})
    assert (answer.status_code, "more than 2 incidents fit" in answer.json()["detail"]) == (422, True)
    assert states(client) == dict.fromkeys(ids, "open")


def test_an_incident_that_was_resolved_is_open_again_and_counts_again(store: Store, client: Client) -> None:
    (one,) = places(store, 1)
    early = client.post(f"{API}/incidents/{one}/reopen", {})
    assert early.status_code == 409, "it is open"
    store.incidents.resolve(one, "false", NOW_NS)
    answer = client.post(f"{API}/incidents/{one}/reopen", {"note": "it is gone"})
    assert (answer.status_code, answer.json()["state"], answer.json()["reason"]) == (200, "open", None)
    (violation,) = answer.json()["violations"]
    assert (violation["state"], violation["note"]) == ("open", "it is gone")
    assert 'canary_violations_open{cluster="prod",kind="lost-write",severity="critical"} 1.0' in (
        client.get("/metrics").text
    )
    assert client.get(f"{API}/actions").json()["items"][0]["target"] == f"incident {one}"


def test_a_violation_that_is_open_again_opens_its_incident_and_no_other_violation(store: Store, client: Client) -> None:
    store.violations.record("prod", [lost(1), lost(2)])
    first, second = lost(1).key("prod"), lost(2).key("prod")
    row = store.violations.get(first)
    assert row is not None
    store.incidents.resolve(row.incident_id, "planned", NOW_NS)
    answer = client.post(f"{API}/violations/{second}/reopen", {})
    assert (answer.status_code, answer.json()["state"]) == (200, "open")
    assert client.get(f"{API}/violations/{first}").json()["state"] == "resolved"
    assert states(client) == {row.incident_id: "open"}


def test_a_condition_that_ended_is_not_opened_by_a_person(store: Store, client: Client) -> None:
    holds = replace(lost(1), kind="stalled", offset=None, identity=None, records=(), evidence={"since_ns": NOW_NS})
    store.violations.record("prod", [holds])
    key = holds.key("prod")
    store.incidents.resolve(key, "false", NOW_NS)
    assert client.post(f"{API}/violations/{key}/reopen", {}).status_code == 200, "it still holds"
    store.incidents.resolve(key, "false", NOW_NS)
    store.violations.end([key], NOW_NS + 1)
    for what in ("violations", "incidents"):
        answer = client.post(f"{API}/{what}/{key}/reopen", {})
        assert (answer.status_code, "has ended since" in answer.json()["detail"]) == (409, True)
    assert states(client) == {key: "resolved"}


def test_the_report_of_a_reconciliation_is_a_page_without_scripts(store: Store, client: Client) -> None:
    made = store.reconciliations.request("prod", "ann", NOW_NS)
    missing = client.get(f"{API}/reconciliations/{made.id}/report")
    assert (missing.status_code, "(requested)" in missing.json()["detail"]) == (404, True)
    page = "<!doctype html><title>Reconciliation: nothing lost</title>" + "ä" * 10_000
    assert store.reconciliations.keep_report(made.id, page.encode())
    assert store.reconciliations.keep_report(made.id, page.encode()), "kept again after an interruption"
    shown = client.get(f"{API}/reconciliations/{made.id}/report")
    assert (shown.status_code, shown.text) == (200, page)
    assert shown.headers["content-type"] == "text/html; charset=utf-8"
    assert {"default-src 'none'", "sandbox"} <= set(shown.headers["content-security-policy"].split("; "))


def test_who_was_told_of_an_incident(store: Store, client: Client) -> None:
    (one,) = places(store, 1)
    path = f"{API}/incidents/{one}/notifications"
    assert client.get(path).json() == {"items": [], "next_cursor": None}
    store.notifications.register(["pager"], NOW_NS)
    store.notifications.look(Interest("pager", frozenset({"critical"})), NOW_NS)
    (waiting,) = client.get(path).json()["items"]
    assert (waiting["receiver"], waiting["change"], waiting["state"]) == ("pager", "opened", "waiting")
    assert waiting["next_attempt_at"] == waiting["made_at"]
    store.notifications.delivered(waiting["id"], NOW_NS)
    (told,) = client.get(path).json()["items"]
    assert (told["state"], told["attempts"], told["next_attempt_at"]) == ("delivered", 1, None)


GETS = ("/healthz", "/metrics", "/docs", f"{API}/clusters", f"{API}/violations?limit=1", "/", "/incidents")


@pytest.mark.parametrize("path", GETS)
def test_head_is_answered_as_get_is_without_a_body(client: Client, path: str) -> None:
    whole, head = client.get(path), client.ask("HEAD", path)
    assert (head.status_code, head.content) == (whole.status_code, b"")
    own = {"etag", "content-type", "cache-control", "content-security-policy"}
    assert {name: head.headers.get(name) for name in own if name != "etag" or "/api/" in path} == {
        name: whole.headers.get(name) for name in own if name != "etag" or "/api/" in path
    }


def test_head_of_a_stream_ends(client: Client) -> None:
    head = client.ask("HEAD", f"{API}/stream")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"].startswith("text/event-stream")
    assert not client.app.state.canary.streams.open


def test_head_is_no_way_around_post(client: Client) -> None:
    assert client.ask("HEAD", f"{API}/incidents/resolve").status_code in {404, 405}


def test_what_does_not_exist_is_answered_with_the_nearest(store: Store, client: Client) -> None:
    first, _ = places(store, 1, 2)

    def detail(path: str) -> str:
        answer = client.get(path)
        assert answer.status_code == 404
        return str(answer.json()["detail"])

    assert f"the nearest: {first}." in detail(f"{API}/incidents/{first[:12]}")
    assert f"the nearest: {first}." in detail(f"{API}/violations/{first[:-1]}")
    assert first in detail(f"{API}/incidents/nothing-like-it")
    assert "the newest: none yet." in detail(f"{API}/reconciliations/x")
    assert "there are: prod." in detail(f"{API}/clusters/prdo/summary")
    assert len(detail(f"{API}/incidents/{'x' * 5000}")) < 8000


def test_at_most_twenty_names_are_told_and_the_nearest_first(store: Store) -> None:
    names = [f"region-{number:02}" for number in range(30)]
    client = Client(create_app(settings(*names), store, ProbeLogFake()))
    said = client.get(f"{API}/clusters/regoin-27/summary").json()["detail"]
    assert said.partition("there are: ")[2].startswith("region-27, ")
    assert said.count("region-") == 20
    assert said.endswith(" and 10 more.")


def test_openapi_says_what_each_route_needs(client: Client) -> None:
    document = client.get("/openapi.json").json()
    schemes = document["components"]["securitySchemes"]
    assert schemes["token"] | {"description": ""} == {"type": "http", "scheme": "bearer", "description": ""}
    assert (schemes["session"]["type"], schemes["session"]["in"]) == ("apiKey", "cookie")
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            scope = "read" if method == "get" else "operate"
            expected = [] if path == "/healthz" else [{"token": [scope]}, {"session": [scope]}]
            assert operation["security"] == expected, (method, path)
            assert operation["description"].count("Needs ") >= 1
            taken = operation.get("requestBody", {}).get("content", {}).get("application/json")
            if taken is not None:
                shape = document["components"]["schemas"][taken["schema"]["$ref"].rsplit("/", 1)[1]]
                assert shape["examples"], path
    again = client.get("/openapi.json").json()
    assert again == document
    shown = client.get("/docs").text
    assert '"reason": "planned"' in shown
    assert "Needs the scope operate." in shown
