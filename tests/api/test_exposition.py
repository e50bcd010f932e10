"""What is written straight from views is what prometheus-client would have written, line by line."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest, metrics
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from api.knowledge.views import Series, read_views
from api.metrics.text_format import exposition
from canary.metrics import METRICS, Measurement, Published
from canary.metrics.published import dumps
from storage.store.values import View

if TYPE_CHECKING:
    import pytest

    from tests.api.serving import Client

NASTY = 'a "quoted" back\\slash\nand a line'


def every_metric() -> Series:
    series: Series = {}
    for entry in METRICS.values():
        if entry.source != "runner":
            continue
        for text in ("0", NASTY):
            labels = tuple(text for _ in entry.labels[1:])
            if entry.type == "histogram":
                counts = tuple(range(len(entry.buckets) + 1))
                one = Measurement(entry.name, labels, 12.5, counts)
            else:
                one = Measurement(entry.name, labels, math.inf if entry.type == "gauge" and text == "0" else 3)
            series.setdefault(entry.name, {})[labels] = one
    return series


def in_memory(series: Series, monkeypatch: pytest.MonkeyPatch) -> CollectorRegistry:
    monkeypatch.setattr(metrics, "_use_created", False)
    registry = CollectorRegistry(auto_describe=False)
    for entry in METRICS.values():
        members = series.get(entry.name)
        if not members:
            continue
        if entry.type == "histogram":
            histogram = Histogram(entry.name, entry.help, entry.labels, registry=registry, buckets=entry.buckets)
            for labels, value in members.items():
                child = histogram.labels("prod", *labels)
                for bucket, count in zip(child._buckets, value.counts, strict=True):
                    bucket.inc(count)
                child._sum.inc(value.value)
        elif entry.type == "counter":
            counter = Counter(entry.name, entry.help, entry.labels, registry=registry)
            for labels, value in members.items():
                counter.labels("prod", *labels).inc(value.value)
        else:
            gauge = Gauge(entry.name, entry.help, entry.labels, registry=registry)
            for labels, value in members.items():
                gauge.labels("prod", *labels).set(value.value)
    return registry


def test_the_text_is_the_one_of_prometheus_client(monkeypatch: pytest.MonkeyPatch) -> None:
    series = every_metric()
    expected = generate_latest(in_memory(series, monkeypatch)).decode()
    assert exposition({"prod": series}, openmetrics=False).splitlines() == expected.splitlines()
    assert len(expected.splitlines()) > 150


def test_openmetrics_too(monkeypatch: pytest.MonkeyPatch) -> None:
    series = every_metric()
    expected = generate_openmetrics(in_memory(series, monkeypatch)).decode()  # type: ignore[no-untyped-call]
    assert [*exposition({"prod": series}, openmetrics=True).splitlines(), "# EOF"] == expected.splitlines()


def test_a_series_with_labels_or_buckets_of_another_version_is_left_out() -> None:
    strange = (
        Measurement("canary_log_end_offset", ("only a topic",), 1),
        Measurement("canary_produce_latency_seconds", ("t", "0", "m"), 1, (1, 2)),
        Measurement("canary_log_end_offset", ("t", "0"), 7),
    )
    clusters = read_views([View("prod", "canary-0", 1, dumps(Published(measurements=strange)))], 1)
    text = exposition({"prod": clusters["prod"].series}, openmetrics=False)
    lines = [line for line in text.splitlines() if line[0] != "#"]
    assert lines == ['canary_log_end_offset{cluster="prod",partition="0",topic="t"} 7.0']


def test_a_scraper_that_prefers_openmetrics_gets_one_whole_text(client: Client) -> None:
    answer = client.ask("GET", "/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")
    assert answer.text.count("# EOF") == 1
    families = {family.name for family in parse_openmetrics(answer.text)}  # type: ignore[no-untyped-call]
    assert {"canary_probes_acked", "canary_produce_latency_seconds", "canary_violations"} <= families
