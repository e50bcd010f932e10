"""A canary that dies is missed by its name, and one that lives is not: whatever is otherwise is a complaint."""

from __future__ import annotations

import time
from contextlib import contextmanager
from threading import Event
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from prometheus_client.samples import Sample

from canary.drills import monitoring
from canary.drills.rig.rig import CLUSTER, Rig
from canary.drills.stage import Stage
from canary.drills.steps import canary as steps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ANOTHER = "another"
HIDDEN, FALSE = "an alert fires for another, and for no other cluster", "no alert fires"
CALLED, SILENT = "the heartbeat of another is called", "is called again"
SERVED = "the living have series, and no other"


class Fake:
    """A canary that was never started: its API shows its clusters, until it is killed."""

    def __init__(self, clusters: set[str], after: set[str] | None) -> None:
        self.clusters = [{"name": CLUSTER}]
        self.shown, self.after = clusters, after
        self.killed = False

    def start(self) -> None:
        pass

    def kill(self) -> None:
        self.killed = True

    def samples(self, name: str) -> list[Sample]:
        shown = self.after if self.killed else self.shown
        if shown is None:
            raise httpx.ConnectError("it is dead")
        return [Sample("canary_api_store_up", {}, 1.0), *(Sample(name, {"cluster": one}, 1.0) for one in shown)]


@pytest.mark.parametrize(
    ("dies", "after", "alerts", "calls", "wrong"),
    [
        (True, None, {ANOTHER}, 0, []),
        (True, None, None, 0, []),
        (True, {ANOTHER}, {ANOTHER}, 0, [SERVED]),
        (True, None, set(), 0, [HIDDEN, HIDDEN]),
        (True, None, {ANOTHER, CLUSTER}, 0, [HIDDEN, HIDDEN]),
        (True, None, {ANOTHER}, 5, [CALLED]),
        (False, None, set(), 5, []),
        (False, None, None, 5, []),
        (False, None, {ANOTHER}, 5, [FALSE, FALSE]),
        (False, None, set(), 0, [SILENT]),
    ],
)
def test_the_dead_is_missed_and_the_living_is_not(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    dies: bool,  # noqa: FBT001  # a case
    after: set[str] | None,
    alerts: set[str] | None,
    calls: float,
    wrong: list[str],
) -> None:
    """``calls``: the next call of the heartbeat is so many seconds after the other canary died, or did not; 0: none."""
    other = Fake({ANOTHER}, after)
    called = [time.time() - 1, *([time.time() + calls] if calls else [])]

    @contextmanager
    def heartbeat() -> Iterator[tuple[str, list[float]]]:
        yield "", called

    @contextmanager
    def prometheus(*_: object) -> Iterator[Callable[[str], set[str]] | None]:
        yield None if alerts is None else lambda query: alerts if "ALERTS" in query else {ANOTHER, CLUSTER}

    replaced: dict[str, Any] = {"heartbeat": heartbeat, "prometheus": prometheus, "Installation": lambda *_: other}
    for name, value in (replaced | dict.fromkeys(("_GONE_S", "_RINGS_S"), 0.3) | {"_LOOK_S": 0.0}).items():
        monkeypatch.setattr(steps, name, value)
    monkeypatch.setattr(Rig, "__post_init__", lambda _: None)
    ground: Any = {"kafka": {}, "stopping": Event(), "tell": lambda _: None, "patience": 1.0}
    rig = Rig(**ground, lab=SimpleNamespace(), stage=Stage(), directory=tmp_path)  # type: ignore[arg-type]  # no broker is asked
    rig.canary = Fake({CLUSTER}, {CLUSTER})  # type: ignore[assignment]  # no more of it is asked
    steps.BesideAnother(dies=dies).take(rig)
    assert len(rig.complaints) == len(wrong)
    assert all(part in complaint for part, complaint in zip(wrong, rig.complaints, strict=True))
    assert bool(rig.table) == (dies and not wrong)
    assert other.killed


def test_a_heartbeat_is_heard() -> None:
    with monitoring.heartbeat() as (url, calls):
        assert calls == []
        assert httpx.get(url).status_code == 200
        assert len(calls) == 1


def test_alerts_are_not_looked_for_where_there_is_no_prometheus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with monitoring.prometheus(tmp_path / "prometheus") as fired:
        assert fired is None
