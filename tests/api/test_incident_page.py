from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from api import create_app
from api.knowledge.evidence import Survived, survived
from api.pages import incident as incident_page
from api.pages import status
from api.pages.incident import plotly_name
from api.pages.incident_list import SHOWN
from api.pages.pictures import timeline
from api.rest import topology
from api.shapes import moment
from canary.anomalies.topology_change import TopologyChange
from canary.anomalies.violation import Records
from storage.store.values import TopologySpan
from tests.api.serving import Client, ProbeLogFake, lost, settings

if TYPE_CHECKING:
    from canary.anomalies.violation import Violation
    from storage.store import Store

NOW = time.time_ns()
SECOND = 10**9


def changes() -> list[TopologyChange]:
    topic = "durability-canary"
    return [
        TopologyChange(NOW - 3600 * SECOND, "broker", "", 1, detail="a:9092"),
        TopologyChange(NOW - 3600 * SECOND, "partition", topic, 1, leader=1, replicas="1,2,3", isr="1,2,3"),
        TopologyChange(NOW - 30 * SECOND, "broker", "", 1),
        TopologyChange(NOW - 30 * SECOND, "partition", topic, 1, leader=2, replicas="1,2,3", isr="2,3"),
        TopologyChange(NOW - 10 * SECOND, "broker", "", 1, detail="a:9092"),
        TopologyChange(NOW - 5 * SECOND, "partition", topic, 1, leader=2, replicas="1,2,3", isr="1,2,3"),
    ]


@pytest.fixture
def incident(client: Client, store: Store) -> str:
    store.topology.record("prod", changes())
    store.violations.record("prod", [lost(1, at_ns=NOW), lost(2, at_ns=NOW + SECOND)])
    assert client.get("/").status_code == 200
    return store.incidents.page().items[0].id


def words(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL)))


def test_the_page_tells_without_a_script_what_happened_in_order(client: Client, incident: str) -> None:
    page = client.get(f"/incidents/{incident}")
    assert page.status_code == 200
    said = words(page.text)
    told = [
        "Broker 1 is gone",
        "is led by broker 2; in sync: 2, 3 of 3",
        "Broker 1 is there: a:9092",
        "2 writes, offsets 1,001 to 1,002",
    ]
    places = [said.index(one, said.index("Details")) for one in told]
    assert places == sorted(places)
    assert [
        one for one in ("Which writes", "Where", "Since when", "Why", "What else", "What now") if one not in said
    ] == []
    assert "Acknowledge" in said


def test_the_pictures_come_from_us_and_no_script_stands_in_the_page(client: Client, incident: str) -> None:
    page = client.get(f"/incidents/{incident}")
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"]
    for tag in re.findall(r"<script[^>]*>", page.text):
        assert 'type="application/json"' in tag or 'src="/' in tag
    script = client.get(plotly_name())
    assert script.status_code == 200
    assert "immutable" in script.headers["cache-control"]
    assert client.get("/scripts/plotly-0.js").status_code == 404
    assert "script-src" not in client.get("/").headers["content-security-policy"]


def test_what_stands_in_the_data_cannot_leave_its_element() -> None:
    span = TopologySpan("i", "c", "partition", "</script><b>", 0, 1, (1,), (1,), "", NOW, None)
    assert "</" not in timeline([span], [], moment(NOW), moment(NOW + SECOND))


def test_the_log_around_the_offset_is_shown(store: Store) -> None:
    found = lost(1, at_ns=NOW)
    store.violations.record(
        "prod", [type(found)(**{name: getattr(found, name) for name in found.__slots__} | {"offset": 20})]
    )
    client = Client(create_app(settings("prod"), store, ProbeLogFake()))
    said = words(client.get(f"/incidents/{store.incidents.page().items[0].id}").text)
    assert "The log around offset 20 of durability-canary-1" in said
    assert said.count("20 here") == 1, "which of the identities that claim it is the lost one"
    assert len(re.findall(r" 20 (?:here )?sequence", said)) == 2


def test_the_forms_acknowledge_and_resolve_and_go_back(client: Client, store: Store, incident: str) -> None:
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Origin": "http://canary"}
    place = f"/incidents/{incident}"
    answer = client.ask("POST", f"{place}/acknowledge", content="note=it+is+me", headers=headers)
    assert (answer.status_code, answer.headers["location"]) == (303, place)
    row = store.incidents.get(incident)
    assert row is not None
    assert (row.state, row.note) == ("acknowledged", "it is me")
    assert client.ask("POST", f"{place}/resolve", content="reason=nonsense", headers=headers).status_code == 422
    assert client.ask("POST", f"{place}/resolve", content="reason=lost", headers=headers).status_code == 303
    assert "Acknowledge or resolve" not in client.get(place).text
    assert client.ask("POST", f"{place}/resolve", content="reason=lost", headers={"Origin": "x"}).status_code == 403
    assert client.ask("POST", f"{place}/acknowledge", content=b"note=" + b"x" * 30_000).status_code == 413
    assert [action.action for action in store.actions.page().items] == ["refused", "resolve", "acknowledge"]


def test_an_incident_that_is_not_there_is_said_so(client: Client) -> None:
    assert client.get("/incidents/none").status_code == 404
    assert client.ask("POST", "/incidents/none/acknowledge").status_code == 404


def test_what_else_was_exposed_stands_in_the_page(client: Client, store: Store) -> None:
    alone = [
        TopologyChange(NOW - 60 * SECOND, "partition", topic, 1, leader=2, replicas="1,2,3", isr="2")
        for topic in ("durability-canary", "orders")
    ]
    back = [
        TopologyChange(NOW - 5 * SECOND, "partition", topic, 1, leader=1, replicas="1,2,3", isr="1,2,3")
        for topic in ("durability-canary", "orders")
    ]
    store.topology.record("prod", [*alone, *back])
    store.violations.record("prod", [lost(1, at_ns=NOW)])
    said = words(client.get(f"/incidents/{store.incidents.page().items[0].id}").text)
    assert "1 other partition had the same leader and shrunken ISR at that time" in said
    assert "orders-1 2 2 of 3" in said


def test_an_alarm_leads_to_the_only_incident_and_to_the_list_of_several(client: Client, store: Store) -> None:
    store.violations.record("prod", [lost(1, at_ns=NOW - 86_400 * SECOND)])
    first = store.incidents.page().items[0].id
    alone = client.get("/incidents", cluster="prod", kind="lost-write")
    assert (alone.status_code, alone.headers["location"]) == (303, f"/incidents/{first}")
    assert client.get("/incidents", cluster="prod").status_code == 200
    store.violations.record("prod", [lost(5000, at_ns=NOW)])
    several = client.get("/incidents", cluster="prod", kind="lost-write")
    assert several.status_code == 200
    assert len(re.findall(r'href="/incidents/\w+"', several.text)) == 2
    nothing = client.get("/incidents", cluster="other", kind="lost-write")
    assert words(nothing.text).count("None.") == 2
    store.incidents.resolve(first, "lost", NOW)
    assert client.get("/incidents", cluster="prod", kind="lost-write").status_code == 303


def test_an_alarm_leads_to_its_incident_however_many_newer_ones_there_are(client: Client, store: Store) -> None:
    store.violations.record("prod", [lost(1, at_ns=NOW - 86_400 * SECOND)])
    first = store.incidents.page().items[0].id
    newer = lost(1, at_ns=NOW, kind="under-replicated", severity="warning")
    store.violations.record("prod", [replace(newer, partition=number) for number in range(SHOWN)])
    assert client.get("/incidents", cluster="prod", kind="lost-write").headers["location"] == f"/incidents/{first}"


def test_the_status_page_counts_what_was_survived(client: Client, store: Store) -> None:
    store.topology.record("prod", changes())
    said = words(client.get("/").text)
    assert "probes: 1 leader election, 1 broker restart, 1 time short of replicas" in said


def test_what_was_counted_in_a_part_of_the_timeline_is_a_bound(
    client: Client, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.topology.record("prod", changes())
    monkeypatch.setattr(status, "SPANS", 2)
    assert "probes: at least 0 leader elections" in words(client.get("/").text)


def test_a_timeline_that_is_cut_says_so(client: Client, incident: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "The newest" not in words(client.get(f"/incidents/{incident}").text)
    monkeypatch.setattr(incident_page, "MOST_SPANS", 1)
    monkeypatch.setattr(topology, "MOST_SPANS", 1)
    said = words(client.get(f"/incidents/{incident}").text)
    assert "The newest 2 of 6 changes:" in said
    assert "There may be more: not the whole timeline was compared." in said


def test_other_topics_elections_are_not_survived_by_our_probes() -> None:
    def span(topic: str, at: int, leader: int) -> TopologySpan:
        return TopologySpan(f"{topic}{at}", "c", "partition", topic, 0, leader, (1, 2), (1, 2), "", at, None)

    spans = [span("other", 1, 1), span("other", 2, 2), span("ours", 3, 2), span("ours", 2, -1), span("ours", 1, 1)]
    assert survived(spans, frozenset({"ours"})) == Survived(elections=1)
    assert survived(spans[3:], frozenset({"ours"})) == Survived()


def test_an_incident_of_the_whole_cluster_is_shown_for_each_of_its_places(client: Client, store: Store) -> None:
    place = {"cluster": "prod", "topic": "durability-canary", "partition": "1"}
    assert "No incident" in client.get("/alerts/CanaryUnseenGrowing", **place).text
    store.violations.record("prod", [replace(lost(1, at_ns=NOW), kind="unwritable", identity=None, offset=None)])
    (wide,) = store.incidents.page().items
    assert (wide.topic, wide.partition) == ("", None)
    assert f"/incidents/{wide.id}" in client.get("/alerts/CanaryUnseenGrowing", **place).text


def test_a_loss_in_an_outage_is_the_first_thing_its_page_says(client: Client, store: Store) -> None:
    outage = replace(lost(0, at_ns=NOW), kind="offline-partition", offset=None, identity=None, summary="no leader")
    store.violations.record("prod", [outage])
    store.violations.record("prod", [lost(5, at_ns=NOW + 60 * SECOND)])
    (row,) = store.incidents.page().items
    page = client.get(f"/incidents/{row.id}").text
    assert "<h1>Lost write in prod</h1>" in page
    first = words(page.partition('id="timeline"')[0])
    assert "1 write, offset 1,005" in first
    assert "copies may survive" in first, "the advice is that for a loss"
    assert "offline-partition came first" in first
    found = client.get(f"/api/v1/incidents/{row.id}").json()
    assert (found["kind"], found["class"], found["lead_id"]) == ("lost-write", "data", outage.key("prod"))


@pytest.mark.dear("ten thousand violations")
def test_ten_thousand_lost_ranges_are_shown_at_their_true_size(client: Client, store: Store) -> None:
    def run(n: int) -> Violation:
        first = replace(lost(n * 30, at_ns=NOW + n), offset=n * 30)
        return first.about([Records(n * 30, 20, first.identity)])

    for begin in range(0, 10_000, 1000):
        store.violations.record("prod", [run(n) for n in range(begin, begin + 1000)])
    (row,) = store.incidents.page().items
    page = client.get(f"/incidents/{row.id}").text
    said = words(page)
    assert "200,000 writes are gone, in 10,000 ranges" in said
    assert "and 9,997 more" in said
    assert "The largest 20 of 10,000 ranges (200,000 writes):" in said
    assert "199,600 records more, in 9,980 smaller ranges" in said
    assert "The newest 200 of 10,000 violations" in said
    found = client.get(f"/api/v1/incidents/{row.id}").json()
    known = found["briefing"]
    assert (known["lost_records"], known["lost_ranges"], len(known["losses"])) == (200_000, 10_000, 20)
    assert (known["losses_total"], known["losses_truncated"]) == (10_000, True)
    assert (found["violations_total"], found["violations_truncated"], len(found["violations"])) == (10_000, True, 1000)
    answer = words(client.get("/").text)
    assert "prod · the largest 20 of 10,000 ranges (200,000 writes)" in answer
    assert "All open violations : 10,000" in answer


def test_an_alert_shows_its_worst_incident_and_a_runbook_that_is_filled_in(client: Client, store: Store) -> None:
    assert "No incident of this kind is known in prod." in client.get("/alerts/CanaryLostWrite", cluster="prod").text
    assert "CanaryVanished" in client.get("/alerts/CanaryAbsent", cluster="prod").text, "no shipped rule has its name"
    store.topology.record("prod", changes())
    store.violations.record("prod", [lost(1, at_ns=NOW), replace(lost(2, at_ns=NOW - SECOND), partition=0)])
    page = client.get("/alerts/CanaryLostWrite", cluster="prod").text
    (other, worst) = sorted(store.incidents.page().items, key=lambda one: one.first_ns)
    assert f'href="/incidents/{worst.id}#deal"' in page
    assert "1 more incident in prod" in words(page)
    assert "--bootstrap-server a:9092" in page
    assert "$BOOTSTRAP" not in page.partition("What the commands need")[2].partition("</pre>")[2]
    assert f"violations/{worst.head_id}" in page
    assert not re.search(r"\{(topic|partition|offset|violation|incident|cluster)\}", page)
    store.incidents.resolve_all([other.id, worst.id], "lost", NOW)
    assert "the last one is resolved (lost)" in words(client.get("/alerts/CanaryLostWrite", cluster="prod").text)
