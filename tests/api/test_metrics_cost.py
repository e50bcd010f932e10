from __future__ import annotations

import datetime as dt
import ssl
import time
from typing import TYPE_CHECKING

import httpx
import pytest

from api import create_app
from api.metrics.cardinality import by_topic
from api.server import ApiServer, ServeError
from canary.metrics import Measurement
from canary.settings.serving import TlsSettings
from tests.api.serving import Client, ProbeLogFake, settings, view
from tests.support.certificates import self_signed

if TYPE_CHECKING:
    from pathlib import Path

    from api.knowledge.views import Series
    from storage.store import Store


def test_one_series_for_each_topic_when_told_so(store: Store) -> None:
    store.views.save("prod", "canary-0", time.time_ns(), view())
    client = Client(create_app(settings("prod", cardinality="topic"), store, ProbeLogFake()))
    text = client.get("/metrics").text
    assert 'partition="*"' in text
    assert 'partition="0"' not in text
    assert (
        'canary_probes_acked_total{cluster="prod",mode="idempotent",partition="*",topic="durability-canary"} 300.0'
        in text
    )


def test_of_gauges_the_worst_partition_is_told() -> None:
    def place(number: int) -> tuple[str, ...]:
        return "t", str(number)

    measurements = [
        Measurement("canary_partition_isr", place(0), 3),
        Measurement("canary_partition_isr", place(1), 1),
        Measurement("canary_partition_under_min_isr", place(0), 0),
        Measurement("canary_partition_under_min_isr", place(1), 1),
        Measurement("canary_unseen_probes", (*place(0), "c"), 2),
        Measurement("canary_unseen_probes", (*place(1), "c"), 3),
        Measurement("canary_produce_latency_seconds", (*place(0), "m"), 0.5, (1, 0)),
        Measurement("canary_produce_latency_seconds", (*place(1), "m"), 0.25, (0, 2)),
        Measurement("canary_suspects", ("lost-write",), 4),
    ]
    series: Series = {}
    for one in measurements:
        series.setdefault(one.name, {})[one.labels] = one
    found = by_topic(series)
    values = {name: (one.value, one.counts) for name, members in found.items() for one in members.values()}
    assert values == {
        "canary_partition_isr": (1, ()),
        "canary_partition_under_min_isr": (1, ()),
        "canary_unseen_probes": (5, ()),
        "canary_produce_latency_seconds": (0.75, (1, 2)),
        "canary_suspects": (4, ()),
    }


def test_scrapes_of_one_second_share_a_rendering_and_the_next_one_is_new(store: Store) -> None:
    store.views.save("prod", "canary-0", time.time_ns(), view(acked=100))
    cached = Client(create_app(settings("prod", metrics_cache="10s"), store, ProbeLogFake()))
    fresh = Client(create_app(settings("prod", metrics_cache="0s"), store, ProbeLogFake()))
    first = cached.get("/metrics").text
    store.views.save("prod", "canary-0", time.time_ns(), view(acked=200))
    assert cached.get("/metrics").text == first
    assert fresh.get("/metrics").text != first


def _certificate(directory: Path) -> TlsSettings:
    pem, key = self_signed(dt.datetime.now(dt.UTC) + dt.timedelta(hours=1))
    (directory / "tls.crt").write_bytes(pem)
    (directory / "tls.key").write_bytes(key)
    return TlsSettings(certificate=directory / "tls.crt", key=directory / "tls.key")


def test_the_server_speaks_tls_when_told_so(store: Store, tmp_path: Path) -> None:
    tls = _certificate(tmp_path)
    with ApiServer(create_app(settings("prod"), store, ProbeLogFake()), "127.0.0.1", 0, tls) as server:
        assert server.address.startswith("https://")
        trusted = ssl.create_default_context(cafile=str(tls.certificate))
        port = server.address.rsplit(":", 1)[1]
        assert httpx.get(f"https://localhost:{port}/healthz", verify=trusted, timeout=60).text == "ok\n"
    broken = TlsSettings(certificate=tmp_path / "none.crt", key=tls.key)
    with pytest.raises(ServeError, match=r"api\.tls\.certificate"):
        ApiServer(create_app(settings("prod"), store, ProbeLogFake()), "127.0.0.1", 0, broken)


def test_metrics_tell_when_the_api_s_certificate_expires(store: Store, tmp_path: Path) -> None:
    tls = _certificate(tmp_path)
    text = Client(create_app(settings("prod", tls=tls), store, ProbeLogFake())).get("/metrics").text
    (line,) = (
        line for line in text.splitlines() if line.startswith("canary_api_certificate_expiry_timestamp_seconds ")
    )
    assert 0 < float(line.split()[1]) - time.time() <= 3600
    assert 'canary_api_info{url="https://127.0.0.1:8080"}' in text
