"""Events at one place: which findings are of one event, and which of another."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from canary.anomalies.violation import Records
from storage.store.values import ViolationCount
from tests.storage.test_store_violations import MINUTE, T0, lost

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canary.anomalies.violation import Violation
    from storage.store import Store

MONTH = 30 * 24 * 60 * MINUTE


def cut(epoch: int | None, at_ns: int = T0, **changes: Any) -> Violation:
    known: dict[str, Any] = {"kind": "truncation", "identity": None, "leader_epoch": epoch}
    return replace(lost(100, at_ns), **(known | changes))


def resolve_all(store: Store, at_ns: int) -> None:
    for row in store.violations.page().items:
        store.incidents.resolve(row.incident_id, "lost", at_ns)


def rows(store: Store) -> Sequence[tuple[int | None, str, int]]:
    """Return the leader epoch, the state and the number of sightings of each row, the oldest first."""
    return [(row.leader_epoch, row.state, len(row.sightings)) for row in store.violations.page().items][::-1]


def test_a_second_cut_at_the_same_offset_pages_and_counts(store: Store) -> None:
    assert store.violations.record("c", [cut(5)]) == 1
    assert store.violations.record("c", [cut(5, T0 + 1)]) == 0, "another runner, or a replay"
    resolve_all(store, T0 + MINUTE)
    assert store.violations.record("c", [cut(9, T0 + MONTH)]) == 1
    assert rows(store) == [(5, "resolved", 2), (9, "open", 1)]
    assert store.violations.counts() == [ViolationCount("c", "truncation", "critical", 2, 1)]
    assert [one.state for one in store.incidents.page().items] == ["open", "resolved"]


def test_a_finding_without_an_epoch_is_of_the_latest_event(store: Store) -> None:
    store.violations.record("c", [cut(5)])
    store.violations.record("c", [cut(9, T0 + 1)])
    assert store.violations.record("c", [cut(None, T0 + MINUTE, by="reconcile")]) == 0
    assert rows(store) == [(5, "open", 1), (9, "open", 2)]


def test_what_is_open_since_before_an_upgrade_does_not_page_twice(store: Store) -> None:
    store.violations.record("c", [cut(None)])
    assert store.violations.record("c", [cut(5, T0 + 1)]) == 0
    assert rows(store) == [(None, "open", 2)]
    resolve_all(store, T0 + MINUTE)
    assert store.violations.record("c", [cut(9, T0 + MONTH)]) == 1
    assert rows(store) == [(None, "resolved", 2), (9, "open", 1)]


@pytest.mark.parametrize("night_first", [False, True])
def test_night_and_canary_meet_in_ranges(store: Store, night_first: bool) -> None:  # noqa: FBT001  # a case
    kind = "inconsistent-offsets"
    online = cut(5, kind=kind, records=(Records(100, 10, None),))
    night = cut(None, T0 + 1, kind=kind, records=(Records(95, 10, None),), offset=95, by="reconcile")
    found = [online, night][:: -1 if night_first else 1]
    assert sum(store.violations.record("c", [one]) for one in found) == 15
    again = cut(7, T0 + MONTH, kind=kind, records=(Records(100, 10, None),))
    resolve_all(store, T0 + MINUTE)
    assert store.violations.record("c", [again]) == 10


def test_what_retention_deleted_is_no_news_and_another_event_is(store: Store) -> None:
    store.violations.record("c", [cut(5)])
    store.incidents.resolve(store.violations.page().items[0].incident_id, "false", T0 + MINUTE)
    store.retention.purge("c", T0 + MONTH)
    assert rows(store) == []
    assert store.violations.record("c", [cut(5, T0 + MONTH), cut(None, T0 + MONTH)]) == 0
    assert store.violations.record("c", [cut(9, T0 + MONTH)]) == 1
