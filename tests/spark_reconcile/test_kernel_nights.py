"""The kernel on small nights, one for each thing that it must notice: as the oracle says, and what that is."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from simulation.nights import oracle
from simulation.nights.memory import reconciled
from simulation.nights.nights import NOW, bound, poll, probe, record, transaction

if TYPE_CHECKING:
    from simulation.nights.oracle import Row

RC, RU = oracle.RC, oracle.RU
IN_TRANSACTION: Row = {"transaction_id": 1, "mode": "transactional"}


def stands(offset: int, sequence: int) -> list[Row]:
    """Return the rows of a record that both levels show."""
    return [record(offset, sequence, level) for level in (RC, RU)]


@pytest.mark.parametrize(
    ("places", "others"),
    [
        (((0, 3), (0, 5)), {}),
        (((5, 2), (0, 3), (6, 4), (0, 6)), {"survived": [5, 6]}),
    ],
)
def test_who_was_acknowledged_at_two_offsets_and_stands_at_both_is_a_duplicate(
    places: tuple[tuple[int, int], ...], others: dict[str, list[int]]
) -> None:
    """Side by side, and with others before and between them."""
    night = oracle.Night(
        probes=[probe(sequence, offset) for sequence, offset in places],
        records=[row for sequence, offset in places for row in stands(offset, sequence)],
        bounds=[bound(level, 0, 9) for level in (RC, RU)],
    )
    assert verdicts_of(night) == {"duplicate": [0]} | others


@pytest.mark.parametrize(
    ("one", "rows", "expected"),
    [
        pytest.param(probe(0, 7), stands(7, 0), "survived", id="in its place"),
        pytest.param(probe(0, 5), stands(5, 0), "survived", id="where the log begins"),
        pytest.param(probe(0, 3), stands(3, 0), "early-expiry", id="below the log's start"),
        pytest.param(probe(0, 7), stands(8, 0), "moved", id="elsewhere"),
        pytest.param(probe(0, None), stands(8, 0), "survived", id="acknowledged without an offset"),
        pytest.param(probe(0, 7), [record(7, 0, RU)], "lost", id="below the last stable offset, uncommitted alone"),
        pytest.param(probe(0, 11), [record(11, 0, RU)], "survived", id="above the last stable offset"),
        pytest.param(probe(0, 7, **IN_TRANSACTION), stands(7, 0), "aborted-read", id="aborted and committed"),
        pytest.param(probe(0, 7, topic_id="B"), stands(7, 0), "other-incarnation", id="of another incarnation"),
        pytest.param(probe(0, 7, "failed", topic_id="B"), stands(7, 0), "other-incarnation", id="failed in another"),
        pytest.param(probe(0, 7, "indeterminate"), [poll(7, 0)], "lost", id="read once, and gone"),
        pytest.param(probe(0, 3, "indeterminate"), [poll(3, 0)], "unacked-absent", id="read below the log's start"),
        pytest.param(probe(0, 11, "indeterminate"), [poll(11, 0)], "unacked-absent", id="read above the log's end"),
    ],
)
def test_what_becomes_of_one_probe(one: Row, rows: list[Row], expected: str) -> None:
    """Its topic's log begins at 5, and is committed up to 10 and dumped up to 12."""
    night = oracle.Night(
        probes=[one],
        transactions=[transaction(1, "aborted")],
        records=[row | {"topic_id": "A"} for row in rows if "valid" in row],
        polls=[row | {"topic_id": "A"} for row in rows if "valid" not in row],
        bounds=[bound(RC, 5, 10, topic_id="A"), bound(RU, 5, 12, topic_id="A")],
    )
    assert verdicts_of(night) == {expected: [0]}


def made_anew(dumped: str) -> oracle.Night:
    """A topic that was A before its id was known, and may be B now: the log's first probes and polls name no id.

    Nor do the dump's records, whose bounds do.
    """
    return oracle.Night(
        probes=[probe(0, 3), probe(1, 4), probe(2, 5, topic_id="A"), probe(3, 3, topic_id=dumped)],
        polls=[poll(3, 0), poll(4, 1)],
        records=stands(3, 3),
        bounds=[bound(level, 0, 9, topic_id=dumped) for level in (RC, RU)],
    )


def test_promises_and_polls_from_before_the_topic_id_was_known_meet_no_later_incarnation() -> None:
    """Neither lost nor at an offset that another identity has: nobody can say of which incarnation they are."""
    night = made_anew("B")
    assert verdicts_of(night) == {"other-incarnation": [0, 1, 2], "survived": [3]}
    result = oracle.verdicts(night)
    assert (result["voided"], result["anomalies"]) == (3, {})


def test_promises_from_before_the_topic_id_was_known_are_kept_in_the_only_incarnation() -> None:
    night = made_anew("A")
    assert verdicts_of(night) == {"lost": [1, 2], "moved": [0], "survived": [3]}
    assert oracle.verdicts(night)["anomalies"] == {"inconsistent-offsets": 1, "lost-write": 3}


@pytest.mark.parametrize("outcome", ["failed", "indeterminate"])
def test_what_promised_nothing_before_the_topic_id_was_known_may_yet_be_found(outcome: str) -> None:
    """A topic's deletion leaves such probes between two ids: the dump of the new one may have them."""
    night = made_anew("B")
    night.probes.append(probe(4, None, outcome))
    night.records += stands(6, 4)
    found = {"failed": "aborted-read", "indeterminate": "unacked-found"}[outcome]
    assert verdicts_of(night) == {"other-incarnation": [0, 1, 2], "survived": [3], found: [4]}


@pytest.mark.parametrize(("rows", "unverified"), [(stands(3, 0), 0), ([poll(3, 0)], 0), ([], 1)])
def test_what_expired_unseen_is_unverified(rows: list[Row], unverified: int) -> None:
    night = oracle.Night(
        probes=[probe(0, 3)],
        records=[row for row in rows if "valid" in row],
        polls=[row for row in rows if "valid" not in row],
        bounds=[bound(level, 5, 9, retention_ms=3_600_000) for level in (RC, RU)],
    )
    assert verdicts_of(night) == {"expired": [0]}
    assert oracle.verdicts(night)["unverified"] == unverified


@pytest.mark.parametrize(
    ("bounds", "verdict"),
    [
        pytest.param({"retention_bytes": 1 << 40, "size_bytes": 1000}, "early-expiry", id="a log of a kilobyte"),
        pytest.param({"retention_bytes": 1000, "size_bytes": 499}, "early-expiry", id="less than half as large"),
        pytest.param({"retention_bytes": 1000, "size_bytes": 500}, "expired", id="half as large"),
        pytest.param({"retention_bytes": 0, "size_bytes": 0}, "expired", id="nothing is kept"),
        pytest.param({"retention_bytes": 1 << 40}, "unexplained-expiry", id="of unknown size"),
        pytest.param({"retention_bytes": 1 << 40, "retention_ms": 1000}, "expired", id="old enough anyway"),
        pytest.param({"retention_bytes": None}, "unexplained-expiry", id="settings unknown"),
        pytest.param({"retention_ms": None}, "unexplained-expiry", id="no age known"),
        pytest.param({"retention_ms": None, "retention_bytes": 9, "size_bytes": 9}, "expired", id="no age needed"),
        pytest.param({}, "early-expiry", id="nothing is deleted, as by compaction alone"),
    ],
)
def test_a_size_explains_what_a_log_of_that_size_may_have_lost(bounds: Row, verdict: str) -> None:
    night = oracle.Night(probes=[probe(0, 3)], bounds=[bound(level, 5, 9, **bounds) for level in (RC, RU)])
    assert verdicts_of(night) == {verdict: [0]}
    out = oracle.verdicts(night)
    assert out["anomalies"] == ({} if verdict == "expired" else {verdict: 1})
    assert out["table"]["acked_lost"] == (verdict == "early-expiry")
    assert out["unverified"] == (verdict != "early-expiry"), "nobody saw it"


@pytest.mark.parametrize(
    ("retention_ms", "verdict"),
    [(61 * 60_000, "expired"), (61 * 60_000 + 1, "early-expiry"), (10_000_000, "early-expiry")],
)
def test_an_hour_explains_by_which_clock_it_may_be_a_minute_more(retention_ms: int, verdict: str) -> None:
    """The same rule as online: clocks differ by a minute at most, and by a tenth of a shorter retention."""
    night = oracle.Night(
        probes=[probe(0, 3)], bounds=[bound(level, 5, 9, retention_ms=retention_ms) for level in (RC, RU)]
    )
    assert verdicts_of(night) == {verdict: [0]}


@pytest.mark.parametrize(("age_ms", "verdict"), [(9_000, "expired"), (8_999, "early-expiry")])
def test_of_a_short_retention_clocks_may_take_a_tenth(age_ms: int, verdict: str) -> None:
    sent_at = NOW - age_ms * 1000
    night = oracle.Night(
        probes=[probe(0, 3, sent_at=sent_at)], bounds=[bound(level, 5, 9, retention_ms=10_000) for level in (RC, RU)]
    )
    assert verdicts_of(night) == {verdict: [0]}


def test_only_who_was_looked_for_is_told_a_second_time() -> None:
    """A copy in another range makes the first range tell of the original, and of nobody else there."""
    night = oracle.Night(
        probes=[probe(sequence, sequence) for sequence in range(3)],
        records=[row for sequence in range(3) for row in stands(sequence, sequence)] + stands(7, 0),
        bounds=[bound(level, 0, 9) for level in (RC, RU)],
    )
    assert verdicts_of(night, 5) == {"duplicate": [0], "survived": [1, 2]}


def verdicts_of(night: oracle.Night, *cuts: int) -> dict[str, list[int]]:
    """Return the sequences by verdict; the kernel says all that the oracle says, in whatever order it gets the rows."""
    expected = oracle.verdicts(night)
    for seed in range(4):
        said = reconciled(night, list(cuts), random.Random(seed))  # noqa: S311  # nothing secret
        assert {name: said[name] for name in expected} == expected
    result: dict[str, list[int]] = {}
    for key, (verdict, _) in sorted(expected["verdicts"].items()):
        result.setdefault(verdict, []).append(key[-1])
    judged = {sequence for sequences in result.values() for sequence in sequences}
    if rest := sorted({row["sequence"] for row in night.probes} - judged):
        result["survived"] = rest
    return result
