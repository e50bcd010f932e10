"""One loss is one violation of one severity, whoever finds it: the tracker, the nightly reconciliation, or both."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from canary.anomalies import policy
from canary.anomalies.catalogue import CATALOGUE
from canary.cli.data.history_report import severity_of
from simulation.histories.retelling import one_by_one
from spark_reconcile.report import findings
from spark_reconcile.report.output import CASE_SCHEMA, TABLE_SCHEMA
from storage.store import Store
from tests.support import stores
from tests.support.bench import Bench

if TYPE_CHECKING:
    from pathlib import Path

    from canary.anomalies.violation import Violation

WITHOUT_MODE = {"duplicate", "inconsistent-offsets"}
"""Kinds that the kernel tells by what it found in the log, which does not say its mode."""


def online(mode: str) -> list[Violation]:
    """What the tracker says of a log that was cut, and of a record that stands there twice."""
    bench = Bench(mode=mode)
    bench.write(10)
    bench.settle(2)
    bench.truncate(7)
    bench.poll()
    bench.write(1)
    bench.settle()
    return bench.said


def nightly(said: list[Violation], mode: str, out: Path) -> list[Violation]:
    """The same, as a run of the reconciliation finds it."""
    place = {"cluster": "c", "topic": said[0].topic, "partition": 0}
    rows = [
        place
        | {"kind": one.kind, "topic_id": one.topic_id, "offset": one.offset}
        | {"mode": None if one.kind in WITHOUT_MODE else mode}
        | (one.identity._asdict() if one.identity else {})
        for violation in said
        for one in one_by_one(violation)
    ]
    for table, schema, content in (
        ("anomalies", CASE_SCHEMA, rows),
        ("table", TABLE_SCHEMA, [place | {"mode": mode, "acked": 10}]),
    ):
        (out / table).mkdir()
        pq.write_table(pa.Table.from_pylist(content, schema), out / table / "a.parquet")
    return [violation for _, violation in findings.violations(str(out), 5)]


def keys(violations: list[Violation]) -> set[str]:
    """What tells the records apart, however they are divided into ranges; a night knows no leader epochs."""
    return {replace(one, leader_epoch=None).key("c") for violation in violations for one in one_by_one(violation)}


@pytest.mark.parametrize(("mode", "severity"), [("plain", "warning"), ("idempotent", "critical")])
def test_a_loss_weighs_at_night_what_it_weighs_online_and_is_counted_once(
    mode: str, severity: str, tmp_path: Path
) -> None:
    said = [one for one in online(mode) if "spark" in CATALOGUE[one.kind].scopes]
    assert {one.kind for one in said} == {"lost-write", "inconsistent-offsets"}
    again = nightly(said, mode, tmp_path)
    assert keys(again) == keys(said)
    assert {(one.severity, one.mode) for one in (*said, *again)} == {(severity, mode)}
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=60) as store:
        stores.upgrade(store)
        assert store.violations.record("c", said) == sum(one.count for one in said) == 4
        assert store.violations.record("c", again) == 0
        assert {(row.kind, row.severity): row.total for row in store.violations.counts()} == {
            ("lost-write", severity): 3,
            ("inconsistent-offsets", severity): 1,
        }


def test_a_copy_that_the_log_alone_holds_weighs_what_its_topic_s_mode_costs(tmp_path: Path) -> None:
    copy = {"kind": "duplicate", "topic_id": "A", "offset": 4, "producer_id": 7, "generation": 1, "sequence": 3}
    weights: dict[str, Any] = {}
    for mode in ("plain", "idempotent"):
        place = {"cluster": "c", "topic": f"t-{mode}", "partition": 0}
        for table, schema, row in (
            ("anomalies", CASE_SCHEMA, copy | place),
            ("table", TABLE_SCHEMA, place | {"mode": mode}),
        ):
            (tmp_path / mode / table).mkdir(parents=True)
            pq.write_table(pa.Table.from_pylist([row], schema), tmp_path / mode / table / "a.parquet")
        ((_, found),) = findings.violations(str(tmp_path / mode), 5)
        weights[mode] = found.severity, found.mode
    assert weights == {"plain": ("warning", "plain"), "idempotent": ("critical", "idempotent")}


@pytest.mark.parametrize("kind", CATALOGUE)
def test_whatever_the_mode_an_anomaly_has_a_severity_that_its_entry_names(kind: str) -> None:
    modes: tuple[tuple[str | None, ...], ...] = ((), (None,), ("plain",), ("plain", "idempotent"), ("idempotent",))
    for of in modes:
        assert policy.severity(kind, *of) in CATALOGUE[kind].severities
    assert severity_of(kind) in CATALOGUE[kind].severities
    assert policy.severity(kind) == policy.severity(kind, None) == CATALOGUE[kind].severity


def test_what_two_modes_dispute_is_critical_and_what_is_unseen_at_the_end_is_no_delay() -> None:
    assert policy.severity("inconsistent-offsets", "plain", "idempotent") == "critical"
    assert policy.severity("inconsistent-offsets", "plain", None) == "warning"
    assert (policy.severity("reorder", "idempotent"), policy.severity("reorder", "plain")) == ("critical", "warning")
    assert (policy.severity("unseen"), severity_of("unseen")) == ("info", "warning")
