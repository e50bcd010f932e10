"""The scheduler tries the alarm at its hours."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from canary.settings import ClusterSettings
from spark_reconcile.nightly import drilling
from spark_reconcile.nightly.drilling import Drilling
from storage.store import Store
from tests.support import stores
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
DRILLED = ClusterSettings.model_validate({"name": "prod", "modes": {"idempotent": {}, "drill": {}}})
OTHER = ClusterSettings.model_validate({"name": "other"})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=60) as opened:
        stores.upgrade(opened)
        yield opened


def noon(since: datetime) -> datetime | None:
    """Strike at noon of 26 November 2026."""
    return NOW if since < NOW else None


def drill(store: Store, began: datetime, error: str | None = None, name: str = "duplicate") -> None:
    began_ns = int(began.timestamp() * 1e9)
    run = store.drills.begin("prod", name, "t", began_ns, began_ns + 10**9, "schedule")
    store.drills.note(run.id, ended_ns=began_ns + 10**9, error=error)


@pytest.mark.parametrize(
    ("began", "error", "is_due"),
    [
        (None, None, True),
        (NOW - timedelta(days=6), None, True),
        (NOW + timedelta(seconds=1), None, False),
        (NOW + timedelta(seconds=1), "not paged", False),
    ],
)
def test_a_drill_is_due_when_its_hour_struck_since_the_last_one(
    store: Store, began: datetime | None, error: str | None, *, is_due: bool
) -> None:
    if began is not None:
        drill(store, began, error)
    now = NOW + timedelta(minutes=1)
    assert Drilling(store, [DRILLED], noon).due(store.drills.last("prod"), now) is is_due


def test_one_that_failed_is_tried_again_a_day_later(store: Store) -> None:
    drill(store, NOW + timedelta(hours=1), "not paged")
    drills = Drilling(store, [DRILLED], noon)
    assert not drills.due(store.drills.last("prod"), NOW + timedelta(hours=24))
    assert drills.due(store.drills.last("prod"), NOW + timedelta(hours=25))


def performed(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_only_led_clusters_with_a_drill_topic_are_drilled_each_time_with_the_next_drill(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drilling, "_LOOK_S", 0.0)
    monkeypatch.setattr(drilling, "_RETRY_S", 0.0)
    said = tmp_path / "said"
    command = (sys.executable, "-c", f"import sys; open({str(said)!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')")
    drills = Drilling(store, [OTHER, DRILLED], noon, ("--config", "x.yaml"), command)
    drills.tick({"other"})
    assert drills._process is None
    drills.tick({"other", "prod"})
    until(lambda: performed(said) == ["duplicate --cluster prod --config x.yaml"], 20, "the drill is performed")
    drill(store, NOW - timedelta(days=700))
    until(lambda: drills._process is not None and drills._process.poll() is not None, 20, "its process has ended")
    drills.tick({"prod"})
    until(lambda: performed(said)[1:] == ["corrupt --cluster prod --config x.yaml"], 20, "the next one")
    drills.stop()


def test_a_drill_that_cannot_begin_is_not_tried_again_at_once(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drilling, "_LOOK_S", 0.0)
    said = tmp_path / "said"
    command = (sys.executable, "-c", f"open({str(said)!r}, 'a').write('tried\\n'); raise SystemExit(3)")
    drills = Drilling(store, [DRILLED], noon, (), command)
    drills.tick({"prod"})
    until(lambda: drills._process is not None and drills._process.poll() == 3, 20, "it could not begin")
    drills.tick({"prod"})
    assert drills._process is None
    assert performed(said) == ["tried"]


def test_nothing_is_drilled_without_hours(store: Store) -> None:
    drills = Drilling(store, [DRILLED], None, (), (sys.executable, "-c", "raise AssertionError"))
    drills.tick({"prod"})
    assert drills._process is None


def test_a_drill_at_work_ends_with_the_scheduler(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drilling, "_LOOK_S", 0.0)
    drills = Drilling(store, [DRILLED], noon, (), (sys.executable, "-c", "import time; time.sleep(600)"))
    drills.tick({"prod"})
    process = drills._process
    assert process is not None
    began = time.monotonic()
    drills.stop()
    assert process.poll() is not None
    assert time.monotonic() - began < 60
