"""A token for some clusters: at every route, what belongs to another cluster is as if it did not exist.

``DECISIONS`` says for each route what that means. A route without a decision fails.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import astuple, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fastapi.routing import iter_route_contexts

from api import create_app
from api.pages import rendering
from api.rest import stream
from canary.anomalies.topology_change import TopologyChange
from storage.probe_log.reading import ProbeLogReader
from storage.probe_log.schemas import POLLS, PROBES
from storage.store import Store
from tests.api.serving import Client, lost, settings, view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

S = 10**9
SHOWN = datetime.now(UTC)
TIME = {"from": (SHOWN - timedelta(hours=1)).isoformat(), "to": SHOWN.isoformat()}
SINCE = {"since": TIME["from"], "until": TIME["to"]}


@dataclass(frozen=True, slots=True)
class Place:
    """What the requests of a case name: of the other cluster, or of one that does not exist."""

    cluster: str
    producer: int
    violation: str = "0" * 32
    incident: str = "0" * 32
    reconciliation: str = "0" * 32
    window: str = "0" * 32
    everybody: str = "0" * 32


NOWHERE = Place("nowhere", 1)
PRODUCERS = {"mine": 4_000_000_000_000_001, "theirs": 4_000_000_000_000_002}


@dataclass(frozen=True, slots=True)
class Case:
    """A request, made from a place.

    ``rule``: "left out" of what is listed, not "there" at all (the answer is that about what does not exist), or "all":
    it needs a token for all clusters.
    """

    rule: Literal["left out", "there", "all"]
    path: Callable[[Place], str]
    more: Callable[[Place], dict[str, Any]] = lambda _: {}


def listed(path: str, **more: Any) -> Case:
    return Case("left out", lambda _: path, lambda _: more)


def there(path: Callable[[Place], str], more: Callable[[Place], dict[str, Any]] = lambda _: {}) -> Case:
    return Case("there", path, more)


def filtered(path: str, **params: Any) -> Case:
    return there(lambda _: path, lambda place: {"params": {"cluster": place.cluster, **params}})


API = "/api/v1"
DECISIONS: dict[str, Sequence[Case]] = {
    # these hold nothing of any cluster
    "GET /healthz": (),
    "GET /docs": (),
    "GET /openapi.json": (),
    "GET /runbooks": (),
    "GET /scripts/{name}": (),
    "GET /login": (),
    "GET /login/callback": (),
    "POST /logout": (),
    "MOUNT /static": (),
    # REST
    f"GET {API}/clusters": (listed(f"{API}/clusters"),),
    f"GET {API}/clusters/{{cluster}}/summary": (there(lambda place: f"{API}/clusters/{place.cluster}/summary"),),
    f"GET {API}/clusters/{{cluster}}/objectives": (there(lambda place: f"{API}/clusters/{place.cluster}/objectives"),),
    f"GET {API}/clusters/{{cluster}}/partitions": (there(lambda place: f"{API}/clusters/{place.cluster}/partitions"),),
    f"DELETE {API}/clusters/{{cluster}}": (
        Case("all", lambda place: f"{API}/clusters/{place.cluster}"),
        Case("all", lambda _: f"{API}/clusters/mine"),
    ),
    f"GET {API}/violations": (
        listed(f"{API}/violations"),
        listed(f"{API}/violations", params={"limit": 2}),
        filtered(f"{API}/violations"),
    ),
    f"GET {API}/violations/{{violation_id}}": (there(lambda place: f"{API}/violations/{place.violation}"),),
    f"POST {API}/violations/{{violation_id}}/acknowledge": (
        there(lambda place: f"{API}/violations/{place.violation}/acknowledge", lambda _: {"json": {"note": "x"}}),
    ),
    f"POST {API}/violations/{{violation_id}}/reopen": (
        there(lambda place: f"{API}/violations/{place.violation}/reopen", lambda _: {"json": {}}),
    ),
    f"GET {API}/violations/{{violation_id}}/export": (
        there(lambda place: f"{API}/violations/{place.violation}/export"),
    ),
    f"GET {API}/violations/{{violation_id}}/exposure": (
        there(lambda place: f"{API}/violations/{place.violation}/exposure"),
    ),
    f"GET {API}/incidents": (listed(f"{API}/incidents"), filtered(f"{API}/incidents")),
    f"GET {API}/incidents/{{incident_id}}": (there(lambda place: f"{API}/incidents/{place.incident}"),),
    f"GET {API}/incidents/{{incident_id}}/export": (there(lambda place: f"{API}/incidents/{place.incident}/export"),),
    f"POST {API}/incidents/{{incident_id}}/acknowledge": (
        there(lambda place: f"{API}/incidents/{place.incident}/acknowledge", lambda _: {"json": {}}),
    ),
    f"POST {API}/incidents/{{incident_id}}/resolve": (
        there(lambda place: f"{API}/incidents/{place.incident}/resolve", lambda _: {"json": {"reason": "false"}}),
    ),
    f"POST {API}/incidents/{{incident_id}}/reopen": (
        there(lambda place: f"{API}/incidents/{place.incident}/reopen", lambda _: {"json": {}}),
    ),
    f"GET {API}/incidents/{{incident_id}}/notifications": (
        there(lambda place: f"{API}/incidents/{place.incident}/notifications"),
    ),
    f"POST {API}/incidents/resolve": (
        there(
            lambda _: f"{API}/incidents/resolve",
            lambda place: {"json": {"ids": [place.incident], "reason": "false"}},
        ),
        there(
            lambda _: f"{API}/incidents/resolve",
            lambda place: {"json": {"filter": {"cluster": place.cluster}, "reason": "false"}},
        ),
    ),
    f"GET {API}/export": (filtered(f"{API}/export", **TIME),),
    f"GET {API}/maintenance": (listed(f"{API}/maintenance"),),
    f"POST {API}/maintenance": (
        there(
            lambda _: f"{API}/maintenance",
            lambda place: {"json": {"cluster": place.cluster, "reason": "x", "ends_at": _soon()}},
        ),
        Case("all", lambda _: f"{API}/maintenance", lambda _: {"json": {"reason": "x", "ends_at": _soon()}}),
    ),
    f"DELETE {API}/maintenance/{{maintenance_id}}": (
        there(lambda place: f"{API}/maintenance/{place.window}"),
        Case("all", lambda place: f"{API}/maintenance/{place.everybody}"),
    ),
    f"GET {API}/probes/{{producer}}/{{generation}}/{{partition}}/{{sequence}}": (
        there(lambda place: f"{API}/probes/{place.producer}/3/1/7"),
    ),
    f"GET {API}/log": (
        there(
            lambda _: f"{API}/log",
            lambda place: {"params": {"cluster": place.cluster, "topic": f"{place.cluster}-topic", "partition": 1}},
        ),
    ),
    f"GET {API}/unseen": (filtered(f"{API}/unseen", **SINCE),),
    f"GET {API}/topology": (listed(f"{API}/topology"), filtered(f"{API}/topology")),
    f"GET {API}/audit": (listed(f"{API}/audit"), filtered(f"{API}/audit")),
    f"GET {API}/groups": (listed(f"{API}/groups"), filtered(f"{API}/groups")),
    f"GET {API}/transactions": (listed(f"{API}/transactions"), filtered(f"{API}/transactions")),
    f"GET {API}/mirrors": (listed(f"{API}/mirrors"), filtered(f"{API}/mirrors")),
    f"GET {API}/reconciliations": (listed(f"{API}/reconciliations"), filtered(f"{API}/reconciliations")),
    f"GET {API}/reconciliations/{{reconciliation_id}}": (
        there(lambda place: f"{API}/reconciliations/{place.reconciliation}"),
    ),
    f"GET {API}/reconciliations/{{reconciliation_id}}/report": (
        there(lambda place: f"{API}/reconciliations/{place.reconciliation}/report"),
    ),
    f"POST {API}/reconciliations": (
        there(lambda _: f"{API}/reconciliations", lambda place: {"json": {"cluster": place.cluster}}),
    ),
    f"GET {API}/actions": (Case("all", lambda _: f"{API}/actions"),),
    f"GET {API}/drills": (listed(f"{API}/drills"),),
    f"POST {API}/drills/paged": (there(lambda _: f"{API}/drills/paged", lambda place: {"json": _firing(place)}),),
    f"GET {API}/stream": (listed(f"{API}/stream", headers={"Last-Event-ID": "0"}),),
    # metrics, health and pages
    "GET /metrics": (listed("/metrics"),),
    "GET /readyz": (listed("/readyz"),),
    "GET /": (listed("/"),),
    "GET /clusters/{name}": (there(lambda place: f"/clusters/{place.cluster}"),),
    "GET /audit": (listed("/audit"), filtered("/audit")),
    "GET /reconciliations": (listed("/reconciliations"), filtered("/reconciliations")),
    "GET /drills": (listed("/drills"),),
    "GET /runbooks/{name}": (filtered("/runbooks/lost-write"),),
    "GET /alerts/{name}": (filtered("/alerts/CanaryLostWrite"),),
    "GET /incidents": (listed("/incidents"), filtered("/incidents")),
    "GET /incidents/{incident_id}": (there(lambda place: f"/incidents/{place.incident}"),),
    "POST /incidents/{incident_id}/{what}": (
        there(lambda place: f"/incidents/{place.incident}/acknowledge"),
        there(lambda place: f"/incidents/{place.incident}/resolve", lambda _: {"data": {"reason": "lost"}}),
    ),
    "GET /violations/{violation_id}": (there(lambda place: f"/violations/{place.violation}"),),
}


def _soon() -> str:
    return (datetime.now(UTC) + timedelta(hours=1)).isoformat()


def _firing(place: Place) -> dict[str, Any]:
    return {"alerts": [{"status": "firing", "labels": {"alertname": "CanaryDrill", "cluster": place.cluster}}]}


def routes() -> list[str]:
    """Return every route of the application, also those that its OpenAPI document leaves out."""
    app = create_app(settings("mine"), cast("Store", object()), cast("ProbeLogReader", object()))
    found = []
    for route in iter_route_contexts(app.routes):
        methods: set[str] = getattr(route, "methods", None) or {"MOUNT"}
        found += [f"{method} {route.path}" for method in methods - {"HEAD"}]
    documented = [f"{one.upper()} {path}" for path, methods in app.openapi()["paths"].items() for one in methods]
    assert set(documented) < set(found)
    return sorted(found)


def show(store: Store, cluster: str, seen_ns: int) -> None:
    """Store what a runner of a cluster shows."""
    audit = {
        "findings": [{"check": "min-isr", "severity": "warning", "where": f"{cluster}-broker", "found": "1"}],
        "notes": [{"where": f"{cluster}-note", "text": "x"}],
        "at_ns": time.time_ns(),
    }
    named = view(audit=audit).replace(b"durability-canary", f"{cluster}-topic".encode())
    store.views.save(cluster, f"{cluster}-runner", seen_ns, named)


def fill(store: Store, cluster: str) -> None:
    """Store something of a cluster in every table, with the cluster's name in every text."""
    now = time.time_ns()
    if cluster == "theirs":
        show(store, cluster, now - 3600 * S)  # its runner is silent, as /readyz says
    found = [lost(n, at_ns=now - 600 * S + n) for n in range(3)]
    store.violations.record(cluster, [replace(one, topic=f"{cluster}-topic", summary=f"of {cluster}") for one in found])
    store.topology.record(
        cluster, [TopologyChange(now - 900 * S, "partition", f"{cluster}-topic", 1, leader=1, replicas="1,2", isr="1")]
    )
    store.maintenance.plan(cluster, now - S, now + 3600 * S, f"work on {cluster}", "ann")
    made = store.reconciliations.request(cluster, f"for {cluster}", now)
    store.reconciliations.claim("one", now)
    store.reconciliations.finish(made.id, "one", now, verdicts={"lost": 1}, report=f"{cluster}-report")
    store.reconciliations.keep_report(made.id, f"the report of {cluster}".encode())
    run = store.drills.begin(cluster, "duplicate", f"{cluster}-drill", now - S, now + 900 * S, "ann")
    store.drills.note(run.id, detected_ns=now)


def ship(directory: Path, cluster: str) -> None:
    """Write a probe of a cluster and its poll to the probe log."""
    place = {"cluster": cluster, "topic": f"{cluster}-topic", "topic_id": "x", "partition": 1}
    who = {"producer_id": PRODUCERS[cluster], "generation": 3, "sequence": 7}
    when = SHOWN - timedelta(minutes=10)
    sent = {"mode": "idempotent", "sent_at": when, "outcome": "acked", "offset": 17, "acked_at": when}
    polled = {"consumer_id": f"{cluster}-reader", "isolation": "read_committed", "offset": 17, "polled_at": when}
    for table, schema, row in (("probes", PROBES, sent), ("polls", POLLS, polled)):
        (directory / table).mkdir(parents=True, exist_ok=True)
        rows = pa.Table.from_pylist([{**place, **who, **row}], schema=schema)
        pq.write_table(rows, directory / table / f"{cluster}--r--ab-0000000001.parquet")


def everything(store: Store) -> list[Any]:
    """Return what of the other cluster, or of all clusters, a request could have changed."""
    pages: list[Any] = [store.violations, store.incidents, store.maintenance, store.reconciliations, store.drills]
    return [row for one in pages for row in one.page().items if row.cluster != "mine"] + store.retention.clusters()


class Clock:
    """What a stream waits by: it has waited as long as it may when it has looked once."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s

    async def sleep(self, _: float) -> None:
        self.now_s += stream.LONGEST_S


@dataclass(frozen=True, slots=True)
class House:
    """Two clusters, a token for one of them, and one for both."""

    store: Store
    client: Client
    theirs: Place
    limited: str
    whole: str

    def ask(self, token: str, method: str, case: Case, place: Place) -> Any:
        more = dict(case.more(place))
        headers = {"Authorization": f"Bearer {token}", **more.pop("headers", {})}
        return self.client.ask(method, case.path(place), headers=headers, **more)


@dataclass(frozen=True, slots=True)
class Filled:
    """A folder with a store and a probe log in which both clusters have something, of which each test takes a copy."""

    folder: Path
    theirs: Place
    limited: str
    whole: str


@pytest.fixture(scope="module")
def filled(migrated: Path, tmp_path_factory: pytest.TempPathFactory) -> Filled:
    folder = tmp_path_factory.mktemp("filled")
    shutil.copy(migrated, folder / "store.db")
    with Store.connect(f"sqlite:///{folder}/store.db", timeout=60) as store:
        for cluster in ("mine", "theirs"):
            fill(store, cluster)
            ship(folder / "log", cluster)
        now = time.time_ns()
        everybody = store.maintenance.plan(None, now - S, now + 3600 * S, "all", "ann")
        (incident,) = (row for row in store.incidents.page().items if row.cluster == "theirs")
        theirs = Place(
            "theirs",
            PRODUCERS["theirs"],
            next(row.id for row in store.violations.page().items if row.cluster == "theirs"),
            incident.id,
            next(row.id for row in store.reconciliations.page().items if row.cluster == "theirs"),
            next(row.id for row in store.maintenance.page().items if row.cluster == "theirs"),
            everybody.id,
        )
        limited, _ = store.tokens.create("limited", "operate", now, clusters=["mine"])
        whole, _ = store.tokens.create("whole", "operate", now)
    return Filled(folder, theirs, limited, whole)


@pytest.fixture
def house(
    filled: Filled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[House]:
    clock = Clock()
    monkeypatch.setattr(stream, "time", clock)
    monkeypatch.setattr(stream, "asyncio", clock)
    monkeypatch.setitem(rendering._ENVIRONMENT.globals, "utc_now", lambda: "now")
    caches = getattr(request, "param", {})
    told = settings("mine", "theirs", auth={"required": "always"}, **caches)
    shutil.copy(filled.folder / "store.db", tmp_path / "store.db")
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=60) as store:
        show(store, "mine", time.time_ns())
        client = Client(create_app(told, store, ProbeLogReader(str(filled.folder / "log"))))
        yield House(store, client, filled.theirs, filled.limited, filled.whole)


@pytest.mark.dear("asks each route, and as each token")
@pytest.mark.parametrize("route", routes())
def test_a_route_gives_nothing_of_another_cluster(house: House, route: str) -> None:
    assert route in DECISIONS, "decide what a token for some clusters may see of it"
    method = route.partition(" ")[0]
    before = everything(house.store)
    for case in DECISIONS[route]:
        answer = house.ask(house.limited, method, case, house.theirs)
        if case.rule == "left out":
            assert answer.status_code == 200
            assert "theirs" not in answer.text
            assert "mine" in answer.text or route == "GET /readyz"
        elif case.rule == "all":
            assert (answer.status_code, "canary token create" in answer.json()["detail"]) == (403, True)
        else:
            unknown = house.ask(house.limited, method, case, NOWHERE)
            hidden = set(astuple(house.theirs)) - {house.theirs.everybody}
            assert [name for name in hidden if str(name) in unknown.text] == []
            assert (answer.status_code, as_nowhere(answer.text, house.theirs)) == (
                unknown.status_code,
                as_nowhere(unknown.text, house.theirs),
            )
    assert everything(house.store) == before


def as_nowhere(text: str, theirs: Place) -> str:
    """Return an answer with what the request named replaced: the rest has to be that about what does not exist."""
    for name in theirs.__dataclass_fields__:
        text = text.replace(str(getattr(theirs, name)), str(getattr(NOWHERE, name)))
    return text


@pytest.mark.dear("asks each route")
@pytest.mark.parametrize("route", [route for route, cases in DECISIONS.items() if cases])
def test_a_token_for_all_clusters_sees_what_the_other_test_looks_for(house: House, route: str) -> None:
    method = route.partition(" ")[0]
    for case in DECISIONS[route]:
        if route.startswith("DELETE /api/v1/clusters"):
            continue  # it deletes what the next case asks for
        answer = house.ask(house.whole, method, case, house.theirs)
        if case.rule == "left out":
            assert "theirs" in answer.text
        else:
            unknown = house.ask(house.whole, method, case, NOWHERE)
            assert answer.status_code < 400 or answer.status_code == 409, "it is there"
            assert case.rule == "all" or as_nowhere(answer.text, house.theirs) != unknown.text or method == "POST"


def test_every_decision_is_about_a_route() -> None:
    assert set(DECISIONS) <= set(routes())


def test_totals_and_pages_count_what_may_be_seen_alone(house: House) -> None:
    headers = {"Authorization": f"Bearer {house.limited}"}
    first = house.client.ask("GET", f"{API}/violations", params={"limit": 2}, headers=headers).json()
    cursor = {"limit": 2, "cursor": first["next_cursor"]}
    second = house.client.ask("GET", f"{API}/violations", params=cursor, headers=headers).json()
    assert ([len(page["items"]) for page in (first, second)], second["next_cursor"]) == ([2, 1], None)
    page = house.client.ask("GET", "/", headers=headers).text
    assert "<dt>Lost, ever</dt><dd>3</dd>" in page
    whole = house.client.ask("GET", "/", headers={"Authorization": f"Bearer {house.whole}"}).text
    assert "<dt>Lost, ever</dt><dd>6</dd>" in whole


@pytest.mark.parametrize("house", [{"answers_cache": "5s", "metrics_cache": "10s"}], indirect=True)
def test_a_kept_answer_is_given_only_to_those_who_may_see_the_same(house: House) -> None:
    for path in (f"{API}/violations", "/metrics", f"{API}/stream", "/"):
        for token, seen in ((house.whole, True), (house.limited, False), (house.whole, True)):
            headers = {"Authorization": f"Bearer {token}", "Last-Event-ID": "0"}
            assert ("theirs" in house.client.ask("GET", path, headers=headers).text) is seen, path


def test_a_token_for_a_cluster_that_is_not_there_yet_sees_nothing_and_breaks_nothing(house: House) -> None:
    early, _ = house.store.tokens.create("early", "read", time.time_ns(), clusters=["later"])
    for route, cases in DECISIONS.items():
        for case in cases:
            if case.rule == "left out":
                answer = house.ask(early, route.partition(" ")[0], case, house.theirs)
                assert answer.status_code == (503 if route == "GET /readyz" else 200), route
                assert not {"theirs", "mine"} & set(answer.text.replace('"', " ").replace("-", " ").split()), route


def test_a_refusal_for_want_of_all_clusters_is_recorded_and_nothing_is_noted_before(house: House) -> None:
    house.client.ask("DELETE", f"{API}/clusters/theirs", headers={"Authorization": f"Bearer {house.limited}"})
    (action,) = house.store.actions.page().items
    assert (action.actor, action.action, action.target) == ("limited", "refused", f"DELETE {API}/clusters/theirs")


def test_the_own_cluster_is_operated_as_before(house: House) -> None:
    headers = {"Authorization": f"Bearer {house.limited}"}
    window = {"cluster": "mine", "reason": "x", "ends_at": _soon()}
    planned = house.client.post(f"{API}/maintenance", window, headers=headers)
    assert planned.status_code == 201
    assert house.client.ask("DELETE", planned.headers["location"], headers=headers).status_code == 200
    (own,) = house.client.ask("GET", f"{API}/incidents", headers=headers).json()["items"]
    resolved = house.client.post(f"{API}/incidents/{own['id']}/resolve", {"reason": "lost"}, headers=headers)
    assert (resolved.status_code, len(resolved.json()["violations"])) == (200, 3)
    assert house.client.post(f"{API}/reconciliations", {"cluster": "mine"}, headers=headers).status_code == 202
    everybody = next(
        one
        for one in house.client.ask("GET", f"{API}/maintenance", headers=headers).json()["items"]
        if not one["cluster"]
    )
    assert everybody["reason"] == "all", "a window of all clusters is one of this cluster, too"
