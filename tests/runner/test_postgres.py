"""The same through PostgreSQL, also when it is away for a while."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.support.postgres import Postgres, server
from tests.support.process import Canary, acknowledged, identities

if TYPE_CHECKING:
    from pathlib import Path

    from canary.lab import Lab

SCRAPE_S = 10.0
"""Prometheus' scrape_timeout, if nothing else is set."""

pytestmark = [pytest.mark.kafka, pytest.mark.postgres, pytest.mark.quick]


def test_postgres_away_at_the_start_and_for_a_while_costs_nothing(lab: Lab, tmp_path: Path) -> None:
    """Shows (d), and: a start waits, probing goes on, /readyz turns false, and after it is back nothing is missing."""
    with server() as postgres:
        url = postgres.database()
        postgres.stop()
        goes_on(lab, Canary(tmp_path, lab.bootstrap, "through-postgres", store=url), postgres)


def goes_on(lab: Lab, installed: Canary, postgres: Postgres) -> None:
    with installed as canary:
        canary.until(lambda: "waiting_for_store" in canary.output(), 20, "it says that it waits")
        postgres.start()
        canary.until_probing()
        canary.until(lambda: canary.get("/readyz").status_code == 200, 20, "ready")
        before = canary.metric("canary_probes_acked_total")
        postgres.stop()
        canary.until(lambda: canary.get("/readyz").status_code != 200, 20, "not ready without the store")
        took = []
        for _ in range(3):
            began = time.monotonic()
            assert canary.get("/metrics").status_code == 200
            took.append(time.monotonic() - began)
        assert min(took) < SCRAPE_S
        canary.until(lambda: not canary.store_is_up(), 5, "the metrics say that the store is away")
        time.sleep(6)  # the outage itself: probing goes on meanwhile
        postgres.start()
        canary.until(lambda: canary.get("/readyz").status_code == 200, 15, "ready again")
        canary.until(
            lambda: canary.metric("canary_probes_acked_total") >= before + 3 * 60, 15, "the outage's acks count"
        )
        lab.kill(1)
        lab.restart(1)
        canary.until_probing()
        canary.until_all_seen()
        assert canary.broken_promises() == []
        shown = canary.metric("canary_probes_acked_total")
        assert canary.stop() == [0, 0]
    acked = acknowledged(installed.directory)
    held = identities(lab.bootstrap, "through-postgres")
    assert {identity for identity, offset in acked.items() if held.get(identity) != [offset]} == set()
    assert len(acked) >= shown
