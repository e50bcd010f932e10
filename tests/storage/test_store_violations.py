from __future__ import annotations

import contextlib
import dataclasses
import threading
from typing import Any

import pytest

from canary.anomalies.violation import SENT_AGAIN, Records, SightedBy, Violation
from canary.probe.identity import Identity
from storage.store import Store
from storage.store.cursors import BadCursorError, Excerpt
from storage.store.errors import BadValueError
from storage.store.repositories import violations
from storage.store.values import Incident, IncidentFilter, Sighting, ViolationCount, ViolationFilter, ViolationRange

MINUTE = 60_000_000_000
T0 = 1_760_000_000_000_000_000


def lost(offset: int, at_ns: int = T0, by: SightedBy = "online", **changes: Any) -> Violation:
    violation = Violation(
        kind="lost-write",
        severity="critical",
        topic="t",
        topic_id="T1",
        partition=0,
        offset=offset,
        identity=Identity(7, 1, 0, offset),
        mode="idempotent",
        at_ns=at_ns,
        by=by,
        summary=f"offset {offset} is gone",
        evidence={"acked_at": 1},
    )
    return dataclasses.replace(violation, **changes)


def test_a_violation_is_new_once(store: Store) -> None:
    assert store.violations.record("c", [lost(1), lost(2), lost(1)]) == 2
    assert store.violations.record("c", [lost(1), lost(3)]) == 1
    assert store.violations.record("d", [lost(1)]) == 1
    assert store.violations.counts() == [
        ViolationCount("c", "lost-write", "critical", 3, 3),
        ViolationCount("d", "lost-write", "critical", 1, 1),
    ]


def test_everything_said_of_a_violation_comes_back(store: Store) -> None:
    awkward = {"why": "a\x00b\ud800", "rate": float("nan"), "deep": [1, {"x": None}], "id": 2**63 - 1, "big": 2**70}
    violation = lost(4, summary="NUL \x00 and half \ud800", evidence=awkward)
    store.violations.record("c", [violation])
    kept = store.violations.get(violation.key("c"))
    assert kept is not None
    assert (kept.kind, kept.severity, kept.cluster, kept.topic, kept.topic_id) == (
        "lost-write",
        "critical",
        "c",
        "t",
        "T1",
    )
    assert (kept.partition, kept.offset, kept.identity, kept.mode) == (0, 4, Identity(7, 1, 0, 4), "idempotent")
    assert (kept.state, kept.first_seen_ns, kept.last_seen_ns) == ("open", T0, T0)
    assert kept.sightings == (Sighting("online", T0),)
    assert kept.summary.startswith("NUL ")
    assert kept.evidence["deep"] == [1, {"x": None}]
    assert kept.evidence["id"] == 2**63 - 1
    assert kept.evidence["big"] == str(2**70)
    assert kept.evidence["rate"] is None
    assert store.violations.page().items[0].evidence == {}
    assert store.violations.get("unknown") is None


def test_a_sighting_is_kept_for_a_new_witness_or_a_later_time_only(store: Store) -> None:
    store.violations.record("c", [lost(1)])
    store.violations.record("c", [lost(1)])
    store.violations.record("c", [lost(1, T0 + 5), lost(1, T0 - 5), lost(1, T0 + 3, "reconcile")])
    kept = store.violations.get(lost(1).key("c"))
    assert kept is not None
    assert kept.sightings == (Sighting("online", T0), Sighting("online", T0 + 5), Sighting("reconcile", T0 + 3))
    assert (kept.first_seen_ns, kept.last_seen_ns) == (T0 - 5, T0 + 5)


def test_a_condition_seen_for_days_keeps_its_first_sightings_and_its_last(store: Store) -> None:
    for n in range(50):
        store.violations.record("c", [lost(1, T0 + n)])
    kept = store.violations.get(lost(1).key("c"))
    assert kept is not None
    assert len(kept.sightings) == 10
    assert (kept.sightings[0].at_ns, kept.sightings[-1].at_ns) == (T0, T0 + 49)


def test_a_copy_that_the_client_made_is_not_made_worse_by_who_does_not_know_that(store: Store) -> None:
    store.violations.record("c", [lost(1, kind="duplicate", severity="warning", evidence={SENT_AGAIN: True})])
    assert store.violations.record("c", [lost(1, T0 + 1, kind="duplicate", severity="critical", by="reconcile")]) == 0
    (kept,) = store.violations.page().items
    assert (kept.severity, len(kept.sightings)) == ("warning", 2)
    assert [incident.severity for incident in store.incidents.page().items] == ["warning"]


def test_a_violation_becomes_worse_and_never_milder(store: Store) -> None:
    store.violations.record("c", [lost(1, severity="warning")])
    assert store.violations.record("c", [lost(1, T0 + 1, severity="critical")]) == 0
    store.violations.record("c", [lost(1, T0 + 2, severity="info")])
    kept = store.violations.get(lost(1).key("c"))
    assert kept is not None
    assert kept.severity == "critical"
    assert [incident.severity for incident in store.incidents.page().items] == ["critical"]
    assert store.violations.counts() == [
        ViolationCount("c", "lost-write", "critical", 1, 1),
        ViolationCount("c", "lost-write", "warning", 1, 0),  # a counter never falls
    ]


def test_an_unconfirmed_violation_is_confirmed_and_not_taken_back(store: Store) -> None:
    store.violations.record("c", [lost(1, evidence={"confirmed": False, "why": "no answer for 5 s"})])
    store.violations.record("c", [lost(1, T0 + 1, evidence={"confirmed": True, "read": "absent"}, summary="confirmed")])
    store.violations.record("c", [lost(1, T0 + 2, evidence={"confirmed": False})])
    kept = store.violations.get(lost(1).key("c"))
    assert kept is not None
    assert kept.evidence == {"confirmed": True, "read": "absent", "why": "no answer for 5 s"}
    assert kept.summary == "confirmed"


def test_violations_of_one_place_and_time_share_an_incident_led_by_the_first(store: Store) -> None:
    store.violations.record("c", [lost(2, T0 + MINUTE), lost(3, T0 + 9 * MINUTE)])
    store.violations.record("c", [lost(1, T0, kind="truncation"), lost(4, T0 + 30 * MINUTE), lost(5, T0, partition=1)])
    rows = {row.offset: row.incident_id for row in store.violations.page().items}
    assert rows[1] == rows[2] == rows[3] == lost(2).key("c")
    assert len(set(rows.values())) == 3
    first = store.incidents.get(rows[1])
    assert first is not None
    assert (first.kind, first.lead_id) == ("truncation", lost(1, kind="truncation").key("c"))
    assert (first.first_ns, first.last_ns) == (T0, T0 + 9 * MINUTE)
    assert [row.offset for row in store.violations.page(ViolationFilter(incident_id=rows[1])).items] == [3, 2, 1]


def stored(store: Store) -> Incident:
    (one,) = store.incidents.page().items
    return one


def offline(at_ns: int = T0) -> Violation:
    changes: dict[str, Any] = {"identity": None, "mode": None, "summary": "no leader"}
    return lost(0, at_ns, kind="offline-partition", evidence={"since_ns": at_ns}, **changes)


def test_the_worst_that_is_open_heads_an_incident_whatever_came_first(store: Store) -> None:
    loss = lost(7, T0 + MINUTE)
    store.violations.record("c", [offline()])
    store.violations.record("c", [loss])
    store.violations.record("c", [lost(9, T0 + 2 * MINUTE), lost(8, T0, kind="duplicate")])
    found = stored(store)
    assert (found.kind, found.severity, found.class_) == ("lost-write", "critical", "data")
    assert (found.head_id, found.head_ns, found.summary) == (loss.key("c"), T0 + MINUTE, "offset 7 is gone")
    assert (found.lead_id, found.first_ns) == (offline().key("c"), T0)
    store.violations.end([offline().key("c")], T0 + 3 * MINUTE)
    assert stored(store).head_id == loss.key("c")


def test_what_has_ended_no_longer_heads_and_heads_again_when_all_is_over(store: Store) -> None:
    few = lost(0, T0 + 1, kind="under-replicated", severity="warning")
    store.violations.record("c", [offline(), few])
    assert stored(store).kind == "offline-partition"
    store.violations.end([offline().key("c")], T0 + MINUTE)
    assert (stored(store).kind, stored(store).severity, stored(store).state) == ("under-replicated", "warning", "open")
    store.violations.end([few.key("c")], T0 + MINUTE)
    assert (stored(store).kind, stored(store).state) == ("offline-partition", "resolved")
    store.violations.record("c", [lost(0, T0 + 2 * MINUTE, kind="stalled", severity="warning", summary="it stands")])
    assert (stored(store).kind, stored(store).severity, stored(store).summary) == ("stalled", "warning", "it stands")


def test_what_was_planned_heads_only_where_nothing_else_is_open(store: Store) -> None:
    store.maintenance.plan("c", T0 - MINUTE, T0 + MINUTE, "disks", "ann")
    store.violations.record("c", [offline()])
    assert (stored(store).kind, stored(store).state) == ("offline-partition", "acknowledged")
    store.violations.record("c", [lost(2, T0 + 2 * MINUTE, kind="stalled", severity="warning")])
    assert (stored(store).kind, stored(store).severity, stored(store).state) == ("stalled", "warning", "open")


def test_a_violation_that_becomes_worse_says_what_is_worse(store: Store) -> None:
    store.violations.record("c", [lost(1, severity="warning", summary="mild", evidence={"modes": 1})])
    store.violations.record("c", [lost(1, T0 + 1, summary="bad", evidence={"modes": 2})])
    kept = store.violations.get(lost(1).key("c"))
    assert kept is not None
    assert (kept.summary, kept.evidence) == ("bad", {"modes": 2})
    assert (stored(store).summary, stored(store).severity) == ("bad", "critical")


def test_many_incidents_are_cut_at_the_mildest_and_their_total_is_said(store: Store) -> None:
    milder = [lost(n, T0 + n, kind="stalled", severity="warning", partition=n) for n in range(1, 9)]
    store.violations.record("c", [lost(0, T0 - MINUTE, partition=0), *milder])
    store.violations.record("d", [lost(1)])
    rows, totals = store.incidents.worst(3)
    assert [(row.cluster, row.partition) for row in rows] == [("d", 0), ("c", 0), ("c", 8), ("c", 7)]
    assert totals == {"c": 9, "d": 1}
    assert store.incidents.worst(3, IncidentFilter(kind="stalled"))[1] == {"c": 8}


def test_the_true_size_of_a_loss_is_known_however_many_violations_say_it(store: Store) -> None:
    runs = [lost(n * 10, T0, records=(Records(n * 10, 2, Identity(7, 1, 0, n * 10)),)) for n in range(1200)]
    store.violations.record("c", [*runs, lost(5, T0 + 1, kind="stalled", severity="warning")])
    loss, other = store.violations.of_incident(stored(store).id)
    assert (loss.first.kind, loss.violations, loss.records) == ("lost-write", 1200, 2400)
    assert (other.first.kind, other.violations, other.records) == ("stalled", 1, 1)
    ranges = store.violations.ranges(ViolationFilter(incident_id=stored(store).id), ["lost-write"], 50)
    assert (len(ranges.items), ranges.total, ranges.truncated) == (50, 1200, True)
    assert ranges.words("largest", "ranges") == "the largest 50 of 1,200 ranges"


def test_neighbouring_losses_are_one_range_and_the_largest_comes_first(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ranges() -> Excerpt[ViolationRange]:
        return store.violations.ranges(ViolationFilter(cluster="c"), ["lost-write"], 3)

    def run(offset: int, size: int) -> Violation:
        return lost(offset, T0 + offset, records=(Records(offset, size, Identity(7, 1, 0, offset)),))

    store.violations.record("c", [lost(99), *(lost(n, T0 + 9 - n) for n in range(10)), run(11, 5), run(16, 3)])
    store.violations.record("d", [run(10, 5)])
    found = [(one.first.offset, one.last.last_offset, one.violations, one.records) for one in ranges().items]
    assert found == [(0, 9, 10, 10), (11, 18, 2, 8), (99, 99, 1, 1)]
    first = ranges().items[0]
    assert (first.first_seen_ns, first.last.offset, first.last.evidence != {}) == (T0, 9, True)
    near = store.violations.about(first.first, [(0, 2), (8, 12)])
    assert [one.offset for one in near] == [0, 1, 8, 9, 11]
    assert (ranges().total, ranges().truncated) == (3, False)
    monkeypatch.setattr(violations, "MOST_JOINED", 12)
    assert (len(ranges().items), ranges().total, ranges().truncated) == (3, None, True)
    assert ranges().words("largest", "ranges") == "the largest 3 ranges of more than are counted"
    (incident,) = store.incidents.page(IncidentFilter(cluster="c")).items
    store.incidents.resolve(incident.id, "false", T0)
    assert ranges() == Excerpt([], 0)


def test_ranges_of_two_workloads_or_incarnations_are_not_one(store: Store) -> None:
    others = lost(1, mode="transactional"), lost(2, topic_id="j"), lost(3, partition=1)
    store.violations.record("c", [lost(0), *others])
    ranges = store.violations.ranges(ViolationFilter(cluster="c"), ["lost-write"], 9)
    assert [one.records for one in ranges.items] == [1, 1, 1, 1]


def test_kinds_without_a_partition_gather_by_kind_and_incarnation(store: Store) -> None:
    def wide(kind: str, offset: int) -> Violation:
        return lost(offset, kind=kind, partition=None, identity=None)

    store.violations.record("c", [wide("topic-recreated", 1), wide("topic-recreated", 2), wide("blind", 3), lost(4)])
    rows = {row.offset: row.incident_id for row in store.violations.page().items}
    assert rows[1] == rows[2]
    assert len(set(rows.values())) == 3


def test_an_incident_is_acknowledged_and_resolved_with_all_of_its_violations(store: Store) -> None:
    store.violations.record("c", [lost(1), lost(2)])
    incident = store.incidents.page().items[0]
    acknowledged = store.incidents.acknowledge(incident.id, "looking")
    assert acknowledged is not None
    assert (acknowledged.state, acknowledged.note) == ("acknowledged", "looking")
    assert {row.state for row in store.violations.page().items} == {"acknowledged"}
    store.violations.record("c", [lost(3)])
    reopened = store.incidents.get(incident.id)
    assert reopened is not None
    assert reopened.state == "open"
    store.incidents.resolve(incident.id, "lost", T0 + 1)
    assert {(row.state, row.reason) for row in store.violations.page().items} == {("resolved", "lost")}
    store.violations.record("c", [lost(1, T0 + MINUTE, "reconcile")])
    seen_again = store.violations.get(lost(1).key("c"))
    assert seen_again is not None
    assert seen_again.state == "resolved", "a person's word stands"
    store.violations.record("c", [lost(4, T0 + MINUTE)])
    assert len(store.incidents.page().items) == 2
    assert store.incidents.resolve("unknown", "false", 1) is None


def test_a_violation_is_acknowledged(store: Store) -> None:
    store.violations.record("c", [lost(1)])
    kept = store.violations.acknowledge(lost(1).key("c"), "mine")
    assert kept is not None
    assert (kept.state, kept.note) == ("acknowledged", "mine")
    assert store.violations.counts() == [ViolationCount("c", "lost-write", "critical", 1, 0)]
    assert store.violations.acknowledge("unknown", None) is None


def test_what_a_person_said_of_a_resolved_incident_stays(store: Store) -> None:
    store.violations.record("c", [lost(1)])
    store.incidents.resolve(stored(store).id, "lost", T0 + MINUTE, "26 lost, ticket 4711")
    store.incidents.acknowledge(stored(store).id, "a late click")
    store.violations.acknowledge(lost(1).key("c"), "a late click")
    row = store.violations.get(lost(1).key("c"))
    assert row is not None
    assert (stored(store).note, row.note) == ("26 lost, ticket 4711", None)


def test_a_condition_ends_and_is_open_again_when_it_comes_back(store: Store) -> None:
    condition = lost(1, kind="under-min-isr", severity="warning")
    key = condition.key("c")
    store.violations.record("c", [condition])
    assert store.violations.end([key, "unknown"], T0 + 10) == 1
    assert store.violations.end([key], T0 + 11) == 0
    assert [incident.state for incident in store.incidents.page().items] == ["resolved"]
    store.violations.record("c", [condition])
    ended = store.violations.get(key)
    assert ended is not None
    assert (ended.state, ended.reason, ended.closed_ns) == ("resolved", "ended", T0 + 10)
    store.violations.record("c", [dataclasses.replace(condition, at_ns=T0 + 20)])
    back = store.violations.get(key)
    assert back is not None
    assert (back.state, back.reason) == ("open", None)
    assert store.violations.counts() == [ViolationCount("c", "under-min-isr", "warning", 1, 1)]


def test_pages_give_each_violation_once_while_new_ones_come(store: Store) -> None:
    store.violations.record("c", [lost(n, T0 + n // 3) for n in range(20)])
    seen: list[int | None] = []
    cursor = None
    while True:
        page = store.violations.page(ViolationFilter(cluster="c"), cursor, 3)
        seen += [row.offset for row in page.items]
        if page.next_cursor is None:
            break
        cursor = page.next_cursor
        store.violations.record("c", [lost(100 + len(seen), T0 + 1000)])
    assert sorted(seen, key=int.__index__) == list(range(20))  # type: ignore[arg-type]
    assert len(store.violations.page(limit=0).items) == 1


def test_a_strange_cursor_is_refused(store: Store) -> None:
    for cursor in ("", "x", "bm8", "WzEsMl0", "Wzk5OTk5OTk5OTk5OTk5OTk5OTk5OSwiYSJd", "é", "W3RydWUsMV0"):
        with pytest.raises(BadCursorError):
            pytest.fail(f"{cursor!r} gave {store.violations.page(cursor=cursor)}")


def test_a_value_that_no_row_can_have_finds_nothing_or_is_refused_and_the_store_is_there(store: Store) -> None:
    for ask in (
        lambda: store.violations.get("\0"),
        lambda: store.violations.page(cursor="WzEsICJhXHUwMDAwIl0").next_cursor,
    ):
        with contextlib.suppress(BadValueError):  # PostgreSQL; to SQLite it is a text like others
            assert ask() is None


def test_filters_narrow_the_list(store: Store) -> None:
    first = lost(1, partition=5)
    store.violations.record("c", [first, lost(2, T0 + 10, kind="corrupt", topic="u")])
    store.violations.record("d", [lost(3, T0 + 20, severity="warning")])
    store.violations.acknowledge(first.key("c"), None)
    expected = [
        (ViolationFilter(), {1, 2, 3}),
        (ViolationFilter(kind="corrupt"), {2}),
        (ViolationFilter(severity="warning"), {3}),
        (ViolationFilter(cluster="d"), {3}),
        (ViolationFilter(topic="u"), {2}),
        (ViolationFilter(partition=5), {1}),
        (ViolationFilter(since_ns=T0 + 10), {2, 3}),
        (ViolationFilter(until_ns=T0 + 10), {1, 2}),
        (ViolationFilter(since_ns=T0 + 10, until_ns=T0 + 10), {2}),
        (ViolationFilter(state="acknowledged"), {1}),
        (ViolationFilter(kind="corrupt", cluster="d"), set()),
    ]
    found = [(wanted, {row.offset for row in store.violations.page(wanted).items}) for wanted, _ in expected]
    assert found == expected


def test_runner_and_scheduler_may_record_the_same_violations_at_once(store: Store, store_url: str) -> None:
    new: list[int] = []

    def work(by: SightedBy) -> None:
        with Store.connect(store_url, timeout=60) as mine:
            new.extend(
                mine.violations.record("c", [lost(n, T0, by) for n in range(start, start + 10)])
                for start in range(0, 60, 5)
            )

    threads = [threading.Thread(target=work, args=(by,)) for by in ("online", "reconcile", "scrub")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(new) == 36
    assert sum(new) == 65
    assert store.violations.counts() == [ViolationCount("c", "lost-write", "critical", 65, 65)]
    assert len(store.incidents.page().items) == 1
    assert {len(row.sightings) for row in store.violations.page(limit=100).items} == {3}


def test_incidents_are_filtered(store: Store) -> None:
    store.violations.record("c", [lost(1), lost(2, T0 + 60 * MINUTE, partition=1, severity="info")])

    def found(wanted: IncidentFilter) -> list[int | None]:
        return [incident.partition for incident in store.incidents.page(wanted).items]

    assert found(IncidentFilter()) == [1, 0]
    assert found(IncidentFilter(partition=0)) == [0]
    assert found(IncidentFilter(severity="info")) == [1]
    assert found(IncidentFilter(since_ns=T0 + 1)) == [1]
    assert found(IncidentFilter(until_ns=T0 + 1)) == [0]
    assert found(IncidentFilter(cluster="d")) == []
