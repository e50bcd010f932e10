"""Every difference between what a run found and what was known online has a reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from canary.anomalies.violation import Violation
from canary.probe.identity import Identity
from spark_reconcile.report.comparison import UNEXPLAINED, compare
from spark_reconcile.report.output import VERDICT_SCHEMA
from spark_reconcile.report.page import _PLACE, with_section
from storage.store import Store
from tests.support import stores

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DUMPED, RUN = 1000, 2000
BOUNDS = [
    {"topic": "t", "topic_id": "A", "partition": 0, "isolation": level, "earliest_offset": 10, "end_offset": 100}
    for level in ("read_committed", "read_uncommitted")
]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=5) as connected:
        stores.upgrade(connected)
        yield connected


def seen(store: Store, offset: int, by: Any = "online", at_ns: int = 500, **more: Any) -> None:
    identity = Identity(7, 1, 0, offset)
    known: dict[str, Any] = {
        "kind": "lost-write",
        "topic": "t",
        "topic_id": "A",
        "partition": 0,
        "identity": identity,
    } | more
    violation = Violation(
        severity="critical", offset=offset, mode="idempotent", at_ns=at_ns, by=by, summary="", **known
    )
    store.violations.record("c", [violation])


def compared(store: Store, tmp_path: Path) -> Any:
    rows = [("c", "t", 0, 7, 1, 30, "pending", 30)]
    names = VERDICT_SCHEMA.names
    table = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], VERDICT_SCHEMA)
    (tmp_path / "verdicts").mkdir()
    pq.write_table(table, tmp_path / "verdicts" / "a.parquet")
    return compare(store, "c", RUN, BOUNDS, str(tmp_path), DUMPED)


def test_what_both_found_and_what_only_a_reread_can_know(store: Store, tmp_path: Path) -> None:
    seen(store, 20)
    seen(store, 20, "reconcile", RUN)
    seen(store, 21, "reconcile", RUN)
    seen(store, 22, "reconcile", RUN - 1)  # an earlier run's: neither here nor online
    seen(store, 23, kind="truncation", identity=None)  # not decided here
    result = compared(store, tmp_path)
    assert (result.both, dict(result.only_here), dict(result.only_online)) == (1, {"lost-write": 1}, {})
    assert "only a re-read can know" in " ".join(result.sentences())


@pytest.mark.parametrize(
    ("offset", "more", "why"),
    [
        (5, {}, "expired since"),
        (30, {}, "judged pending"),
        (40, {"at_ns": DUMPED + 1}, "found after"),
        (50, {"topic_id": "B"}, "made anew"),
        (60, {"topic": "u"}, "not dumped"),
        (70, {}, "in the topic now"),
        (200, {"kind": "corrupt", "identity": None}, "beyond the end"),
        (80, {"kind": "corrupt", "identity": None}, UNEXPLAINED),
    ],
)
def test_what_only_online_found_is_explained(
    store: Store, tmp_path: Path, offset: int, more: dict[str, Any], why: str
) -> None:
    seen(store, offset, **more)
    (sentence,) = compared(store, tmp_path).sentences()
    assert "found online and not here" in sentence
    assert why in sentence


def test_the_page_tells_it_in_its_place() -> None:
    page = with_section(f"<p>a</p>{_PLACE}<p>b</p>", "Here and online", ["1 <lost-write>"])
    assert page.startswith("<p>a</p><h2>Here and online</h2>")
    assert "<li>1 &lt;lost-write&gt;</li>" in page
