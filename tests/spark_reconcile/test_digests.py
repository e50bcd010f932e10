"""Digests of business topics: what a night says of records that were lost, changed, expired or compacted."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from canary.facts.digests import digest, place
from spark_reconcile.tables.digests import DIGEST, PLACE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BYTES = st.none() | st.binary(max_size=70)
RECORDS = st.lists(
    st.tuples(BYTES, BYTES, st.lists(st.tuples(st.text(max_size=9), BYTES), max_size=5)), min_size=500, max_size=1000
)


@pytest.mark.spark
@settings(max_examples=1, deadline=None, suppress_health_check=list(HealthCheck))
@given(records=RECORDS)
def test_spark_computes_the_digest_that_python_computes(
    spark: SparkSession, records: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]]
) -> None:
    at = dt.datetime(2026, 1, 1, 0, 0, 0, 123000, tzinfo=dt.UTC)
    rows = [(number, at, key, value, headers or None) for number, (key, value, headers) in enumerate(records)]
    frame = spark.createDataFrame(
        rows,
        "offset long, timestamp timestamp, key binary, value binary, headers array<struct<key: string, value: binary>>",
    )
    found = frame.selectExpr("offset", f"{DIGEST} AS digest", f"{PLACE} AS place").collect()
    ms = int(at.timestamp() * 1000)
    for row in found:
        wanted = digest(*records[row["offset"]])
        assert row["digest"] == wanted
        assert row["place"] == place(row["offset"], ms, wanted)
