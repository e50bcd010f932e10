from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sqlalchemy import select, text

from canary.anomalies.violation import Violation
from storage.store.errors import AllClustersError
from storage.store.models import VIOLATIONS
from storage.store.values import IncidentFilter, ViolationFilter

if TYPE_CHECKING:
    from collections.abc import Callable

    from storage.store import Store

MINUTE = 60 * 10**9
NOW = 1_700_000_000 * 10**9


def found(offset: int, at_ns: int) -> Violation:
    return Violation(
        kind="lost-write",
        severity="critical",
        topic="t",
        topic_id="i",
        partition=0,
        offset=offset,
        identity=None,
        mode=None,
        at_ns=at_ns,
        by="online",
        summary="gone",
        evidence={},
        happened_after_ns=at_ns,
    )


def test_a_token_opens_what_it_says_until_it_is_revoked(store: Store) -> None:
    words, token = store.tokens.create("ci", "read", NOW)
    assert store.tokens.verify(words, NOW) == token
    assert store.tokens.revoke(token.id, NOW + 1) is not None
    assert store.tokens.verify(words, NOW + 2) is None
    assert [one.revoked_ns for one in store.tokens.all()] == [NOW + 1]
    assert store.tokens.revoke("0" * 16, NOW) is None


def test_a_token_ends_when_it_expires(store: Store) -> None:
    words, _ = store.tokens.create("ci", "operate", NOW, NOW + MINUTE)
    assert store.tokens.verify(words, NOW + MINUTE - 1) is not None
    assert store.tokens.verify(words, NOW + MINUTE) is None


def test_another_secret_with_a_known_id_opens_nothing(store: Store) -> None:
    words, _ = store.tokens.create("ci", "read", NOW)
    other = words[:-43] + ("A" * 43)
    assert store.tokens.verify(other, NOW) is None
    for nonsense in ("", "canary_", words + "x", words[:-1], "canary_zz_" + "A" * 43):
        assert store.tokens.verify(nonsense, NOW) is None


def test_nothing_in_the_store_opens_anything(store: Store) -> None:
    words, _ = store.tokens.create("ci", "read", NOW)
    with store._database.reading() as connection:
        kept = str(connection.execute(text("SELECT * FROM tokens")).all())
    assert words[-43:] not in kept


def test_a_token_for_some_clusters_is_read_back_as_it_was_made(store: Store) -> None:
    words, token = store.tokens.create("ci", "read", NOW, clusters=["prod-us", "prod-eu"])
    assert token.clusters == ("prod-eu", "prod-us")
    assert store.tokens.verify(words, NOW) == token
    every, _ = store.tokens.create("ci", "read", NOW)
    assert store.tokens.verify(every, NOW).clusters is None  # type: ignore[union-attr]


def test_a_token_of_before_is_for_all_clusters(store: Store) -> None:
    words, _ = store.tokens.create("ci", "read", NOW)
    store.downgrade("0009")
    store.upgrade()
    assert store.tokens.verify(words, NOW).clusters is None  # type: ignore[union-attr]


def test_a_session_opens_what_it_says_until_it_ends_or_expires(store: Store) -> None:
    words, session = store.sessions.begin("ann", "read", {"prod"}, NOW, NOW + MINUTE)
    assert store.sessions.verify(words, NOW) == session
    assert store.sessions.verify(words, NOW + MINUTE) is None
    for nonsense in ("", session.id, words[:-1], words + "x"):
        assert store.sessions.verify(nonsense, NOW) is None
    store.sessions.end(session.id)
    assert store.sessions.verify(words, NOW) is None
    with store._database.reading() as connection:
        kept = str(connection.execute(text("SELECT * FROM sessions")).all())
    assert words not in kept


def test_a_store_of_some_clusters_holds_and_takes_nothing_of_others(store: Store) -> None:
    for cluster in ("c", "d"):
        store.violations.record(cluster, [found(1, NOW)])
    everybody = store.maintenance.plan(None, NOW, NOW + MINUTE, "all of them", "ann")
    limited = store.of(frozenset({"c"}))
    (row,) = limited.violations.page().items
    assert (row.cluster, [one.cluster for one in limited.violations.counts()]) == ("c", ["c"])
    other = next(one for one in store.violations.page().items if one.cluster == "d")
    assert limited.violations.get(other.id) is None
    assert limited.violations.acknowledge(other.id, "mine") is None
    assert limited.incidents.resolve(other.incident_id, "lost", NOW) is None
    assert store.violations.get(other.id).state == "open"  # type: ignore[union-attr]
    assert [one.id for one in limited.maintenance.page().items] == [everybody.id], "it is one of c, too"
    limited.maintenance.end(everybody.id, NOW + 1)
    assert store.maintenance.get(everybody.id) == everybody
    limited.actions.record("ann", "acknowledge", "incident 1", NOW, {})
    assert limited.maintenance.plan("c", NOW, NOW + MINUTE, "upgrade", "ann").cluster == "c"
    assert limited.reconciliations.request("c", "api", NOW).cluster == "c"


def test_a_store_of_some_clusters_refuses_what_is_of_all(store: Store) -> None:
    limited = store.of(frozenset({"c"}))
    refused: list[Callable[[], object]] = [
        limited.actions.page,
        limited.tokens.all,
        limited.retention.clusters,
        lambda: limited.retention.forget("c", NOW),
        lambda: limited.maintenance.plan("d", NOW, NOW + 1, "x", "ann"),
        lambda: limited.maintenance.plan(None, NOW, NOW + 1, "x", "ann"),
        lambda: limited.reconciliations.request("d", "api", NOW),
        lambda: limited.sessions.begin("ann", "read", None, NOW, NOW + 1),
        lambda: limited._database.reading().__enter__().execute(select(select(VIOLATIONS).subquery())),
    ]
    for each in refused:
        with pytest.raises(AllClustersError, match="only some of them may be seen"):
            each()
    assert store.maintenance.page().items == []


def test_actions_are_listed_newest_first_in_pages(store: Store) -> None:
    for n in range(3):
        store.actions.record("ann", "acknowledge", f"incident {n}", NOW + n, {"note": "x"})
    page = store.actions.page(limit=2)
    assert [action.target for action in page.items] == ["incident 2", "incident 1"]
    assert [action.target for action in store.actions.page(page.next_cursor, 2).items] == ["incident 0"]


def test_what_is_found_in_a_planned_window_is_recorded_and_alarms_nobody(store: Store) -> None:
    store.maintenance.plan("c", NOW, NOW + MINUTE, "upgrade", "ann")
    assert store.violations.record("c", [found(1, NOW)]) == 1
    (row,) = store.violations.page().items
    assert (row.state, row.reason, row.note) == ("acknowledged", "planned", "In a planned window: upgrade")
    (count,) = store.violations.counts()
    assert (count.total, count.open) == (1, 0)
    assert store.incidents.page(IncidentFilter(state="acknowledged")).items[0].reason == "planned"


def test_a_window_covers_its_cluster_and_its_time_alone(store: Store) -> None:
    store.maintenance.plan("c", NOW, NOW + MINUTE, "upgrade", "ann")
    store.violations.record("d", [found(1, NOW)])
    store.violations.record("c", [found(2, NOW + MINUTE), found(3, NOW - 1)])
    assert len(store.violations.page(ViolationFilter(state="open")).items) == 3
    store.maintenance.plan(None, NOW + 5 * MINUTE, NOW + 6 * MINUTE, "all of them", "ann")
    store.violations.record("d", [found(4, NOW + 5 * MINUTE)])
    assert len(store.violations.page(ViolationFilter(state="acknowledged")).items) == 1


def test_something_unplanned_opens_the_incident_of_a_window_again(store: Store) -> None:
    store.maintenance.plan("c", NOW, NOW + MINUTE, "upgrade", "ann")
    store.violations.record("c", [found(1, NOW)])
    store.violations.record("c", [found(2, NOW + 2 * MINUTE)])
    (incident,) = store.incidents.page().items
    assert (incident.state, incident.reason) == ("open", None)


def test_something_planned_opens_no_incident_that_somebody_is_on(store: Store) -> None:
    store.violations.record("c", [found(1, NOW - 1)])
    store.incidents.acknowledge(store.incidents.page().items[0].id, "mine")
    store.maintenance.plan("c", NOW, NOW + MINUTE, "upgrade", "ann")
    store.violations.record("c", [found(2, NOW)])
    assert store.incidents.page().items[0].state == "acknowledged"


def test_a_window_can_be_ended_early_and_one_not_begun_never_was(store: Store) -> None:
    begun = store.maintenance.plan("c", NOW, NOW + 10 * MINUTE, "upgrade", "ann")
    later = store.maintenance.plan("c", NOW + 5 * MINUTE, NOW + 6 * MINUTE, "later", "ann")
    ended = store.maintenance.end(begun.id, NOW + MINUTE)
    assert ended is not None
    assert ended.end_ns == NOW + MINUTE
    store.maintenance.end(later.id, NOW + MINUTE)
    assert [window.id for window in store.maintenance.page().items] == [begun.id]
    assert store.maintenance.end("none", NOW) is None
    store.violations.record("c", [found(1, NOW + 2 * MINUTE)])
    assert store.violations.page().items[0].state == "open"
