from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from canary.drills.catalogue import drills
from canary.drills.rig.live import Live
from storage.store.errors import UnwritableError
from tests.drills.playing import found, played, result
from tests.support.command import canary
from tests.support.stores import opened
from tests.support.waiting import BUSY

if TYPE_CHECKING:
    from canary.drills.rig.result import Result

FOUND = result(played(found("lost-write", [4]), gone=[4]))
MISSED = result(played(gone=[4]))
NOT_HERE = result(None, impossible="there is no java")
ENDS_S = 20.0


@pytest.fixture
def performed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The drills that were asked for; each comes to what ``results`` holds for it, without a broker."""
    names: list[str] = []
    outcomes = {"fsync-loss": FOUND, "phantom": MISSED, "corrupt": NOT_HERE}

    def attempt(
        entry: Any, _stopping: object, tell: Any, _keep: Path | None, *, with_control: bool, **_others: object
    ) -> Result:
        names.append(f"{entry.name}{'' if with_control else ' without its control'}")
        tell("broker 1 is killed (-9)")
        return outcomes.get(entry.name, FOUND)

    monkeypatch.setattr("canary.drills.rig.result.attempt", attempt)
    monkeypatch.setattr("canary.processes.signals.stop_on_signals", threading.Event)
    return names


def test_every_drill_is_listed_with_what_has_to_be_said() -> None:
    shown = canary("drill", "list")
    assert shown.status == 0
    assert all(name in shown.out for name in drills())
    items = json.loads(canary("drill", "list", "--json").out)["items"]
    assert {one["name"]: one["says"] for one in items} == {
        name: [said.kind for said in entry.drill.says] for name, entry in drills().items()
    }


def test_a_name_that_no_drill_has_is_refused_before_anything_is_broken(performed: list[str]) -> None:
    done = canary("drill", "run", "fsync-loss", "no-such-drill")
    assert done.status == 2
    assert "no-such-drill" in done.err
    assert "canary drill list" in done.err
    assert performed == []


@pytest.mark.parametrize(
    ("names", "status"),
    [
        (["fsync-loss"], 0),
        (["phantom"], 1),
        (["corrupt"], 3),
        (["fsync-loss", "corrupt"], 3),
        (["corrupt", "phantom"], 1),
    ],
)
def test_the_status_tells_found_from_missed_from_not_possible(
    performed: list[str], names: list[str], status: int
) -> None:
    done = canary("drill", "run", *names)
    assert done.status == status
    assert performed == names
    assert "broker 1 is killed (-9)" in done.err


def test_all_drills_are_performed_and_reported_as_json_and_as_a_page(performed: list[str], tmp_path: Path) -> None:
    page = tmp_path / "drills.html"
    done = canary("drill", "all", "--no-control", "--json", "--report", page)
    assert performed == [f"{name} without its control" for name in drills()]
    assert len(json.loads(done.out)["items"]) == len(drills())
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_report_that_has_no_place_is_refused_before_anything_is_broken(performed: list[str], tmp_path: Path) -> None:
    done = canary("drill", "run", "fsync-loss", "--report", tmp_path / "none" / "page.html")
    assert done.status == 2
    assert "none" in done.err
    assert performed == []


@pytest.mark.kafka
@pytest.mark.quick
def test_a_drill_that_is_told_to_end_ends_soon_and_leaves_nothing(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    command = [sys.executable, "-m", "canary.cli", "drill", "run", "fsync-loss", "--no-control"]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with subprocess.Popen(
        [*command, "--results", results], env=os.environ | {"TMPDIR": str(scratch)}, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stderr is not None
            said = next(line for line in process.stderr if "is killed" in line)
            left = psutil.Process(process.pid).children(recursive=True)
            assert len(left) >= 5, said  # brokers, the controller, the canary
            process.send_signal(signal.SIGTERM)
            assert process.wait(ENDS_S * BUSY) == 3
        finally:
            process.kill()
    assert not [one for one in left if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
    assert list(scratch.iterdir()) == []
    assert not results.exists(), "a drill that was cut short shows nothing"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--cluster", "nowhere"), "there is no cluster nowhere"),
        (("--cluster", "lab", "--i-own-this-cluster", "prod"), "nothing is broken"),
        (("--cluster", "far", "--i-own-this-cluster", "far"), "only its brokers can be broken"),
        (("--cluster", "lab", "--i-own-this-cluster", "lab"), "no lab in"),
        (("--cluster", "far", "--page-within", "soon"), "soon"),
    ],
)
def test_a_live_cluster_is_not_touched_unless_all_is_as_it_must_be(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    config = tmp_path / "canary.yaml"
    far = {"name": "far", "kafka": {"bootstrap.servers": "127.0.0.1:1"}}
    document = {
        "clusters": [far, {"name": "lab"}],
        "lab": {"directory": str(tmp_path / "lab")},
        "store": {"url": f"sqlite:///{tmp_path}/store.db"},
    }
    config.write_text(json.dumps(document))
    ended = canary("drill", "run", "duplicate", *words, "--config", config)
    assert ended.status in {1, 2}
    assert said in ended.err.replace("\n", " ")
    assert "Traceback" not in ended.err


def test_a_store_that_takes_no_write_is_not_called_a_cluster_without_a_runner(tmp_path: Path) -> None:
    with opened(f"sqlite:///{tmp_path}/store.db") as store:
        with store._database.reading() as connection:
            connection.exec_driver_sql("PRAGMA query_only=ON")
            connection.commit()
        cluster: Any = SimpleNamespace(name="far", drill_topic="durability-canary-drill")
        live = Live(cluster=cluster, store=store, actor="a", page_s=None, stopping=threading.Event(), tell=print)
        with pytest.raises(UnwritableError, match="takes no write"):
            live.perform(drills()["duplicate"])


def test_a_drill_that_harms_more_than_its_topic_wants_a_cluster_of_its_own(tmp_path: Path) -> None:
    config = tmp_path / "canary.yaml"
    far = {"name": "far", "kafka": {"bootstrap.servers": "127.0.0.1:1"}, "modes": {"idempotent": {}, "drill": {}}}
    config.write_text(json.dumps({"clusters": [far], "store": {"url": f"sqlite:///{tmp_path}/store.db"}}))
    assert canary("db", "upgrade", "--config", config).status == 0
    refused = canary("drill", "run", "fsync-loss", "--cluster", "far", "--config", config)
    assert refused.status == 2
    assert "throwaway" in refused.err
    alone = canary("drill", "run", "duplicate", "--cluster", "far", "--config", config)
    assert alone.status == 3, "no runner judges that cluster"
    assert "start one: canary run" in alone.err
