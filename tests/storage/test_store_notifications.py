"""The outbox: what a receiver is told of incidents, when, in which order, and what it is not told."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import update

from canary.anomalies.policy import ALERT_TEST, DRILL
from storage.store.models import NOTIFICATIONS
from storage.store.receivers import Interest
from storage.store.repositories.notifications.outbox import KEPT_NS
from tests.storage.test_store_conditions import KEY, holds
from tests.storage.test_store_violations import MINUTE, T0, lost

if TYPE_CHECKING:
    from canary.anomalies.violation import Violation
    from storage.store import Store
    from storage.store.receivers import Notification

PAGER = Interest("pager", frozenset({"critical"}))
ALL = Interest("all", frozenset({"critical", "warning", "info"}))


@pytest.fixture(autouse=True)
def _registered(store: Store) -> None:
    store.notifications.register(["pager", "all"], T0)


def told(store: Store, interest: Interest = PAGER, at_ns: int = T0) -> list[str]:
    """Look, take all that is due, and return what changed, in order."""
    store.notifications.look(interest, at_ns)
    taken: list[Notification] = []
    while due := store.notifications.due(interest.receiver, at_ns):
        for one in due:
            store.notifications.delivered(one.id, at_ns)
        taken += due
    return [one.change for one in taken]


def incident(store: Store) -> str:
    (one,) = store.incidents.page().items
    return one.id


def test_an_incident_is_told_once_when_it_opens_and_once_when_it_is_over(store: Store) -> None:
    assert told(store) == []
    store.violations.record("c", [lost(7)])
    assert told(store) == ["opened"]
    assert told(store) == []
    store.violations.record("c", [lost(8, T0 + 1)])
    store.incidents.acknowledge(incident(store), "mine")
    assert told(store) == [], "more of the same is no news"
    store.incidents.resolve(incident(store), "lost", T0 + MINUTE)
    assert told(store) == ["resolved"]
    assert told(store) == []


def of_now(store: Store) -> Notification:
    return store.notifications.of_incident(incident(store))[-1]


def test_a_loss_in_an_outage_is_news_of_its_own(store: Store) -> None:
    store.violations.record("c", [holds()])
    assert told(store) == ["opened"]
    store.violations.record("c", [lost(7, T0 + 1, kind="duplicate")])
    assert told(store) == ["worsened"]
    store.violations.record("c", [lost(7, T0 + 2)])
    assert told(store) == ["worsened"], "within a class a loss comes before all else"
    assert (of_now(store).incident["kind"], of_now(store).incident["summary"]) == ("lost-write", "offset 7 is gone")
    assert of_now(store).alerts == ["critical warning", "critical damage", "critical data"]
    store.violations.record("c", [lost(9, T0 + 3, kind="truncation")])
    store.violations.end([KEY], T0 + MINUTE)
    assert told(store) == [], "what is milder or over is no news while worse goes on"
    store.incidents.resolve(incident(store), "lost", T0 + MINUTE)
    assert told(store) == ["resolved"]
    assert of_now(store).alerts == ["critical warning", "critical damage", "critical data"]


def test_of_a_loss_it_is_told_how_many_writes_of_the_incident_are_lost_by_then(store: Store) -> None:
    store.violations.record("c", [lost(7), lost(8), lost(8, kind="duplicate"), lost(7, partition=2)])
    assert told(store) == ["opened", "opened"]
    of_it = {one["partition"]: one["lost_records"] for one in sent(store)}
    assert of_it == {lost(7).partition: 2, 2: 1}


def sent(store: Store) -> list[Any]:
    found = [store.notifications.of_incident(one.id) for one in store.incidents.page().items]
    return [note.incident for notes in found for note in notes]


def outage(at_ns: int, partition: int = 0) -> Violation:
    return replace(holds(at_ns, at_ns), kind="offline-partition", partition=partition)


def test_what_is_as_bad_as_something_that_is_over_is_news(store: Store) -> None:
    """Two outages with a milder thing open throughout: the second one is not hidden by the first."""
    store.violations.record("c", [lost(7, severity="warning"), outage(T0 + 1)])
    assert told(store, at_ns=T0 + 1) == ["opened"]
    store.violations.end([outage(T0).key("c")], T0 + MINUTE)
    assert told(store, at_ns=T0 + MINUTE) == [], "for a pager that wants what is critical it is only milder"
    store.violations.record("c", [replace(outage(T0 + 2 * MINUTE), kind="under-min-isr")])
    assert told(store, at_ns=T0 + 2 * MINUTE) == ["worsened"]
    assert of_now(store).alerts == ["critical unavailability", "critical unavailability"], "it rings again"


def test_a_milder_loss_that_an_outage_hid_is_told_when_the_outage_is_over(store: Store) -> None:
    store.violations.record("c", [lost(7, severity="warning"), outage(T0 + 1)])
    assert told(store, ALL, T0 + 1) == ["opened"]
    store.violations.end([outage(T0).key("c")], T0 + MINUTE)
    assert told(store, ALL, T0 + MINUTE) == ["continues"]
    assert of_now(store).incident["kind"] == "lost-write"
    assert of_now(store).alerts == ["critical unavailability", "warning data"]
    assert told(store, ALL, T0 + MINUTE) == []
    store.violations.record("c", [outage(T0 + 2 * MINUTE)])
    assert told(store, ALL, T0 + 2 * MINUTE) == ["worsened"]
    assert of_now(store).alerts == ["critical unavailability", "warning data", "critical unavailability"]


def test_a_loss_that_an_outage_hid_is_told_though_milder_damage_was(store: Store) -> None:
    store.violations.record("c", [lost(7, severity="warning", kind="duplicate")])
    store.violations.record("c", [outage(T0 + 1)])
    assert told(store, ALL, T0 + 1) == ["opened"]
    store.violations.record("c", [lost(8, T0 + 2, severity="warning")])
    assert told(store, ALL, T0 + 2) == []
    store.violations.end([outage(T0).key("c")], T0 + MINUTE)
    assert told(store, ALL, T0 + MINUTE) == ["continues"]


def test_what_an_outage_hid_that_ended_while_nobody_was_to_be_told_is_told_afterwards(store: Store) -> None:
    shadow = replace(ALL, shadow=frozenset({"c"}))
    store.violations.record("c", [lost(7, severity="warning"), outage(T0 + 1)])
    assert told(store, ALL, T0 + 1) == ["opened"]
    store.violations.end([outage(T0).key("c")], T0 + MINUTE)
    assert told(store, shadow, T0 + MINUTE) == []
    assert told(store, ALL, T0 + 2 * MINUTE) == ["worsened"]
    assert told(store, ALL, T0 + 3 * MINUTE) == []


def test_an_outage_that_comes_and_goes_rings_each_time_and_leaves_two_alerts(store: Store) -> None:
    store.violations.record("c", [lost(7, severity="warning")])
    for minute in range(10):
        store.violations.record("c", [outage(T0 + 2 * minute * MINUTE)])
        assert told(store, at_ns=T0 + 2 * minute * MINUTE) == ["worsened" if minute else "opened"]
        store.violations.end([outage(T0).key("c")], T0 + (2 * minute + 1) * MINUTE)
        assert told(store, at_ns=T0 + (2 * minute + 1) * MINUTE) == []
    assert of_now(store).alerts == ["critical unavailability", "critical unavailability"]


def test_what_is_news_comes_before_what_is_only_milder(store: Store) -> None:
    outages = [outage(T0 + 1, partition) for partition in range(600)]
    store.violations.record("c", [*(lost(7, severity="warning", partition=one) for one in range(600)), *outages])
    assert told(store, at_ns=T0 + 1) == ["opened"] * 500
    assert told(store, at_ns=T0 + 1) == ["opened"] * 100
    store.violations.end([one.key("c") for one in outages], T0 + MINUTE)
    store.violations.record("c", [lost(7, T0 + MINUTE, partition=1000)])
    assert told(store, at_ns=T0 + MINUTE) == ["opened"], "in the first look"


def test_what_was_a_false_alarm_is_not_said_to_be_lost(store: Store) -> None:
    store.violations.record("c", [lost(7), lost(8)])
    assert told(store) == ["opened"]
    store.incidents.resolve(incident(store), "false", T0 + MINUTE)
    assert told(store, at_ns=T0 + MINUTE) == ["resolved"]
    assert [one["lost_records"] for one in sent(store)] == [2, 0]


def test_what_joins_a_past_outage_is_told_as_what_it_is(store: Store) -> None:
    store.violations.record("c", [holds()])
    store.violations.end([KEY], T0 + MINUTE)
    assert told(store, ALL) == ["opened", "resolved"]
    store.violations.record("c", [lost(3, T0 + 2 * MINUTE, kind="stalled", severity="warning", summary="it stands")])
    assert told(store, ALL) == ["reopened"]
    assert (of_now(store).severity, of_now(store).incident["summary"]) == ("warning", "it stands")
    assert told(store) == [], "a pager that wants what is critical"


def test_what_an_older_version_told_counts_as_the_worst_of_its_severity(store: Store) -> None:
    store.violations.record("c", [holds()])
    assert told(store) == ["opened"]
    with store._database.writing() as connection:
        connection.execute(update(NOTIFICATIONS).values(rank=None, alerts=None))
    store.violations.record("c", [lost(7, T0 + 1)])
    assert told(store) == []
    assert told(store, ALL) == ["opened"]


def test_a_condition_that_comes_back_reopens_its_incident(store: Store) -> None:
    store.violations.record("c", [holds()])
    assert told(store) == ["opened"]
    store.violations.end([KEY], T0 + MINUTE)
    assert told(store) == ["resolved"]
    store.violations.record("c", [holds(T0 + 2 * MINUTE, T0 + 2 * MINUTE)])
    assert told(store) == ["reopened"]
    first, second, third = store.notifications.of_incident(incident(store))
    assert (first.number, second.number, third.number) == (1, 2, 3)
    assert len({first.id, second.id, third.id}) == 3


def test_what_worsens_is_told_again_and_to_one_who_hears_the_worst_alone_it_opens(store: Store) -> None:
    store.violations.record("c", [lost(7, severity="warning")])
    assert told(store, ALL) == ["opened"]
    assert told(store) == []
    store.violations.record("c", [lost(7, T0 + 1)])
    assert told(store, ALL) == ["worsened"]
    assert told(store) == ["opened"]
    last = store.notifications.of_incident(incident(store))[-1]
    assert (last.severity, last.incident["severity"]) == ("critical", "critical")


def test_an_incident_that_was_over_before_anybody_looked_is_told_as_opened_and_resolved(store: Store) -> None:
    store.violations.record("c", [holds(T0 + MINUTE)])
    store.violations.end([KEY], T0 + 2 * MINUTE)
    assert told(store, at_ns=T0 + 3 * MINUTE) == ["opened", "resolved"]


def test_what_was_over_before_a_receiver_was_known_is_not_told_and_what_is_open_is(store: Store) -> None:
    late = Interest("late", frozenset({"critical"}))
    store.violations.record("c", [holds(), lost(7, partition=2)])
    store.violations.end([KEY], T0 + MINUTE)
    store.notifications.register(["late"], T0 + 2 * MINUTE)
    assert told(store, late, T0 + 3 * MINUTE) == ["opened"]
    assert told(store, late, T0 + 4 * MINUTE) == []


def test_what_was_over_more_than_a_day_ago_is_not_told(store: Store) -> None:
    store.violations.record("c", [holds(T0 + MINUTE)])
    store.violations.end([KEY], T0 + 2 * MINUTE)
    assert told(store, at_ns=T0 + MINUTE + KEPT_NS + 1) == []
    assert told(store, at_ns=T0 + MINUTE + KEPT_NS) == ["opened", "resolved"], "at the bound it is"


def test_what_is_found_in_a_planned_window_is_told_when_it_outlasts_the_window(store: Store) -> None:
    store.maintenance.plan("c", T0 - MINUTE, T0 + 5 * MINUTE, "upgrade", "ann")
    store.violations.record("c", [holds()])
    assert told(store) == []
    store.violations.record("c", [holds(T0 + 6 * MINUTE)])
    assert told(store, at_ns=T0 + 6 * MINUTE) == ["opened"]


def test_a_planned_incident_that_is_over_is_never_told(store: Store) -> None:
    store.maintenance.plan("c", T0 - MINUTE, T0 + 5 * MINUTE, "upgrade", "ann")
    store.violations.record("c", [lost(7, happened_after_ns=T0)])
    store.incidents.resolve(incident(store), "planned", T0 + MINUTE)
    assert told(store) == []


def test_a_cluster_in_shadow_mode_tells_of_nothing_new_and_of_the_end_of_what_it_told(store: Store) -> None:
    shadow = Interest("pager", frozenset({"critical"}), shadow=frozenset({"c"}))
    store.violations.record("c", [lost(7)])
    assert told(store, shadow) == []
    assert told(store) == ["opened"], "out of shadow mode, it still is open"
    store.incidents.resolve(incident(store), "false", T0 + MINUTE)
    assert told(store, shadow) == ["resolved"]


def test_a_receiver_hears_of_its_clusters(store: Store) -> None:
    store.violations.record("c", [lost(7)])
    assert told(store, Interest("pager", frozenset({"critical"}), frozenset({"d"}))) == []
    assert told(store, Interest("pager", frozenset({"critical"}), frozenset({"c", "d"}))) == ["opened"]


def rehearsed(kind: str) -> Any:
    return lost(7, kind=kind, identity=None)


def test_a_drill_is_told_to_those_who_want_drills(store: Store) -> None:
    store.violations.record("c", [rehearsed(DRILL)])
    assert told(store) == []
    shadow = frozenset({"c"})
    assert told(store, Interest("all", frozenset({"critical"}), drills=True, shadow=shadow)) == ["opened"]


def test_a_test_of_the_alarm_is_told_to_everybody(store: Store) -> None:
    store.violations.record("c", [rehearsed(ALERT_TEST)])
    deaf = Interest("pager", frozenset({"info"}), frozenset({"d"}), shadow=frozenset({"c"}))
    assert told(store, deaf) == ["opened"]


def test_what_cannot_be_sent_waits_and_holds_back_only_the_rest_of_its_incident(store: Store) -> None:
    store.violations.record("c", [holds(), lost(7, partition=2)])
    store.notifications.look(PAGER, T0)
    store.violations.end([KEY], T0 + MINUTE)
    store.notifications.look(PAGER, T0 + MINUTE)
    first, other = store.notifications.due("pager", T0 + MINUTE)
    assert {first.change, other.change} == {"opened"}, "its end waits for its beginning"
    store.notifications.failed(first, T0 + 5 * MINUTE, "it answers 500")
    assert [one.id for one in store.notifications.due("pager", T0 + 4 * MINUTE)] == [other.id]
    again = next(one for one in store.notifications.due("pager", T0 + 5 * MINUTE) if one.id == first.id)
    assert (again.attempts, again.error) == (1, "it answers 500")
    (pager,) = store.notifications.receivers(["pager"])
    assert (pager.waiting, pager.oldest_ns, pager.failed, pager.dropped) == (3, T0, 1, 0)
    store.notifications.delivered(other.id, T0 + 5 * MINUTE)
    assert store.notifications.receivers(["pager"])[0].waiting == 2


def test_what_could_not_be_sent_for_a_day_is_given_up_and_counted(store: Store) -> None:
    store.violations.record("c", [lost(7)])
    store.notifications.look(PAGER, T0)
    store.notifications.look(ALL, T0)
    assert store.notifications.drop("pager", T0 + KEPT_NS) == 0
    assert store.notifications.drop("pager", T0 + KEPT_NS + 1) == 1
    assert store.notifications.drop("pager", T0 + KEPT_NS + 1) == 0
    every, pager = store.notifications.receivers(["pager", "all"])
    assert (every.waiting, every.dropped, pager.waiting, pager.dropped) == (1, 0, 0, 1)
    assert told(store) == [], "given up is not forgotten: it does not open again"


def test_a_receiver_is_known_since_it_was_first_registered(store: Store) -> None:
    store.notifications.register(["pager", "new"], T0 + MINUTE)
    store.notifications.looked("pager", T0 + 2 * MINUTE)
    new, pager = store.notifications.receivers(["pager", "new"])
    assert (pager.since_ns, pager.looked_ns, new.since_ns) == (T0, T0 + 2 * MINUTE, T0 + MINUTE)
    assert store.notifications.receivers(["absent"]) == []


def test_notifications_go_with_their_incident(store: Store) -> None:
    store.violations.record("c", [holds()])
    store.violations.record("d", [lost(7)])
    store.violations.end([KEY], T0 + MINUTE)
    assert told(store, at_ns=T0 + MINUTE) == ["opened", "opened", "resolved"]
    gone = {one.cluster: one.id for one in store.incidents.page().items}
    store.retention.purge("c", T0 + 10 * MINUTE)
    store.retention.purge("c", T0 + 10 * MINUTE)
    store.retention.forget("d", T0 + 10 * MINUTE)
    assert store.notifications.of_incident(gone["c"]) == []
    assert store.notifications.of_incident(gone["d"]) == []


def test_a_limited_store_shows_the_notifications_of_its_clusters(store: Store) -> None:
    store.violations.record("c", [lost(7)])
    assert told(store) == ["opened"]
    one = incident(store)
    assert len(store.of(frozenset({"c"})).notifications.of_incident(one)) == 1
    assert store.of(frozenset({"d"})).notifications.of_incident(one) == []
