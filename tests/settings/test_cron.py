"""How far apart the hours of a schedule are, against APScheduler, which strikes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from apscheduler.triggers.cron import CronTrigger

from canary.settings import Settings, load
from canary.settings.cron import longest_gap_s

if TYPE_CHECKING:
    from collections.abc import Iterator

HOURS = {
    "0 3 * * *": 24,
    "30 */6 * * *": 6,
    "0 3,15 * * *": 12,
    "0 1-5/2 * * *": 20,
    "0 8/7 * * *": 10,
    "0 3 * * mon-fri": 72,
    "0 3 * * 0,3": 4 * 24,
    "0 3 * * SUN": 7 * 24,
    "0 3 1 * *": 31 * 24,
    "0 3 31 * *": 61 * 24,
    "0 3 1-7 * sun": 35 * 24,
    "0 3 1 jan-mar *": 306 * 24,
    "*/20 22 * * *": 23 + 1 / 3,
    "59 23 * 1 *": 336 * 24,
}


def struck(expression: str) -> Iterator[datetime]:
    trigger = CronTrigger.from_crontab(expression, UTC)
    now = datetime(2024, 1, 1, tzinfo=UTC)
    for _ in range(2000):
        following = trigger.get_next_fire_time(None, now)
        assert following is not None
        yield following
        now = following + timedelta(seconds=1)
        if following.year > 2027:
            return


@pytest.mark.parametrize("expression", HOURS)
def test_the_longest_gap_is_what_the_scheduler_leaves(expression: str) -> None:
    assert longest_gap_s(expression) == pytest.approx(HOURS[expression] * 3600)
    assert max(b - a for a, b in pairwise(struck(expression))).total_seconds() == longest_gap_s(expression)


@pytest.mark.parametrize(
    "expression",
    [
        "0 3 * *",
        "0 3 * * * *",
        "60 3 * * *",
        "0 3 0 * *",
        "0 3 * 13 *",
        "0 3 * * 7",
        "0 3 * * mom",
        "0 sun * * *",
        "0 5-3 * * *",
        "*/0 3 * * *",
        "0 */24 * * *",
        "0 3 * * mon/2",
        "0 3 * * fri-mon",
        "0 3 30 feb *",
        "a b c d e",
    ],
)
def test_what_the_scheduler_cannot_strike_or_never_would_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        longest_gap_s(expression)


def test_the_settings_say_how_far_nights_are_apart() -> None:
    assert Settings().schedule.longest_gap_s == 86400
    assert Settings.model_validate({"schedule": {"reconcile": "never"}}).schedule.longest_gap_s is None


@pytest.mark.parametrize(
    ("asked", "schedule", "cluster"),
    [
        (False, {}, {}),
        (False, {"drill": "0 4 * * *"}, {}),
        (True, {"reconcile": "0 3 * * *"}, {}),
        (True, {}, {"digests": {"topics": ["orders"]}}),
        (True, {}, {"receipts": {"url": "/receipts"}}),
        (False, {"reconcile": "never"}, {"receipts": {"url": "/receipts"}}),
    ],
)
def test_the_default_schedule_is_no_wish_and_what_is_done_at_night_is_one(
    *, asked: bool, schedule: dict[str, str], cluster: dict[str, object]
) -> None:
    probed = {"name": "c", "kafka": {"bootstrap.servers": "k:9092"}} | cluster
    settings = Settings.model_validate({"schedule": schedule, "clusters": [probed]})
    assert settings.schedule.asked_for(settings.clusters[0]) is asked


def test_a_schedule_in_the_environment_is_a_wish() -> None:
    for environment, asked in (({}, False), ({"CANARY_SCHEDULE__RECONCILE": "0 3 * * *"}, True)):
        settings = load(None, environment)
        assert settings.schedule.asked_for(settings.clusters[0]) is asked
