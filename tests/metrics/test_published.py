"""A published view is stored as JSON and read as the same value, also by another release."""

from __future__ import annotations

import dataclasses
import math

import orjson
import pytest

from canary.metrics import METRICS, Measurement, Published, measured
from canary.metrics.findings import Audit, Finding, Note
from canary.metrics.metric import Column
from canary.metrics.published import ConsumerView, PartitionView, Rows, dumps, loads
from tests.support.bench import Bench


def full() -> Published:
    bench = Bench()
    bench.write(3)
    bench.poll()
    shown = measured(bench.tracker.state)
    return dataclasses.replace(
        shown,
        measurements=(*shown.measurements, Measurement("canary_suspects", ("x",), math.pi)),
        judged_ns=7,
        told_ns=8,
        troubles=(("the ledger is full", True),),
        shard=(1, 3),
        night_s=86400.0,
        audit=Audit((Finding("rack", "info", "brokers", "f", "w", "c"),), (Note("w", "t"),), 9),
    )


def test_what_is_read_is_what_was_stored() -> None:
    shown = full()
    assert shown.partitions[0].consumers
    assert any(one.counts for one in shown.series())
    assert loads(dumps(shown), 7) == dataclasses.replace(shown, partitions=tuple(shown.partitions))


def test_a_partition_has_no_consumer_that_does_not_read_it() -> None:
    two = {"isolation": ("read_committed", None), "position": (4, None)}
    shown = Published(partitions=Rows({"topic": ("t", "t"), "partition": (0, 1), "isr": ((1, 2), ())}, {"rc": two}))
    rows = (
        PartitionView("t", 0, isr=(1, 2), consumers={"rc": ConsumerView("read_committed", 4)}),
        PartitionView("t", 1),
    )
    assert tuple(shown.partitions) == tuple(shown.partitions[:]) == rows
    assert loads(dumps(shown), 0).partitions == rows


def test_a_label_that_an_earlier_release_did_not_have_is_empty() -> None:
    """Of a runner that is not upgraded yet, and of one that is gone, what was delivered still counts."""
    seen = METRICS["canary_probes_seen_total"]
    before = Measurement(seen.name, ("t", "0", "rc"), 5)
    assert seen.taken(before) == before._replace(labels=("t", "0", "rc", ""))
    now = Measurement(seen.name, ("t", "0", "rc", "plain"), 5)
    assert seen.taken(now) == now
    assert seen.taken(before._replace(labels=("t", "0"))) is None
    assert METRICS["canary_unseen_probes"].taken(before._replace(labels=("t", "0"))) is None


def test_a_measurement_is_an_array_and_only_a_histogram_s_has_counts() -> None:
    latency = Measurement("canary_transaction_latency_seconds", ("transactional",), 0.5, (1, 2))
    rows = orjson.loads(dumps(dataclasses.replace(full(), measurements=(*full().measurements, latency))))[
        "measurements"
    ]
    assert {len(row) for row in rows} == {3, 4}
    assert rows[-2] == ["canary_suspects", ["x"], math.pi]


def test_the_series_of_partitions_are_columns_and_some_may_lack() -> None:
    shown = Published(
        places=(("t", 0), ("t", 1), ("u", 5)),
        columns=(
            Column("canary_unacknowledged_seconds", (("1", "2"),), (0.5, 0.0)),
            Column("canary_probes_sent_total", ("plain",), (None, 3, 4)),
            Column("canary_produce_latency_seconds", ("plain",), (None, None, 0.25), (None, None, (1, 2))),
        ),
    )
    read = loads(dumps(shown), 0)
    assert read == shown
    assert set(read.series()) == {
        Measurement("canary_unacknowledged_seconds", ("t", "0", "1"), 0.5),
        Measurement("canary_unacknowledged_seconds", ("t", "1", "2"), 0.0),
        Measurement("canary_probes_sent_total", ("t", "1", "plain"), 3),
        Measurement("canary_probes_sent_total", ("u", "5", "plain"), 4),
        Measurement("canary_produce_latency_seconds", ("u", "5", "plain"), 0.25, (1, 2)),
    }


def test_a_view_of_the_first_version_has_no_columns() -> None:
    rows = list(map(dataclasses.asdict, full().partitions))
    stored = orjson.loads(dumps(full())) | {"version": 1, "partitions": rows}
    del stored["places"], stored["columns"]
    read = loads(orjson.dumps(stored), 7)
    assert [*read.series()] == [*full().measurements]
    assert read.partitions == tuple(full().partitions)


def test_a_view_of_another_release_is_read_as_far_as_it_is_known() -> None:
    stored = orjson.loads(dumps(full()))
    for new in (stored, stored["partitions"], stored["topics"][0], stored["audit"]):
        new["of_a_later_release"] = {"a": 1}
    stored["partitions"]["columns"]["of_a_later_release"] = [{"a": 1}]
    stored["partitions"]["consumers"]["read_committed"]["of_a_later_release"] = [{"a": 1}]
    del stored["partitions"]["columns"]["stable"]
    for missing in ("told_ns", "troubles", "night_s", "suspects"):
        del stored[missing]
    del stored["topics"][0]["fresh"]
    read = loads(orjson.dumps(stored), 7)
    assert (read.told_ns, read.troubles, read.suspects) == (None, (), 0)
    assert not read.topics[0].fresh
    assert read.partitions == tuple(dataclasses.replace(one, stable=None) for one in full().partitions)


def test_a_severity_of_another_release_refuses_no_view_and_hides_no_finding() -> None:
    stored = orjson.loads(dumps(full()))
    stored["audit"]["findings"][0]["severity"] = "fatal"
    read = loads(orjson.dumps(stored), 7)
    assert read.audit is not None
    assert read.audit.findings[0].severity == "critical"
    assert read.partitions == tuple(full().partitions)


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"version": 3}',
        b'{"version": 2, "measurements": [["one", [], "x"]]}',
        b'{"version": 2, "partitions": {"columns": {"partition": [0], "topic": []}, "consumers": {}}}',
        b'{"version": 2, "partitions": {"columns": {}}}',
        b'{"version": 2, "partitions": {"columns": 3, "consumers": 4}}',
    ],
)
def test_what_is_no_view_of_this_version_is_refused(stored: bytes) -> None:
    with pytest.raises(ValueError, match="not a view of version 2"):
        loads(stored, 1)
