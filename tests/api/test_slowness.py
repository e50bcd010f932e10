"""A broker that is slow beside the others is named on the page, by its own answers and not by the writes it leads."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from api import create_app
from api.knowledge.slowness import LEAST, REQUESTS, WINDOW_S, Requests, SlowBroker, slow_among
from canary.anomalies.online.meters import Histogram, observe
from canary.metrics import Measurement
from tests.api.serving import Client, ProbeLogFake, settings, view

if TYPE_CHECKING:
    from storage.store import Store

SECONDS = {"1": [0.004], "2": [0.004, 0.004, 1.97], "3": [0.004]}
"""What requests take in turn: broker 2 is frozen for 2 s of every 5."""


def measured(rounds: int, seconds: dict[str, list[float]]) -> dict[tuple[str, ...], Measurement]:
    found: dict[tuple[str, ...], Measurement] = {}
    for broker, turns in seconds.items():
        histogram = Histogram()
        for number in range(rounds):
            observe(histogram, turns[number % len(turns)])
        found[broker,] = Measurement(REQUESTS, (broker,), histogram.sum, tuple(histogram.counts))
    return found


@pytest.mark.parametrize(
    ("within_s", "slow"),
    [
        ({"1": 0.04, "2": 1.97, "3": 0.04}, ["2"]),
        ({"1": 0.04, "2": 1.97}, ["2"]),
        ({"1": 1.97, "2": 1.97, "3": 0.04}, []),
        ({"1": 1.97}, []),
        ({"1": 0.25, "2": 0.8, "3": 0.25}, []),
        ({"1": 0.04, "2": 0.4, "3": 0.04}, []),
        ({str(n): 0.04 for n in range(5)} | {"0": 2.5, "4": 5.0}, ["0", "4"]),
        ({}, []),
    ],
)
def test_slow_is_who_takes_half_a_second_and_four_times_the_others(within_s: dict[str, float], slow: list[str]) -> None:
    assert [one.broker for one in slow_among(within_s)] == slow


def test_only_the_last_two_minutes_count_and_a_few_requests_are_no_measure() -> None:
    known = Requests()
    assert known.slow("prod", measured(0, SECONDS), 0.0) == []
    assert known.slow("prod", measured(LEAST - 1, SECONDS), 30.0) == []
    assert known.slow("prod", measured(90, SECONDS), 90.0) == [SlowBroker("2", 2.5, 0.005)]
    calm = measured(90, SECONDS)
    for at_s in range(100, 90 + 2 * WINDOW_S, 10):
        found = known.slow("prod", calm, float(at_s))
    assert found == []
    assert known.slow("other", measured(90, SECONDS), 90.0) == [], "it is looked at for the first time"


def test_a_slow_broker_is_named_on_the_page(store: Store) -> None:
    app = create_app(settings("prod"), store, ProbeLogFake())
    sentence = ""
    for now_s, rounds in ((1000.0, 0), (1060.0, 90)):
        app.state.canary = replace(app.state.canary, monotonic=lambda now_s=now_s: now_s)
        more = [[REQUESTS, list(one.labels), one.value, list(one.counts)] for one in measured(rounds, SECONDS).values()]
        store.views.save("prod", "canary-0", time.time_ns(), view(more=more))
        sentence = Client(app).get("/api/v1/clusters/prod/summary").json()["sentence"]
    words = "nine requests in ten are answered within 2.5 s, those to other brokers within 0.005 s"
    assert sentence == f"prod has lost nothing, but broker 2 is slow: {words}."
