"""Ways in which a canary goes blind: each is on the page within seconds, and fires a real Prometheus' alert.

All clusters of the settings are one lab, each with a runner of its own, so that faults are caused at the same time and
what is waited for overlaps. Alerts fire by the rules that are shipped; in the short form they end sooner than those.
"""

from __future__ import annotations

import html
import re
import signal
import subprocess
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml
from confluent_kafka.admin import AdminClient, NewTopic

from canary.errors import FAILED
from dashboards.__main__ import GENERATED, ROOT
from tests.support.disk import SmallDisk, small_disk
from tests.support.http_client import HTTP, PATIENCE_S
from tests.support.monitoring import SECONDS, forgetful_rules
from tests.support.process import Canary
from tests.support.prometheus import prometheus
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from canary.lab import Lab
    from tests.support.postgres import Postgres

pytestmark = [pytest.mark.e2e, pytest.mark.kafka, pytest.mark.postgres]

PAGE_S, ALERT_S = 10.0, 120.0
"""What is promised on a machine that is idle, from the fault on: the page says so, an alert fires."""
FORGOTTEN_S = 330.0
"""In the long form a violation counts as new for five minutes, and its alert fires as long."""
LOOKS_S = 0.5
"""Between two looks at the page, which costs more than the wait."""
WRITTEN = "later"
"""The cluster of which it matters which partitions take writes."""
ENDING: Final = """
import ctypes, signal, sys, threading, time

def works(ident):
    frame, calls = sys._current_frames().get(ident), []
    while frame is not None:
        calls.append(frame.f_code.co_name)
        frame = frame.f_back
    return ("run", "_main") in zip(calls, calls[1:])

def end(name):
    ended = [thread for thread in threading.enumerate() if thread.name == name and works(thread.ident)]
    for thread in ended:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(MemoryError))
    return ended

def again_and_again():
    ended = set()
    while len(ended) < 3:
        ended.update(end("watcher"))
        time.sleep(0.1)

signal.signal(signal.SIGUSR1, lambda *_: end("judge"))
signal.signal(signal.SIGUSR2, lambda *_: threading.Thread(target=again_and_again, daemon=True).start())
"""
"""Has a thread of the process raise MemoryError, wherever it is: at SIGUSR1 the judge's, at SIGUSR2 the watcher's, and
those of the next two that are started in its place. Not while a thread begins or ends: Python itself would break."""


@dataclass
class Case:
    """What has to come of a fault, and how many seconds after it that came; ``says`` is a regular expression."""

    cluster: str
    says: str
    alert: str
    labels: dict[str, str] = field(default_factory=dict)
    since: float = 0.0
    page_s: float | None = None
    alert_s: float | None = None

    def is_alert(self, labels: dict[str, str]) -> bool:
        return ({"alertname": self.alert, "cluster": self.cluster} | self.labels).items() <= labels.items()

    def __str__(self) -> str:
        seconds = f"page after {self.page_s or -1:5.1f} s, alert after {self.alert_s or -1:5.1f} s"
        return f"{seconds}: {self.alert} {self.labels or ''} of {self.cluster}: {self.says}"


@dataclass
class Watch:
    """Looks at the page, and at Prometheus' alerts."""

    page: str
    prometheus: str

    def told(self, path: str = "") -> str:
        return html.unescape(HTTP.get(f"{self.page}{path}").text)

    def kept(self, cluster: str) -> bool:
        return f"{cluster} has kept every write that it acknowledged" in self.told(f"/clusters/{cluster}")

    def ready(self) -> bool:
        return HTTP.get(f"{self.page}/readyz").status_code == 200

    def firing(self) -> list[dict[str, str]]:
        """The labels of each alert that fires."""
        found = HTTP.get(f"{self.prometheus}/api/v1/alerts").json()["data"]["alerts"]
        return [one["labels"] for one in found if one["state"] == "firing"]

    def until_all_came(self, cases: list[Case]) -> None:
        """Wait until every page said so and every alert fires; print when."""

        def all_came() -> bool:
            told, told_at, firing, fired_at = self.told(), time.monotonic(), self.firing(), time.monotonic()
            for case in cases:
                if case.page_s is None and re.search(case.says, told):
                    case.page_s = told_at - case.since
                if case.alert_s is None and any(map(case.is_alert, firing)):
                    case.alert_s = fired_at - case.since
            return all(case.page_s is not None and case.alert_s is not None for case in cases)

        try:
            until(all_came, ALERT_S, "every fault is on the page, and every alert fires", step_s=LOOKS_S)
        finally:
            print(*cases, sep="\n")  # noqa: T201  # the figures

    def until_not_told(self, cases: list[Case]) -> None:
        said = "|".join(case.says for case in cases)
        until(lambda: not re.search(said, self.told()), 2 * PATIENCE_S, "the page says so no more", step_s=LOOKS_S)

    def until_silent(self, cases: list[Case], timeout: float) -> None:
        def silent() -> bool:
            firing = self.firing()
            return not any(case.is_alert(labels) for case in cases for labels in firing)

        until(silent, timeout, "no alert fires any more", step_s=LOOKS_S)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "small") as mounted:
        yield mounted


@dataclass
class Fleet:
    """Runners, each of a cluster of its own name, that share a store and a lab."""

    directory: Path
    bootstrap: str
    store: str

    def _cluster(self, name: str) -> dict[str, Any]:
        return {
            "name": name,
            "kafka": {"bootstrap.servers": self.bootstrap},
            "topic": {"name": name, "partitions": 3 if name == WRITTEN else 1},
            "modes": {"idempotent": {"interval": "500ms"}},
        }

    def runner(self, name: str, ledger: Path | None = None) -> Canary:
        directory = self.directory / name
        settings = {
            "clusters": [self._cluster(name)],
            "ledger": {"directory": str(ledger or directory / "ledger")},
        }
        return Canary(directory, self.bootstrap, name, store=self.store, parts=("run",), settings=settings)

    def api(self, *clusters: str) -> Canary:
        settings = {"clusters": list(map(self._cluster, clusters))}
        return Canary(self.directory / "api", self.bootstrap, "", store=self.store, parts=("serve",), settings=settings)


@contextmanager
def watched(directory: Path, api: Canary, runners: dict[str, Canary], *, shipped: bool) -> Iterator[Watch]:
    """Run them all, and Prometheus with the files of the repository, until every cluster is probed.

    ``shipped``: with the rules and the pace that are shipped; or else it looks more often, and forgets sooner.
    """
    config = yaml.safe_load((ROOT / "deploy/prometheus.yml").read_text())
    config["rule_files"] = [str(ROOT / GENERATED / "rules.yml")]
    del config["alerting"]
    if not shipped:
        config["global"], config["rule_files"] = SECONDS, [str(directory / "rules.yml")]
        (directory / "rules.yml").write_text(yaml.safe_dump(forgetful_rules()))
    with ExitStack() as running:
        for canary in (api, *runners.values()):
            running.enter_context(canary)
        watch = Watch(api.base, running.enter_context(prometheus(directory, config, api.port)))
        waiting = set(runners)

        def all_kept() -> bool:
            waiting.difference_update([cluster for cluster in waiting if watch.kept(cluster)])
            return not waiting

        until(all_kept, 2 * PATIENCE_S, "every cluster is probed", step_s=LOOKS_S)
        assert watch.ready()
        yield watch


@pytest.mark.timeout(1800)
def test_whatever_blinds_a_runner_and_whatever_a_cluster_does_not_answer_is_on_the_page_and_fires_an_alert(
    lab: Lab, postgres: Postgres, tmp_path: Path, disk: SmallDisk, monkeypatch: pytest.MonkeyPatch, *, long: bool
) -> None:
    (tmp_path / "sitecustomize.py").write_text(ENDING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    fleet = Fleet(tmp_path, lab.bootstrap, postgres.database())
    clusters = ("judge", "watcher", "disk", "files", "memory", WRITTEN)
    runners = {name: fleet.runner(name, disk.path if name == "disk" else None) for name in clusters}
    api = fleet.api(*clusters)
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    topic = NewTopic(WRITTEN, 3, replica_assignment=[[1, 2], [3, 2], [3, 1]])  # broker 2 leads nothing
    admin.create_topics([topic])[WRITTEN].result(PATIENCE_S)
    with watched(tmp_path, api, runners, shipped=long) as watch:
        until(lambda: len(segments(runners["memory"])) > 1, PATIENCE_S, "a segment was sealed")
        faults: dict[str, Callable[[], object]] = {
            "judge": partial(signalled, runners["judge"], signal.SIGUSR1),
            "watcher": partial(signalled, runners["watcher"], signal.SIGUSR2),
            "disk": disk.fill,
            "files": partial(limit_files, runners["files"], 3),
            "memory": partial(forget, runners["memory"]),
        }
        dead = Case("judge", "The canary of judge has not", "CanaryRunnerDown")
        forgetful = Case("memory", "The canary of memory has forgotten a part of what was", "CanaryMemoryLost")
        blind = [
            Case("watcher", "its watcher ends again and again \\(MemoryError", "CanaryBlind"),
            Case("disk", "cannot be written: No space left on device", "CanaryBlind"),
        ]
        failing = Case("files", "fails: Too many open files", "CanaryLedgerErrors")
        for case in (cases := [dead, forgetful, failing, *blind]):
            case.since = time.monotonic()
            faults[case.cluster]()
        watch.until_all_came([forgetful, failing, *blind])

        # a broker that takes part in some writes does not answer
        waits = f"{WRITTEN} ha(s|ve) not answered since|{WRITTEN} has lost nothing, but . partitions take no writes"
        unwritable = [
            Case(WRITTEN, waits, "CanaryLeaderUnwritable", {"leader": "1"}),
            Case(WRITTEN, waits, "CanaryPartitionUnwritable", {"partition": "1"}),
        ]
        since(unwritable)
        lab.pause(2)
        watch.until_all_came([dead, *unwritable])
        assert not watch.ready()
        assert runners["judge"].processes[0].wait(PATIENCE_S) == FAILED
        assert "its judge ended: MemoryError()" in runners["judge"].output()

        # no broker answers, neither a canary that probed nor one that is started now
        silent = [
            Case(WRITTEN, f"{WRITTEN} ha(s|ve) not answered since", "CanaryBlind"),
            Case("start", "start has not answered since", "CanaryBlind"),
        ]
        since(silent)
        lab.pause(1)
        lab.pause(3)
        with fleet.runner("start"):
            watch.until_all_came(silent)
            for broker in lab.brokers:
                lab.resume(broker)
            runners["judge"].start()
            disk.empty()
            limit_files(runners["files"], 1024)
            resolve(api, "memory")
            watch.until_not_told([*cases, *unwritable, *silent])
            until(watch.ready, PATIENCE_S, "every cluster is judged")
            watch.until_silent([dead, forgetful, *blind, *unwritable, *silent], FORGOTTEN_S)
            if long:
                watch.until_silent([failing], FORGOTTEN_S)


def since(cases: list[Case]) -> None:
    for case in cases:
        case.since = time.monotonic()


def signalled(canary: Canary, number: signal.Signals) -> None:
    (process,) = canary.processes
    process.send_signal(number)


def limit_files(canary: Canary, most: int) -> None:
    """Let a process open no file whose number is as high."""
    (process,) = canary.processes
    subprocess.run(["prlimit", f"--pid={process.pid}", f"--nofile={most}:4096"], check=True)


def segments(canary: Canary) -> list[Path]:
    return sorted(canary.directory.glob("ledger/*/*/segment-*.ledger"))


def forget(canary: Canary) -> None:
    """Kill it, have a bit of each snapshot rot, and start it again."""
    canary.kill()
    for segment in segments(canary):
        rotten = bytearray(segment.read_bytes())
        rotten[200] ^= 4
        segment.write_bytes(rotten)
    canary.start()


def resolve(api: Canary, cluster: str) -> None:
    for row in api.get("/api/v1/incidents", limit=1000, cluster=cluster).json()["items"]:
        reason = {"reason": "false"}
        HTTP.post(f"{api.base}/api/v1/incidents/{row['id']}/resolve", json=reason).raise_for_status()
