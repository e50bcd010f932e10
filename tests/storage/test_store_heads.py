"""What an incident is by its violations: state, reason, note and head, whatever changed them, in whichever order."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

import pytest
from sqlalchemy import literal, select, union_all, update

from canary.anomalies.anomaly import Severity
from canary.anomalies.catalogue import CATALOGUE
from canary.anomalies.policy import CONDITIONS, REHEARSALS, rank
from storage.store.models import INCIDENTS
from storage.store.repositories.findings.heads import rank_of
from tests.storage.test_store_conditions import KEY, holds
from tests.storage.test_store_notifications import ALL, PAGER, told
from tests.storage.test_store_violations import MINUTE, T0, lost, offline, stored

if TYPE_CHECKING:
    from canary.anomalies.violation import Violation
    from storage.store import Store

IN_WINDOW = T0 + 10 * MINUTE


@pytest.fixture(autouse=True)
def _registered(store: Store) -> None:
    store.notifications.register(["pager", "all"], T0)


def test_queries_order_violations_as_the_rank_does(store: Store) -> None:
    """Also a kind that only another version knows."""
    pairs = [(kind, one) for kind in (*CATALOGUE, *REHEARSALS, "newer") for one in get_args(Severity)]
    rows = union_all(*(select(literal(kind).label("kind"), literal(one).label("severity")) for kind, one in pairs))
    known = rows.subquery()
    with store._database.reading() as connection:
        found = connection.execute(select(known.c.kind, known.c.severity, rank_of(known))).all()
    assert sorted(map(tuple, found)) == sorted((kind, one, rank(kind, one)) for kind, one in pairs)


def planned_loss(store: Store) -> None:
    """A warning is open; a loss that is planned joins it."""
    store.violations.record("c", [lost(0, IN_WINDOW - 2, kind="stalled", severity="warning", identity=None)])
    store.maintenance.plan("c", IN_WINDOW - 1, IN_WINDOW + MINUTE, "disks", "ann")
    found = lost(7, IN_WINDOW + 1)
    store.violations.record("c", [replace(found, happened_after_ns=IN_WINDOW)])


def test_a_planned_loss_never_pages_and_hides_nothing_that_is_open(store: Store) -> None:
    planned_loss(store)
    assert (stored(store).kind, stored(store).state, stored(store).note) == ("stalled", "open", None)
    store.violations.end([lost(0, kind="stalled", identity=None).key("c")], IN_WINDOW + 2)
    found = stored(store)
    assert (found.kind, found.state, found.reason) == ("lost-write", "acknowledged", "planned")
    assert found.note is not None
    assert "disks" in found.note
    assert told(store) == []
    store.violations.record("c", [lost(9, IN_WINDOW + 3 * MINUTE, kind="duplicate", summary="twice")])
    found = stored(store)
    assert (found.kind, found.state, found.reason, found.note) == ("duplicate", "open", None, None)
    assert told(store) == ["opened"]


def test_a_window_covers_what_was_lost_at_another_time_and_hides_nothing_that_is_open(store: Store) -> None:
    def slow(at_ns: int, since_ns: int) -> Violation:
        return replace(holds(at_ns, since_ns, "warning"), kind="under-replicated")

    store.violations.record("c", [holds(), slow(T0, T0)])
    store.incidents.resolve(stored(store).id, "lost", T0 + MINUTE)
    store.violations.record("c", [slow(IN_WINDOW - 1, IN_WINDOW - 1)])
    store.maintenance.plan("c", IN_WINDOW, IN_WINDOW + 10 * MINUTE, "disks", "ann")
    store.violations.record("c", [holds(IN_WINDOW + 1, IN_WINDOW + 1)])
    row = store.violations.get(KEY)
    assert row is not None
    assert (row.state, row.reason, row.note) == ("acknowledged", "lost", "In a planned window: disks")
    assert (stored(store).kind, stored(store).state, stored(store).note) == ("under-replicated", "open", None)
    store.violations.end([slow(T0, T0).key("c")], IN_WINDOW + MINUTE)
    found = stored(store)
    assert (found.kind, found.state, found.reason, found.note) == ("isr-of-one", "acknowledged", "planned", row.note)


def test_what_is_open_again_opens_an_acknowledged_incident_and_is_told(store: Store) -> None:
    store.violations.record("c", [holds(), lost(7)])
    assert told(store) == ["opened"]
    store.violations.end([KEY], T0 + MINUTE)
    store.incidents.acknowledge(stored(store).id, "ann looks")
    store.violations.record("c", [lost(8, T0 + MINUTE), lost(9, T0 + MINUTE)])
    assert (stored(store).state, stored(store).note, told(store)) == ("open", "ann looks", ["reopened"])
    store.violations.record("c", [lost(10, T0 + MINUTE)])
    assert told(store) == [], "of an open incident it is no news"
    store.incidents.acknowledge(stored(store).id, "ann looks")
    store.violations.record("c", [holds(T0 + 60 * MINUTE, T0 + 60 * MINUTE)])
    assert (stored(store).state, stored(store).kind) == ("open", "isr-of-one"), "what is told is what is news"
    assert told(store) == ["reopened"]
    assert told(store) == []
    assert told(store, ALL) == ["opened"]
    store.violations.end([KEY], T0 + 61 * MINUTE)
    assert (stored(store).state, stored(store).kind) == ("acknowledged", "lost-write")
    assert told(store) == [], "it was told of that, and somebody has acknowledged it"
    assert told(store, ALL) == ["worsened"], "it was not"


def test_what_becomes_worse_than_it_was_when_a_person_acknowledged_it_is_told(store: Store) -> None:
    store.violations.record("c", [lost(7, severity="warning")])
    assert told(store, ALL) == ["opened"]
    store.incidents.acknowledge(stored(store).id, "ann looks")
    store.violations.record("c", [lost(7, T0 + 1)])
    assert (stored(store).state, stored(store).severity) == ("acknowledged", "critical")
    assert (told(store, ALL), told(store)) == (["worsened"], ["opened"])


def test_what_outlasts_a_window_is_told_once_however_many_partitions_it_has(store: Store) -> None:
    store.maintenance.plan("c", T0 - MINUTE, T0 + MINUTE, "disks", "ann")
    store.violations.record("c", [replace(holds(), partition=place, kind="unwritable") for place in range(6)])
    for place in range(6):  # each batch has what is found in that second
        store.violations.record("c", [replace(holds(T0 + 2 * MINUTE, T0), partition=place, kind="unwritable")])
        assert told(store) == ([] if place else ["opened"])


@pytest.mark.parametrize("note", ["ann looks", None])
def test_what_a_person_acknowledged_in_a_window_rings_no_more_after_it(store: Store, note: str | None) -> None:
    store.maintenance.plan("c", T0 - MINUTE, T0 + MINUTE, "disks", "ann")
    store.violations.record("c", [holds()])
    store.incidents.acknowledge(stored(store).id, note)
    store.violations.record("c", [holds(T0 + 2 * MINUTE, T0)])
    assert (stored(store).state, told(store)) == ("acknowledged", [])
    store.violations.record("c", [lost(7, T0 + 2 * MINUTE, partition=holds().partition)])
    assert (stored(store).state, told(store)) == ("open", ["opened"]), "what joins is news"


def test_what_begins_and_ends_in_a_window_is_told_to_nobody(store: Store) -> None:
    store.maintenance.plan("c", T0 - MINUTE, T0 + 5 * MINUTE, "disks", "ann")
    store.violations.record("c", [holds()])
    store.violations.end([KEY], T0 + MINUTE)
    assert (stored(store).state, stored(store).reason, told(store)) == ("resolved", "ended", [])
    store.violations.record("c", [holds(T0 + 9 * MINUTE, T0 + 9 * MINUTE)])
    store.violations.end([KEY], T0 + 10 * MINUTE)
    assert told(store) == ["opened", "resolved"], "what held outside of it is told, also when it is over"


def test_each_condition_that_outlasts_its_window_is_open_after_it(store: Store) -> None:
    """Whatever its evidence says of when it began."""
    store.maintenance.plan("c", T0 - MINUTE, T0 + MINUTE, "disks", "ann")
    kinds = sorted(CONDITIONS)
    for at_ns in (T0, T0 + 2 * MINUTE):
        found = [replace(holds(at_ns, T0), kind=kind, evidence={}) for kind in kinds]
        store.violations.record("c", found)
    states = {row.kind: row.state for row in store.violations.page(limit=200).items}
    assert states == dict.fromkeys(kinds, "open")


def test_a_condition_that_ended_by_a_clock_that_was_ahead_is_open_when_it_holds_again(store: Store) -> None:
    now_ns = time.time_ns()
    store.violations.record("c", [holds(now_ns + 30 * MINUTE, now_ns + 30 * MINUTE)])
    store.violations.end([KEY], now_ns + 31 * MINUTE)
    store.violations.record("c", [holds(now_ns, now_ns)])
    assert stored(store).state == "open"


def test_what_a_person_called_false_before_it_was_proven_is_open_when_it_is(store: Store) -> None:
    store.violations.record("c", [lost(7, severity="warning", evidence={"confirmed": False})])
    store.incidents.resolve(stored(store).id, "false", T0 + MINUTE, "a stale replica")
    store.violations.record("c", [lost(7, T0 + 60 * MINUTE, "reconcile", evidence={"confirmed": True})])
    assert (stored(store).state, stored(store).severity) == ("open", "critical")


def test_an_outage_that_ends_while_its_loss_is_recorded_is_not_resolved_over_the_loss(store: Store) -> None:
    """Two runners, the store's PostgreSQL or SQLite, and each of some hundred incidents at once."""
    for place in range(60):
        store.violations.record("c", [replace(offline(), partition=place)])
    found = [replace(lost(7, T0 + 1), partition=place) for place in range(60)]
    ended = [replace(offline(), partition=place).key("c") for place in range(60)]
    failed: list[Exception] = []

    def each(what: object) -> None:
        try:
            for one in found if what == "found" else ended:
                if isinstance(one, str):
                    store.violations.end([one], T0 + MINUTE)
                else:
                    store.violations.record("c", [one])
        except Exception as error:  # noqa: BLE001  # shown below
            failed.append(error)

    threads = [threading.Thread(target=each, args=(what,)) for what in ("found", "ended")]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert failed == []
    incidents = store.incidents.page(limit=200).items
    assert len(incidents) == 60
    assert {(one.kind, one.state, one.reason) for one in incidents} == {("lost-write", "open", None)}
    assert store.notifications.look(PAGER, T0 + MINUTE) == 60


def test_an_incident_follows_a_person_too(store: Store) -> None:
    """Acknowledged with its last open violation; of what is all resolved the worst heads, though it had ended first."""
    store.violations.record("c", [offline(), holds()])
    store.violations.end([offline().key("c")], T0 + MINUTE)
    assert (stored(store).kind, stored(store).state) == ("isr-of-one", "open")
    row = store.violations.acknowledge(stored(store).head_id, "ann looks")
    assert row is not None
    assert (stored(store).state, stored(store).reason, stored(store).note) == ("acknowledged", None, None)
    store.incidents.resolve(stored(store).id, "false", T0 + 2 * MINUTE, "all is well")
    found = stored(store)
    assert (found.kind, found.state, found.note) == (offline().kind, "resolved", "all is well")
    assert store.violations.reopen(row.id, "no") == 1
    assert (stored(store).kind, stored(store).state, stored(store).note) == ("isr-of-one", "open", "no")


def test_an_incident_of_an_old_runner_is_headed_by_what_led_to_it_until_its_violations_change(store: Store) -> None:
    store.violations.record("c", [offline()])
    with store._database.writing() as connection:
        connection.execute(update(INCIDENTS).values(head_id="", head_ns=0))
    assert (stored(store).head_id, stored(store).head_ns) == (stored(store).lead_id, T0)
    store.notifications.look(ALL, T0)
    (sent,) = store.notifications.due("all", T0)
    assert sent.incident["head_id"] == stored(store).lead_id


def test_after_an_upgrade_the_worst_heads_what_the_version_before_left(store: Store) -> None:
    """Of version 0012 the first cause heads an incident; what is worse is told then."""
    store.violations.record("c", [offline()])
    assert told(store) == ["opened"]
    store.violations.record("c", [lost(7)])
    store.downgrade("0012")
    with store._database.writing() as connection:
        first = {"kind": offline().kind, "summary": offline().sentence}
        connection.execute(update(INCIDENTS).values(first))
    store.upgrade()
    assert (stored(store).kind, stored(store).head_id) == ("lost-write", lost(7).key("c"))
    assert told(store) == ["worsened"]


def test_an_outage_of_one_of_kafkas_own_topics_is_one_incident_and_of_another_topic_one_for_each_partition(
    store: Store,
) -> None:
    def of(topic: str, kind: str = "offline-partition") -> list[Violation]:
        return [replace(holds(), partition=place, kind=kind, topic=topic) for place in range(50)]

    store.violations.record("c", [*of("__consumer_offsets"), *of("__consumer_offsets", "isr-of-one"), *of("orders")])
    found = store.incidents.page(limit=200).items
    own = [(one.topic, one.partition, one.kind) for one in found if one.topic != "orders"]
    assert sorted(own) == [
        ("__consumer_offsets", None, "isr-of-one"),
        ("__consumer_offsets", None, "offline-partition"),
    ]
    assert {one.partition for one in found if one.topic == "orders"} == set(range(50))
    store.violations.end([one.key("c") for one in of("__consumer_offsets")[1:]], T0 + MINUTE)
    states = {one.kind: one.state for one in store.incidents.page(limit=200).items if one.topic != "orders"}
    assert states["offline-partition"] == "open", "one of them has no leader yet"
