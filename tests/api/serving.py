"""What the tests of the API stand on: views as a runner stores them, an application to ask, stores that fail."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import httpx
import orjson
from prometheus_client.parser import text_string_to_metric_families

from canary.anomalies.violation import Records, Violation
from canary.probe.identity import Identity
from canary.settings.serving import ApiSettings
from storage.probe_log.windows import WindowRows
from storage.store import Store
from storage.store.database import Database

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fastapi import FastAPI

    from canary.settings import Settings
    from storage.probe_log.reading import ProbeLogReader
    from storage.probe_log.windows import Window
else:
    ProbeLogReader = object  # its module loads Arrow

NOW_NS = time.time_ns()
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]
"""Name and labels to value."""
BIG = 2**63 - 5
"""A producer id that no float holds."""


def settings(*clusters: str, store_timeout: float = 60.0, notify: Sequence[str] = (), **api: Any) -> Settings:
    """What the API reads of the settings; ``api`` as in the section of that name; the store may take its time.

    ``notify``: names of receivers; one called pulse is a heartbeat.
    """
    return cast(
        "Settings",
        SimpleNamespace(
            clusters=[SimpleNamespace(name=name, embedded=False) for name in clusters],
            store=SimpleNamespace(timeout=store_timeout),
            api=ApiSettings(**({"metrics_cache": "0s", "answers_cache": "0s", "hosts": ("canary",)} | api)),
            probe_log=SimpleNamespace(url="nowhere"),
            notify=[SimpleNamespace(name=name, is_told=name != "pulse") for name in notify],
        ),
    )


def partition(number: int, *, seen: int = 100, leader: int = 1, isr: Sequence[int] = (1, 2, 3)) -> dict[str, Any]:
    consumer = {"position": seen, "seen": seen, "unseen": 0, "oldest_unseen_s": 0.0, "stalled": False}
    return {
        "topic": "durability-canary",
        "topic_id": "q7Vb1nVZQbeh5w0m4hV6xA",
        "partition": number,
        "leader": leader,
        "leader_epoch": 4,
        "isr": list(isr),
        "replicas": [1, 2, 3],
        "start": 0,
        "end": seen,
        "stable": seen,
        "sent": seen,
        "acked": seen,
        "failed": 0,
        "indeterminate": 0,
        "consumers": {
            "read_committed": {"isolation": "read_committed", **consumer},
            "read_uncommitted": {"isolation": "read_uncommitted", **consumer},
        },
    }


def view(
    *,
    acked: int = 100,
    seen: int | None = None,
    partitions: Sequence[Mapping[str, Any]] | None = None,
    more: Sequence[Sequence[Any]] = (),
    waiting_for: str | None = None,
    **other: Any,
) -> bytes:
    """A view as a runner stores it: ``acked`` probes in each of three partitions, all or ``seen`` of them read."""
    measurements: list[Any] = list(more)
    for number in range(3):
        place = ["durability-canary", str(number)]
        for outcome, value in (("sent", acked), ("acked", acked), ("failed", 0), ("indeterminate", 0)):
            measurements.append([f"canary_probes_{outcome}_total", [*place, "idempotent"], value])
        given = acked if seen is None else seen
        for consumer in ("read_committed", "read_uncommitted"):
            measurements.append(["canary_probes_seen_total", [*place, consumer, "idempotent"], given])
            measurements.append(["canary_unseen_probes", [*place, consumer], 0])
            timed = [0, 0, 0, given, *[0] * 10]
            measurements.append(
                ["canary_end_to_end_latency_seconds", [*place, consumer, "idempotent"], 0.02 * given, timed]
            )
        counts = [0, 0, acked, *[0] * 11]
        measurements.append(["canary_produce_latency_seconds", [*place, "idempotent"], 0.007 * acked, counts])
        measurements.append(["canary_log_end_offset", place, acked])
    return orjson.dumps(
        {
            "version": 1,
            "cluster_id": "MkU3OEVBNTcwNTJENDM2Qk",
            "measurements": measurements,
            "partitions": [partition(number, seen=acked) for number in range(3)] if partitions is None else partitions,
            "topics": [{"topic": "durability-canary", "topic_id": "q7Vb1nVZQbeh5w0m4hV6xA", "mode": "idempotent"}],
            "since_ns": NOW_NS - 3_600_000_000_000,
            "waiting_for": waiting_for,
            "suspects": 0,
            **other,
        }
    )


def lost(
    sequence: int, *, at_ns: int = NOW_NS, kind: str = "lost-write", severity: str = "critical", count: int = 1
) -> Violation:
    violation = Violation(
        kind=kind,
        severity=cast("Any", severity),
        topic="durability-canary",
        topic_id="q7Vb1nVZQbeh5w0m4hV6xA",
        partition=1,
        offset=1000 + sequence,
        identity=Identity(BIG, 3, 1, sequence),
        mode="idempotent",
        at_ns=at_ns,
        by="online",
        summary=f"Probe {sequence} was acknowledged at offset {1000 + sequence} and is not there.",
        evidence={"acked_offset": 1000 + sequence, "confirmed": True, "neighbours": [{"offset": 999 + sequence}]},
    )
    return violation.about([Records(violation.offset, count, violation.identity)])


class Client:
    """Asks an application without a network; errors of the application are answers, as over a network."""

    def __init__(self, app: FastAPI) -> None:
        self.app = app

    def get(self, path: str, **params: Any) -> httpx.Response:
        return self.ask("GET", path, params=params or None)

    def post(self, path: str, body: Any, **more: Any) -> httpx.Response:
        return self.ask("POST", path, json=body, **more)

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://canary") as client:
                return await client.request(method, path, **more)

        return asyncio.run(asked())


def scrape(client: Client) -> Samples:
    answer = client.get("/metrics")
    assert answer.status_code == 200
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


class ProbeLogFake(ProbeLogReader):
    """Knows one probe, and offsets 10 to 29."""

    def __init__(self) -> None:
        pass

    def find(self, identity: Identity) -> Mapping[str, Any] | None:
        if identity != Identity(BIG, 3, 1, 7):
            return None
        place = {"cluster": "prod", "topic": "durability-canary"}
        return {
            "probe": {**place, "mode": "idempotent", "transaction_id": None, "outcome": "acked", "offset": 17},
            "transaction": None,
            "polls": [{**place, "consumer_id": "read_committed", "isolation": "read_committed", "offset": 17}],
        }

    def between(
        self, cluster: str, topic: str, partition: int, start: int, end: int, limit: int = 1000
    ) -> Sequence[Mapping[str, Any]]:
        assert (cluster, topic, partition) == ("prod", "durability-canary", 1)
        rows = [
            {
                "offset": o,
                "producer_id": BIG,
                "generation": 3,
                "partition": 1,
                "sequence": o,
                "outcome": "acked",
                "seen_by": ["a"],
            }
            for o in (*range(10, 20), 20, 20, *range(21, 30))
            if start <= o < end
        ]
        return rows[:limit]

    def window(self, wanted: Window) -> WindowRows:  # noqa: ARG002  # as the real one
        return WindowRows([], [], [])


class BrokenStore(Store):
    """A store whose repositories' methods all do ``instead``: raise, or hang."""

    def __init__(self, instead: Callable[[], Any]) -> None:
        for name in vars(Store(Database("sqlite:///unused"))):
            setattr(self, name, _BrokenRepository(instead))


class _BrokenRepository:
    def __init__(self, instead: Callable[[], Any]) -> None:
        self._instead = instead

    def __getattr__(self, name: str) -> Any:
        return lambda *_args, **_kwargs: self._instead()
