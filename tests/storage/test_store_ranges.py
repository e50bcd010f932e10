"""A violation may be about a range of records: no record is in two of one kind, and totals count records."""

from __future__ import annotations

import dataclasses
import random
from typing import TYPE_CHECKING, Any

from sqlalchemy import text

from canary.anomalies.online.codec import dumps, loads
from canary.anomalies.violation import Records, Violation
from canary.probe.identity import Identity
from storage.store import Store
from storage.store.values import Sighting, ViolationCount, ViolationFilter
from tests.support import seeds
from tests.support.steps import steps

if TYPE_CHECKING:
    from collections.abc import Sequence

T0 = 1_760_000_000_000_000_000
MANY = 10_000_000


def lost(*runs: tuple[int, int], at_ns: int = T0, **changes: Any) -> Violation:
    """Return a loss of (offset, count) each; at offset x stood sequence x."""
    violation = Violation(
        kind="lost-write",
        severity="critical",
        topic="t",
        topic_id="T1",
        partition=0,
        offset=None,
        identity=None,
        mode="idempotent",
        at_ns=at_ns,
        by="online",
        summary="acknowledged writes are gone",
    )
    about = violation.about([Records(offset, count, who(offset)) for offset, count in runs])
    return dataclasses.replace(about, **changes)


def who(sequence: int) -> Identity:
    return Identity(7, 1, 0, sequence)


def found(store: Store) -> dict[tuple[int | None, int | None], int]:
    """Return what the store lists: (first, last offset) to count."""
    return {(row.offset, row.last_offset): row.count for row in store.violations.page(limit=1000).items}


def total(store: Store) -> tuple[int, int]:
    return sum(row.total for row in store.violations.counts()), sum(row.open for row in store.violations.counts())


def test_a_range_is_one_row_and_counts_its_records(store: Store) -> None:
    assert store.violations.record("c", [lost((100, MANY))]) == MANY
    (row,) = store.violations.page().items
    assert (row.offset, row.last_offset, row.count) == (100, MANY + 99, MANY)
    assert (row.identity, row.last_identity) == (who(100), who(MANY + 99))
    assert row.summary.endswith(f"({MANY:,} records, offsets 100 to {MANY + 99})")
    assert store.violations.counts() == [ViolationCount("c", "lost-write", "critical", MANY, MANY)]
    assert store.violations.record("c", [lost((100, MANY))]) == 0
    assert total(store) == (MANY, MANY)


def test_a_range_comes_back_with_its_runs(store: Store) -> None:
    range_ = lost((100, 3), (105, 1), (107, 20))
    store.violations.record("c", [range_, lost((50, 1))])
    kept = store.violations.get(range_.key("c"))
    assert kept is not None
    assert tuple(kept.records) == range_.records
    assert (kept.count, kept.last_offset, kept.last_identity) == (24, 126, who(126))
    single = store.violations.get(lost((50, 1)).key("c"))
    assert single is not None
    assert (single.count, single.last_offset, single.last_identity, single.records) == (1, 50, who(50), ())
    assert loads(Violation, dumps(range_)) == range_


def test_what_is_found_again_in_part_is_new_for_the_rest_only(store: Store) -> None:
    first = lost((100, 100))
    store.violations.record("c", [first])
    assert store.violations.record("c", [lost((150, 100), at_ns=T0 + 1)]) == 50
    assert store.violations.record("c", [lost((90, 300), at_ns=T0 + 2)]) == 150
    assert store.violations.record("c", [lost((120, 1), at_ns=T0 + 3)]) == 0
    assert found(store) == {(90, 99): 10, (100, 199): 100, (200, 249): 50, (250, 389): 140}
    kept = store.violations.get(first.key("c"))
    assert kept is not None
    assert kept.sightings == tuple(Sighting("online", T0 + n) for n in range(4))
    assert total(store) == (300, 300)


def test_single_records_and_ranges_know_of_each_other(store: Store) -> None:
    store.violations.record("c", [lost((offset, 1)) for offset in (3, 4, 8)])
    assert store.violations.record("c", [lost((0, 10)), lost((2, 3))]) == 7
    assert found(store) == {(3, 3): 1, (4, 4): 1, (8, 8): 1, (0, 2): 3, (5, 7): 3, (9, 9): 1}
    assert store.violations.record("c", [lost((offset, 1)) for offset in range(10)]) == 0


def test_other_probes_at_the_same_offsets_are_other_records(store: Store) -> None:
    store.violations.record("c", [lost((100, 10))])
    again = lost((100, 10)).about([Records(100, 10, Identity(7, 2, 0, 0))])
    assert store.violations.record("c", [again]) == 10
    for place in ({"topic_id": "T2"}, {"partition": 1}, {"topic": "u"}, {"kind": "duplicate"}):
        assert store.violations.record("c", [lost((100, 10), **place)]) == 10
    assert store.violations.record("d", [lost((100, 10))]) == 10


def test_a_range_becomes_worse_as_a_whole_and_is_confirmed_by_all_of_it_only(store: Store) -> None:
    doubted = lost((100, 10), severity="warning", evidence={"confirmed": False})
    store.violations.record("c", [doubted])
    store.violations.record("c", [lost((103, 2), severity="warning", evidence={"confirmed": True})])
    kept = store.violations.get(doubted.key("c"))
    assert kept is not None
    assert kept.evidence["confirmed"] is False
    store.violations.record("c", [lost((100, 10), evidence={"confirmed": True})])
    kept = store.violations.get(doubted.key("c"))
    assert kept is not None
    assert (kept.severity, kept.evidence["confirmed"], kept.count) == ("critical", True, 10)
    assert store.violations.counts() == [
        ViolationCount("c", "lost-write", "critical", 10, 10),
        ViolationCount("c", "lost-write", "warning", 10, 0),
    ]


def test_what_retention_deleted_is_still_known_record_by_record(store: Store) -> None:
    store.violations.record("c", [lost((100, 10)), lost((200, 1))])
    assert deleted(store) == 2
    assert store.violations.record("c", [lost((105, 1)), lost((100, 10)), lost((95, 200))]) == 189
    assert found(store) == {(95, 99): 5, (110, 199): 90, (201, 294): 94}
    assert total(store) == (200, 189)


def deleted(store: Store) -> int:
    """Let retention delete all that was found so far, as false alarms of long ago."""
    for row in store.incidents.page().items:
        store.incidents.resolve(row.id, "false", T0 + 1)
    return store.retention.purge("c", T0 + 2).violations


def test_a_cluster_that_was_forgotten_and_comes_back_begins_anew(store: Store) -> None:
    store.violations.record("c", [lost((100, 10))])
    assert deleted(store) == 1
    store.retention.forget("c", T0)
    assert store.violations.record("c", [lost((95, 10))]) == 10


def test_a_range_that_begins_and_ends_as_a_known_one_has_records_of_its_own_between(store: Store) -> None:
    store.violations.record("c", [lost((100, 3), (107, 3))])
    assert store.violations.record("c", [lost((100, 1), (104, 2), (109, 1))]) == 2
    assert found(store) == {(100, 109): 6, (104, 105): 2}
    assert deleted(store) == 2
    assert store.violations.record("c", [lost((100, 10))]) == 2
    assert found(store) == {(103, 103): 1, (106, 106): 1}


def test_what_ever_counted_is_told_in_records(store: Store) -> None:
    store.violations.record("c", [lost((100, 10)), lost((200, MANY), at_ns=T0 + 5)])
    (row,) = store.violations.groups()
    assert (row.records, type(row.records), row.first_ns, row.last_ns) == (MANY + 10, int, T0, T0 + 5)


def test_an_offset_is_found_within_ranges(store: Store) -> None:
    store.violations.record("c", [lost((100, 10)), lost((110, 1)), lost((111, 5))])
    at = {
        x: [row.offset for row in store.violations.page(ViolationFilter(offset=x)).items]
        for x in (99, 100, 109, 110, 115)
    }
    assert at == {99: [], 100: [100], 109: [100], 110: [110], 115: [111]}


def test_whatever_ranges_come_each_record_is_in_one_violation(store: Store) -> None:
    for seed in seeds.cases("ranges", 3):
        _each_record_once(store, f"cluster {seed}", random.Random(seed))  # noqa: S311  # to be repeated


def _each_record_once(store: Store, cluster: str, chance: random.Random) -> None:
    known: set[int] = set()
    for _ in range(20):
        batch = [lost(*_runs(chance)) for _ in range(chance.randint(1, 4))]
        offsets = {x for one in batch for x in _offsets(one.runs)}
        assert store.violations.record(cluster, batch) == len(offsets - known)
        known |= offsets
    rows = [
        store.violations.get(row.id)
        for row in store.violations.page(ViolationFilter(cluster=cluster), limit=1000).items
    ]
    told = [
        x for row in rows if row is not None for x in _offsets(row.records or [Records(row.offset, 1, row.identity)])
    ]
    assert sorted(told) == sorted(known)
    assert [count.total for count in store.violations.counts() if count.cluster == cluster] == [len(known)]


def _runs(chance: random.Random) -> list[tuple[int, int]]:
    at, runs = chance.randint(0, 150), []
    for _ in range(chance.randint(1, 4)):
        count = chance.choice((1, 1, 5, 20))
        runs.append((at, count))
        at += count + chance.randint(1, 3)
    return runs


def _offsets(runs: Sequence[Records]) -> list[int]:
    return [x for run in runs for x in range(run.offset or 0, (run.offset or 0) + run.size)]


def test_the_work_does_not_grow_with_the_range(store: Store) -> None:
    few = steps(lambda: store.violations.record("c", [lost((0, 10))]))
    many = steps(lambda: store.violations.record("d", [lost((0, MANY))]))
    assert many < 1.2 * few


def test_violations_from_before_ranges_are_migrated(store_url: str) -> None:
    with Store.connect(store_url, timeout=60) as store:
        store.upgrade()
        store.downgrade("0005")
        with store._database.writing() as connection:
            for offset in (100, 101):
                connection.execute(_OLD, {"id": lost((offset, 1)).key("c"), "offset": offset})
            connection.execute(
                text("INSERT INTO forgotten_violations (id) VALUES (:id)"), {"id": lost((9, 1)).key("c")}
            )
            connection.execute(text("INSERT INTO violation_totals VALUES ('c', 'lost-write', 'critical', 3)"))
        store.upgrade()
        assert found(store) == {(100, 100): 1, (101, 101): 1}
        assert store.violations.record("c", [lost((100, 1)), lost((9, 1)), lost((95, 10))]) == 8
        assert total(store) == (11, 10)


_OLD = text(
    "INSERT INTO violations VALUES (:id, 'lost-write', 'critical', 'c', 't', 'T1', 0, :offset, 7, 1, 0, :offset, "
    "'idempotent', 'open', NULL, NULL, 1, 1, NULL, '[]', 'i', 'gone', '{}')"
)
