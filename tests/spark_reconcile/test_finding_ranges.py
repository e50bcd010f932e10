"""A night's cases become violations in ranges, each case in exactly one of them."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from canary.anomalies.violation import MOST_RUNS, Violation
from simulation.histories.retelling import one_by_one
from spark_reconcile.report import findings
from spark_reconcile.report.output import CASE_SCHEMA
from spark_reconcile.tables.bounds import Place
from tests.support import seeds
from tests.support.steps import steps

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def case(offset: int | None, sequence: int | None = None, **more: Any) -> dict[str, Any]:
    """A loss at ``offset``, where sequence ``offset`` stood unless another is told."""
    place = {"cluster": "c", "topic": "t", "topic_id": "A", "partition": 0, "mode": "idempotent"}
    who = {"producer_id": 7, "generation": 1, "sequence": offset if sequence is None else sequence}
    return dict.fromkeys(CASE_SCHEMA.names) | {"kind": "lost-write", "offset": offset} | place | who | more


def found(folder: Path, *files: list[dict[str, Any]]) -> list[Violation]:
    (folder / "anomalies").mkdir(exist_ok=True)
    for number, rows in enumerate(files):
        pq.write_table(pa.Table.from_pylist(rows, CASE_SCHEMA), folder / "anomalies" / f"{number}.parquet")
    return [violation for _, violation in findings.violations(str(folder), 5)]


def places(violations: list[Violation]) -> list[tuple[str, int | None, int | None, int]]:
    return [(v.kind, v.offset, v.last_offset, v.count) for v in violations]


def test_cases_in_a_row_are_one_violation_however_they_are_filed(tmp_path: Path) -> None:
    rows = [case(offset, transaction_id=None, found_offset=offset + 50) for offset in range(10, 30)]
    rows += [case(40)]
    random.Random(1).shuffle(rows)  # noqa: S311  # any order
    violations = found(tmp_path, rows[:7], rows[7:])
    assert places(violations) == [("lost-write", 10, 29, 20), ("lost-write", 40, 40, 1)]
    first, single = violations
    assert (first.identity, first.last_identity) == ((7, 1, 0, 10), (7, 1, 0, 29))
    assert (first.evidence["found_offset"], first.evidence["last"]) == (60, {"found_offset": 79})
    assert first.summary == "acknowledged writes are not in the topic"
    assert single.summary == "an acknowledged write is not in the topic: offset 40"


def test_what_a_night_finds_happened_after_its_acknowledgement_and_before_its_place_was_read(tmp_path: Path) -> None:
    def at(second: int) -> datetime:
        return datetime.fromtimestamp(second, UTC)

    rows = [case(10, sent_at=at(90), acked_at=at(100)), case(11, sent_at=at(80)), case(20)]
    rows += [case(offset, kind="early-expiry", sent_at=at(70 - offset)) for offset in (1, 2)]
    found(tmp_path, rows)
    said = [one for _, one in findings.violations(str(tmp_path), 5, None, {Place("c", "t", 0): 300 * 10**9})]
    spans = {(one.kind, one.offset): (one.happened_after_ns, one.happened_before_ns) for one in said}
    assert spans == {
        ("lost-write", 10): (80 * 10**9, 300 * 10**9),
        ("lost-write", 20): (None, 300 * 10**9),
        ("early-expiry", 1): (68 * 10**9, 300 * 10**9),
    }


def test_what_is_gone_for_an_unknown_reason_is_one_violation_of_its_topic_as_by_day(tmp_path: Path) -> None:
    rows = [case(offset, kind="unexplained-expiry", partition=p) for p, offset in ((2, 3), (1, 4), (1, 9), (2, 4))]
    (said,) = found(tmp_path, rows)
    assert (said.kind, said.topic, said.partition, said.offset) == ("unexplained-expiry", "t", None, None)
    assert (said.severity, said.evidence["count"], said.evidence["identity"]) == ("warning", 4, [7, 1, 1, 4])


def test_other_places_kinds_and_modes_are_other_violations(tmp_path: Path) -> None:
    others: list[dict[str, Any]] = [
        {"topic": "u"},
        {"topic_id": None},
        {"partition": 1},
        {"kind": "duplicate"},
        {"mode": "plain"},
        {"cluster": "d"},
    ]
    rows = [case(10), *(case(11, **one) for one in others)]
    assert sorted(v.count for v in found(tmp_path, rows)) == [1] * 7


def test_another_probe_than_the_next_one_is_another_run_of_the_same_range(tmp_path: Path) -> None:
    rows = [case(10), case(11), case(12, 0, generation=2), case(13, 1, generation=2)]
    (violation,) = found(tmp_path, rows)
    assert [(run.offset, run.size) for run in violation.records] == [(10, 2), (12, 2)]


def test_a_marker_is_known_by_the_transactions_around_it(tmp_path: Path) -> None:
    rows = [case(10, 0, transaction_id=1), case(12, 1, transaction_id=2), case(14, 2, transaction_id=2)]
    assert places(found(tmp_path, rows)) == [("lost-write", 10, 12, 2), ("lost-write", 14, 14, 1)]


def test_transactions_torn_by_one_loss_are_one_violation(tmp_path: Path) -> None:
    lost = [case(2 * n, n, transaction_id=n) for n in range(5)]
    torn = [case(2 * n, n, transaction_id=n, kind="fractured-transaction") for n in (0, 2, 4)]
    beside = [case(100, 50, transaction_id=50, kind="fractured-transaction")]
    assert places(found(tmp_path, lost + torn + beside)) == [
        ("fractured-transaction", 0, 8, 3),
        ("fractured-transaction", 100, 100, 1),
        ("lost-write", 0, 8, 5),
    ]


def test_damaged_offsets_need_no_probe_and_what_has_no_offset_stands_alone(tmp_path: Path) -> None:
    nobody = {"producer_id": None, "generation": None, "sequence": None}
    rows = [case(5, kind="corrupt"), case(6, kind="corrupt", **nobody), case(7, 99, kind="corrupt")]
    rows += [case(None, 1), case(None, 2), case(8, kind="G0"), case(9, kind="G0")]
    assert sorted(places(found(tmp_path, rows)), key=str) == [
        ("G0", 8, 8, 1),
        ("G0", 9, 9, 1),
        ("corrupt", 5, 7, 3),
        ("lost-write", None, None, 1),
        ("lost-write", None, None, 1),
    ]


def test_early_expiries_are_one_a_partition(tmp_path: Path) -> None:
    rows = [case(offset, kind="early-expiry") for offset in (3, 4, 9)]
    (violation,) = found(tmp_path, rows[1:], rows[:1])
    assert (violation.offset, violation.identity, violation.count) == (3, None, 1)
    assert (violation.evidence["count"], violation.evidence["identity"]) == (3, [7, 1, 0, 3])


def test_each_case_is_in_one_violation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "_HELD", 40)
    for seed in seeds.cases("findings", 10):
        chance = random.Random(seed)  # noqa: S311  # to be repeated
        offsets = [offset for offset in range(200) if chance.random() < 0.7]
        rows = [case(offset, offset - chance.choice((0, 0, 0, 5))) for offset in offsets]
        told = [one.offset for v in found(tmp_path, rows[::2], rows[1::2]) for one in one_by_one(v)]
        assert sorted(told, key=int) == offsets, seed  # type: ignore[arg-type]


def test_a_range_has_a_thousand_runs_at_most(tmp_path: Path) -> None:
    rows = [case(2 * n, n, transaction_id=n) for n in range(MOST_RUNS + 2)]
    assert [v.count for v in found(tmp_path, rows)] == [MOST_RUNS, 2]


def test_the_work_grows_with_breaks_and_not_with_cases(tmp_path: Path) -> None:
    few, many = (steps(lambda n=n: found(tmp_path, [case(offset) for offset in range(n)])) for n in (100, 10_000))  # type: ignore[misc]
    rows = 10_000 - 100
    made = steps(lambda: [case(offset) for offset in range(rows)])
    assert many - few < 1.1 * made, "making the cases is all that takes longer"
