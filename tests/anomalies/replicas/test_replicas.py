from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canary.anomalies.replicas.compaction import Search
from canary.anomalies.replicas.copies import Copy, differences
from canary.anomalies.replicas.divergence import Divergence, confirmed, odd_ones, together
from tests.anomalies.replicas.model import FakeBatch, batch, cleaned, log, record

SIZE = 60
PLACE, LEADER = ("orders", 3, "id"), (1, 5)


def looked(
    logs: list[list[FakeBatch]], start: int = 0, end: int = 10**6, *, compacted: bool = False
) -> list[Divergence]:
    """Divergences of replicas 1, 2, ..."""
    found = differences([Copy(1 + i, one) for i, one in enumerate(logs)], start, end, compacted=compacted)
    if compacted:
        search = Search()
        found = search.add(found)
        records = {kept.offset: kept for one in logs for each in one if each.intact for kept in each.records}
        search.feed(records[offset] for offset in sorted(records))
        found = sorted([*found, *search.pending], key=lambda one: one.first)
    return list(together(PLACE, LEADER, found))


def brief(found: list[Divergence]) -> list[tuple[tuple[int, ...], str, int, int]]:
    return [(one.brokers, one.how, one.first, one.last) for one in found]


ROWS = [batch(record(0), record(1)), batch(record(2), record(3)), batch(record(4))]


def test_equal_replicas_are_equal() -> None:
    assert looked([ROWS, list(ROWS), list(ROWS)]) == []


def test_a_batch_that_one_replica_lacks_is_found_by_broker_and_offset() -> None:
    (found,) = looked([ROWS, [ROWS[0], ROWS[2]], ROWS])
    assert (found.brokers, found.known, found.how, found.first, found.last, found.count) == (
        (2,),
        True,
        "missing",
        2,
        3,
        2,
    )
    assert found.sentence == "broker 2 lacks what the others have"


def test_of_two_replicas_none_is_the_odd_one() -> None:
    (found,) = looked([ROWS, [ROWS[0], ROWS[2]]])
    assert (found.brokers, found.known, found.how) == ((1, 2), False, "missing")


def test_what_one_replica_has_alone_is_extra() -> None:
    short = [ROWS[0], ROWS[2]]
    assert brief(looked([short, ROWS, short])) == [((2,), "extra", 2, 3)]


def test_a_record_that_differs_is_found_in_its_batch() -> None:
    harmed = [ROWS[0], batch(record(2), record(3, digest="other")), ROWS[2]]
    (found,) = looked([ROWS, ROWS, harmed])
    assert brief([found]) == [((3,), "different", 3, 3)]
    assert found.found == {3: {1: f"{3:016x}", 2: f"{3:016x}", 3: "other"}}


def test_a_header_that_differs_is_found_though_no_record_does() -> None:
    harmed = [ROWS[0], replace(ROWS[1], salt=1), ROWS[2]]
    assert brief(looked([ROWS, ROWS, harmed])) == [((3,), "different", 2, 3)]
    assert looked([ROWS, ROWS, harmed], compacted=True) == []


@pytest.mark.parametrize("compacted", [False, True])
def test_a_wrong_crc_is_found_also_on_all_replicas(compacted: bool) -> None:  # noqa: FBT001  # a case
    broken = [ROWS[0], replace(ROWS[1], intact=False), ROWS[2]]
    (found,) = looked([ROWS, broken], compacted=compacted)
    assert (found.brokers, found.known, found.how, found.first, found.last) == ((2,), True, "bad-crc", 2, 3)
    assert [one.brokers for one in looked([broken, list(broken)], compacted=compacted)] == [(1, 2)]


def test_batches_out_of_order_and_such_that_cannot_be_decoded_are_found() -> None:
    assert brief(looked([ROWS, ROWS, [ROWS[0], ROWS[1], ROWS[1], ROWS[2]]])) == [((3,), "out-of-order", 2, 2)]
    assert brief(looked([ROWS, [ROWS[0], replace(ROWS[1], decodes=False, salt=1), ROWS[2]], ROWS])) == [
        ((2,), "undecodable", 2, 3)
    ]


def test_a_replica_that_cannot_read_its_own_log_is_the_odd_one() -> None:
    copies = [Copy(1, ROWS), Copy(2, ROWS), Copy(3, [ROWS[0]], unreadable=2)]
    found = differences(copies, 0, 5, compacted=False)
    assert brief(list(together(PLACE, LEADER, found))) == [((3,), "unreadable", 2, 4)]


def test_only_the_range_is_compared() -> None:
    short = [ROWS[0], ROWS[2]]
    assert looked([ROWS, short], start=4) == []
    assert looked([ROWS, short], end=2) == []
    assert brief(looked([ROWS, short, ROWS], start=3)) == [((2,), "missing", 3, 3)]


def test_compaction_explains_what_a_later_record_of_the_key_replaces_and_nothing_else() -> None:
    rows = [batch(record(0, b"a")), batch(record(1, b"b")), batch(record(2, b"a"))]
    assert looked([rows, rows[1:]], compacted=True) == []
    (found,) = looked([rows, [rows[0], rows[2]], rows], compacted=True)
    assert brief([found]) == [((2,), "missing", 1, 1)]
    assert brief(looked([rows, rows[1:], rows], compacted=False)) == [((2,), "missing", 0, 0)]


def test_too_many_that_are_missing_are_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("canary.anomalies.replicas.compaction.MOST_PENDING", 1)
    rows = [batch(record(0, b"a")), batch(record(1, b"b"))]
    search = Search()
    assert search.add(differences([Copy(1, rows), Copy(2, [])], 0, 2, compacted=True)) == []
    assert ([one.first for one in search.pending], search.left_out, search.explained) == ([0], 1, 0)
    search.feed([record(5, b"a")])
    assert (search.pending, search.left_out, search.explained) == ([], 1, 1)


def test_tombstones_markers_and_records_of_aborted_transactions_go_by_compaction() -> None:
    rows = [
        batch(record(0, b"a", producer=7)),
        batch(record(1, None, marker="abort", producer=7)),
        batch(record(2, b"b", tombstone=True)),
        batch(record(3, None)),
        batch(record(4, b"c", producer=7)),
        batch(record(5, None, marker="commit", producer=7)),
        batch(record(6, b"d")),
    ]
    kept = [rows[4], rows[6]]
    assert looked([rows, kept], compacted=True) == []
    (found,) = looked([rows, [rows[6]], rows], compacted=True)
    assert brief([found]) == [((2,), "missing", 4, 4)]


def test_a_record_that_differs_is_never_explained() -> None:
    rows = [batch(record(0, b"a")), batch(record(1, b"a"))]
    harmed = [batch(record(0, b"a", digest="other")), rows[1]]
    assert brief(looked([rows, rows, harmed], compacted=True)) == [((3,), "different", 0, 0)]


def test_what_is_found_in_one_of_two_readings_is_not_believed() -> None:
    short = [ROWS[0], ROWS[2]]
    first = differences([Copy(1, ROWS), Copy(2, short)], 0, 5, compacted=False)
    again = differences([Copy(1, ROWS), Copy(2, ROWS[:2])], 0, 5, compacted=False)
    assert [one.first for one in first] == [2, 3]
    assert confirmed(first, again) == []
    assert confirmed(first, first) == first


def test_the_violation_names_broker_offsets_and_digests() -> None:
    (found,) = looked([ROWS, [ROWS[0], ROWS[2]], ROWS])
    said = found.violation(1, "canary replicas compare orders --partition 3")
    assert (said.kind, said.severity, said.topic, said.partition, said.offset, said.last_offset, said.count) == (
        "replica-divergence",
        "critical",
        "orders",
        3,
        2,
        3,
        2,
    )
    assert said.evidence["brokers"] == [2]
    assert said.evidence["digests"]["2"] == {"1": f"{2:016x}", "2": "missing", "3": f"{2:016x}"}
    assert "canary replicas compare orders" in said.summary


def test_divergences_of_neighbouring_windows_are_one() -> None:
    first, second = looked([ROWS, [], ROWS], end=2), looked([ROWS, [], ROWS], start=2)
    joined = first[0].joined(second[0])
    assert joined is not None
    assert (joined.first, joined.last, joined.count) == (0, 4, 5)
    assert second[0].joined(first[0]) is None


def test_brokers_that_differ_in_different_ways_are_all_odd() -> None:
    assert odd_ones({1: "a", 2: "a", 3: "a", 4: "missing", 5: "b"}) == ((4, 5), True, "different")
    assert odd_ones({1: "a", 2: "b", 3: "c"}) == ((1, 2, 3), False, "different")


@given(st.integers(0, 2**32), st.booleans(), st.integers(1, 4))
def test_compaction_by_each_broker_for_itself_is_silent(seed: int, twice: bool, replicas: int) -> None:  # noqa: FBT001
    rng = random.Random(seed)  # noqa: S311  # a case
    whole = log(rng, SIZE)
    logs = [cleaned(whole, rng.randrange(SIZE + 10), rng) for _ in range(replicas)]
    if twice:
        logs = [cleaned(one, rng.randrange(SIZE + 10), rng) for one in logs]
    cuts = sorted(rng.sample(range(SIZE), 2))
    for start, end in ((0, cuts[0]), (cuts[0], cuts[1]), (cuts[1], 10**6), (0, 10**6)):
        assert looked(logs, start, end, compacted=True) == []


@given(st.integers(0, 2**32), st.sampled_from(["removed", "altered", "crc", "epoch", "moved", "header"]))
def test_a_harm_at_one_of_three_replicas_is_found_there(seed: int, harm: str) -> None:
    rng = random.Random(seed)  # noqa: S311  # a case
    logs = [log(random.Random(seed), SIZE) for _ in range(3)]  # noqa: S311  # a case
    victim, at = rng.randrange(3), rng.randrange(len(logs[0]))
    harmed = logs[victim][at]
    logs[victim][at : at + 1] = _harmed(harmed, harm, rng)
    found = looked(logs)
    assert found
    assert {one.brokers for one in found} == {(1 + victim,)}
    near = range(harmed.base_offset, harmed.last_offset + 10)
    assert all(one.first in near and one.known for one in found)


@given(st.integers(0, 2**32), st.sampled_from(["altered", "crc", "epoch"]))
def test_a_harm_is_found_in_a_topic_that_is_compacted_too(seed: int, harm: str) -> None:
    rng = random.Random(seed)  # noqa: S311  # a case
    whole = log(rng, SIZE)
    logs = [cleaned(whole, rng.randrange(SIZE), rng) for _ in range(3)]
    victim = rng.randrange(3)
    here = [i for i, one in enumerate(logs[victim]) if sum(one in each for each in logs) == 3]
    if not here:
        return
    at = rng.choice(here)
    logs[victim][at : at + 1] = _harmed(logs[victim][at], harm, rng)
    found = looked(logs, compacted=True)
    assert {one.brokers for one in found} == {(1 + victim,)}


def _harmed(one: FakeBatch, harm: str, rng: random.Random) -> list[FakeBatch]:
    if harm == "removed":
        return []
    if harm == "crc":
        return [replace(one, intact=False)]
    if harm == "header":
        return [replace(one, salt=99)]
    if harm == "moved":
        moved = tuple(replace(each, offset=each.offset + 1) for each in one.records)
        return [replace(one, base_offset=one.base_offset + 1, last_offset=one.last_offset + 1, records=moved)]
    at = rng.randrange(len(one.records))
    changed = [
        replace(each, digest="harm") if i == at or harm == "epoch" else each for i, each in enumerate(one.records)
    ]
    return [replace(one, records=tuple(changed), leader_epoch=one.leader_epoch + (harm == "epoch"))]
