"""What happens to the canary itself: its processes, its clock, and what it keeps on its disk."""

from __future__ import annotations

import contextlib
import math
import os
import random
import resource
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx

from canary.drills.monitoring import HOLD_S, heartbeat, prometheus
from canary.drills.rig.installation import Installation
from canary.drills.rig.rig import CLUSTER, Rig, StoppedError
from canary.drills.steps.step import Step

_START_S: Final = 40.0
_ACKED: Final = "canary_probes_acked_total"
_PROBES: Final = 10
"""So many are seen by a canary that has started."""
_ANOTHER: Final = "another"
"""The other canary, its cluster and its topic are called so."""
_SERVED: Final = "canary_api_cluster_store_up"
"""The series that CanaryVanished and CanaryAbsent ask for."""
_FIRED: Final = 'max_over_time(ALERTS{{alertstate="firing"}}[{}s])'
_GONE_S: Final = 10.0
_RINGS_S: Final = 30.0
_LOOK_S: Final = 75.0
"""A heartbeat is called each minute."""
_ON_ITS_WAY_S: Final = 1.0
"""A call may arrive so long after its process was killed."""
_CLOCK_FILE: Final = "CANARY_DRILL_CLOCK"
_CLOCK: Final = f"""import os, time
from pathlib import Path

wall, wall_ns, file = time.time, time.time_ns, Path(os.environ["{_CLOCK_FILE}"])
time.time = lambda: wall() + float(file.read_text())
time.time_ns = lambda: wall_ns() + int(1e9 * float(file.read_text()))
"""
"""What Python runs first in the canary's processes, when they are to have a clock of their own."""


@dataclass(frozen=True, slots=True)
class KillCanary(Step):
    """Kill -9 every process of it; what it showed just before is remembered."""

    def take(self, rig: Rig) -> None:
        """Kill them."""
        remember(rig)
        rig.canary.kill()

    def __str__(self) -> str:
        """Say it."""
        return "the canary is killed (-9), all of it"


@dataclass(frozen=True, slots=True)
class StopCanary(Step):
    """SIGTERM; it has to end with status 0."""

    def take(self, rig: Rig) -> None:
        """Stop it, and wait for its end."""
        remember(rig)
        if any(found := rig.canary.stop()):
            rig.complain(f"the canary that was asked to stop ended with {found}")

    def __str__(self) -> str:
        """Say it."""
        return "the canary is stopped (SIGTERM)"


@dataclass(frozen=True, slots=True)
class StartCanary(Step):
    """Start it again, with what it has on its disk, and wait until it has seen some probes."""

    def take(self, rig: Rig) -> None:
        """Start it."""
        rig.canary.start()
        until_probing(rig)

    def __str__(self) -> str:
        """Say it."""
        return "the canary is started again"


@dataclass(frozen=True, slots=True)
class KillCanaryAgainAndAgain(Step):
    """Kill -9 everything at random moments, starting it in between; some come before it has begun to probe."""

    times: int = 10
    longest_s: float = 6.0
    seed: int = 7

    def take(self, rig: Rig) -> None:
        """Kill and start, and start in the end."""
        chance = random.Random(self.seed)  # noqa: S311  # moments, no secrets
        for _ in range(self.times):
            if rig.stopping.wait(chance.uniform(0.2, self.longest_s)):
                raise StoppedError
            KillCanary().take(rig)
            rig.canary.start()
        until_probing(rig)

    def __str__(self) -> str:
        """Say it."""
        return f"the canary is killed (-9) and started {self.times} times, at random moments"


def remember(rig: Rig) -> None:
    """Remember what the canary shows as acknowledged: it must never show less."""
    with contextlib.suppress(httpx.HTTPError, ValueError):
        for one in rig.canary.samples(_ACKED):
            if one.name == _ACKED:
                partition = int(one.labels["partition"])
                rig.counted[partition] = max(one.value, rig.counted.get(partition, 0.0))


def until_probing(rig: Rig) -> None:
    """Wait until the canary, started a moment ago, has seen more probes than before."""
    before: list[float] = []

    def reached() -> bool:
        before.append(rig.metric("canary_probes_seen_total"))
        return before[-1] > before[0] + _PROBES

    rig.until(reached, _START_S, "the canary probes again")


# Its disk


@dataclass(frozen=True, slots=True)
class LimitFiles(Step):
    """No file of the canary's runner may be longer than this: a disk without room, for whoever writes.

    A write beyond it fails with EFBIG in place of ENOSPC; that needs neither root nor a disk.
    """

    size: int | None

    def take(self, rig: Rig) -> None:
        """Set the limit of the process that runs."""
        runner = rig.canary.processes[rig.canary.parts.index("run")]
        _, hard = resource.prlimit(runner.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(runner.pid, resource.RLIMIT_FSIZE, (hard if self.size is None else self.size, hard))

    def __str__(self) -> str:
        """Say it."""
        if self.size is None:
            return "there is room again on the canary's disk"
        return f"the canary's disk has no room (for files of more than {self.size:,} bytes)"


@dataclass(frozen=True, slots=True)
class WipeLedger(Step):
    """The ledger of a canary that does not run is gone."""

    def take(self, rig: Rig) -> None:
        """Delete it."""
        shutil.rmtree(rig.canary.ledger)

    def __str__(self) -> str:
        """Say it."""
        return "the canary's ledger is wiped"


# Others


@dataclass(frozen=True, slots=True)
class SecondRunner(Step):
    """A second runner of the same name is started with the same store, on another disk: it must give way."""

    status: int = 4
    within_s: float = 40.0

    def take(self, rig: Rig) -> None:
        """Start it, and wait for its end."""
        shared = {"store": {"url": f"sqlite:///{rig.canary.store}"}, **rig.stage.settings}
        second = Installation(rig.directory / "second", rig.canary.clusters, shared, parts=("run",))
        second.start()
        try:
            rig.expect(lambda: second.ended() is not None, self.within_s, "the second runner ends")
            status = second.processes[0].poll()
        finally:
            second.kill()
        if status == self.status:
            rig.note(f"the second runner ended with status {status}")
        elif status is not None:
            rig.complain(f"the second runner ended with status {status}: {second.output()[-500:]}")

    def __str__(self) -> str:
        """Say it."""
        return "a second runner of the same name is started on the same store"


@dataclass(frozen=True, slots=True)
class BesideAnother(Step):
    """Another canary, with a cluster's name, a store, an API and a heartbeat of its own, runs beside this one.

    If it dies its cluster must be missed, and no other; if it lives none may be. What is looked at: the series of both,
    the calls of its heartbeat, and the alerts of a Prometheus that scrapes both, where PATH has one.
    """

    dies: bool = True

    def take(self, rig: Rig) -> None:
        """Start it, kill it if it has to die, and see what is missed."""
        with contextlib.ExitStack() as ending:
            url, calls = ending.enter_context(heartbeat())
            cluster = rig.canary.clusters[0] | {"name": _ANOTHER, "topic": {"name": _ANOTHER, "partitions": 1}}
            pulse = {"name": "pulse", "kind": "heartbeat", "url": url}
            settings = {"runner": {"name": _ANOTHER, "segment_age": "5s"}, "notify": [pulse]}
            another = Installation(rig.directory / _ANOTHER, [cluster], settings)
            ending.callback(another.kill)
            another.start()
            rig.until(lambda: calls, _START_S, "the heartbeat of the other canary is called")
            ask = ending.enter_context(prometheus(rig.directory / "prometheus", rig.canary, another))
            both = {CLUSTER, _ANOTHER}
            rig.until(lambda: ask is None or ask(_SERVED) == both, _START_S, "Prometheus has scraped both canaries")
            self._look(rig, another, calls, ask)

    def _look(self, rig: Rig, another: Installation, calls: list[float], ask: Callable[[str], set[str]] | None) -> None:
        """Look for longer than a heartbeat waits between two calls, and than the alert takes."""
        missed = {_ANOTHER} if self.dies else set()
        if self.dies:
            another.kill()
        began = rig.note(f"the other canary {'is killed (-9), all of it' if self.dies else 'lives on'}", done=True)
        alerts = f"an alert fires for {_ANOTHER}, and for no other cluster" if self.dies else "no alert fires"

        def alarmed() -> bool:
            return ask is None or ask(_FIRED.format(math.ceil(time.time() - began))) == missed

        living = {CLUSTER, _ANOTHER} - missed
        rig.expect(lambda: _served(rig.canary, another) == living, _GONE_S, "the living have series, and no other")
        gone_s = time.time() - began
        rig.expect(alarmed, _RINGS_S, alerts)
        rang_s = time.time() - began
        if rig.stopping.wait(max(began + _LOOK_S - time.time(), 0.0)):
            raise StoppedError
        rig.expect(alarmed, _GONE_S, f"{alerts}, to the end")
        if not self.dies:
            rig.expect(lambda: calls[-1] > began, _GONE_S, f"the heartbeat of {_ANOTHER} is called again")
            return
        if late := [one - began for one in calls if one > began + _ON_ITS_WAY_S]:
            rig.complain(f"the heartbeat of {_ANOTHER} is called {late[0]:.1f} s after it died")
        if rig.complaints:
            return
        alert = "PATH has no prometheus" if ask is None else f"after {rang_s:.1f} s, with a hold of {HOLD_S} s"
        rig.table += [
            (f"no series of {_ANOTHER}", f"after {gone_s:.1f} s"),
            ("CanaryAbsent fires", alert),
            ("no call of its heartbeat", f"for {time.time() - began:.0f} s"),
        ]

    def __str__(self) -> str:
        """Say it."""
        return "another canary is started beside this one"


def _served(*canaries: Installation) -> set[str]:
    """Return the clusters whose series an API shows now; one that does not answer shows none."""
    found: set[str] = set()
    for one in canaries:
        with contextlib.suppress(httpx.TransportError):
            found |= {sample.labels["cluster"] for sample in one.samples(_SERVED) if sample.name == _SERVED}
    return found


# Its clock


@dataclass(frozen=True, slots=True)
class OwnClock(Step):
    """The canary is stopped, and started again under a clock that StepClock can set.

    It is the clock of all of the canary's own code. The client library's waits are left alone: libfaketime, which would
    set the clock for these as well, makes them last for as long as the clock is ahead, which a real step does not.
    """

    def take(self, rig: Rig) -> None:
        """Start it with another time.time(); the monotonic clock goes on, as it does when a clock is set."""
        StepClock(0).take(rig)
        patch = rig.directory / "python" / "sitecustomize.py"
        patch.parent.mkdir()
        patch.write_text(_CLOCK)
        paths = (str(patch.parent), os.environ.get("PYTHONPATH"))
        rig.canary.environment |= {"PYTHONPATH": os.pathsep.join(filter(None, paths)), _CLOCK_FILE: str(_clock(rig))}
        StopCanary().take(rig)
        rig.canary.start()
        until_probing(rig)

    def __str__(self) -> str:
        """Say it."""
        return "the canary is started again under a clock of its own"


@dataclass(frozen=True, slots=True)
class StepClock(Step):
    """The canary's clock is so many seconds ahead of the true time from now on."""

    seconds: float

    def take(self, rig: Rig) -> None:
        """Write it down, at once for every reader."""
        new = _clock(rig).with_suffix(".new")
        new.write_text(f"{self.seconds:+g}\n")
        new.rename(_clock(rig))

    def __str__(self) -> str:
        """Say it."""
        if not self.seconds:
            return "the canary's clock is set right"
        return f"the canary's clock is set {abs(self.seconds):g} s {'ahead' if self.seconds > 0 else 'back'}"


def _clock(rig: Rig) -> Path:
    return rig.directory / "clock"
