"""The canary as its users run it: processes, a settings file, HTTP. Nothing of its inside is touched here."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any, Self

import httpx

from canary.anomalies.violation import SENT_AGAIN
from canary.drills.rig import direct
from canary.drills.rig.installation import Installation
from canary.probe.identity import Identity
from canary.probe.record import Probe, decode
from tests.support import forks
from tests.support.labs import known
from tests.support.stalls import LATE, Condition, NotInTimeError, UnexplainedError, explained
from tests.support.waiting import BUSY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from prometheus_client.samples import Sample

START_S = 150.0
"""How long a process may take to start on a machine that is busy; no part of what is tested."""
STORE_UP = "canary_api_store_up"
LOSS_KINDS = frozenset(
    {"lost-write", "inconsistent-offsets", "truncation", "early-expiry", "fractured-transaction", "offset-regression"}
)


class Canary(Installation):
    """An installation that tests wait for, and whose every alarm has to be explained."""

    begun = forks.canary

    def __init__(  # noqa: PLR0913  # what tests vary
        self,
        directory: Path,
        bootstrap: str,
        topic: str,
        *,
        name: str = "c0",
        store: str | None = None,
        partitions: int = 3,
        interval: str = "100ms",
        parts: tuple[str, ...] = ("run", "serve"),
        settings: dict[str, Any] | None = None,
    ) -> None:
        self.bootstrap, self.topic, self.name, self.partitions = bootstrap, topic, name, partitions
        self.started = self.since = 0.0
        cluster = {
            "name": "t",
            "kafka": {"bootstrap.servers": bootstrap},
            "topic": {"name": topic, "partitions": partitions},
            "modes": {"idempotent": {"interval": interval}},
        }
        own: dict[str, Any] = {"runner": {"name": name, "segment_age": "5s"}}
        if store is not None:
            own["store"] = {"url": store}
        super().__init__(directory, [cluster], own | (settings or {}), parts)

    # life

    def start(self) -> None:
        self.started = time.time()
        self.since = self.since or self.started  # of the first process
        super().start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        try:
            if isinstance(error, LATE) and (said := self._alarms()):
                raise UnexplainedError(f"{error}; and meanwhile the canary said: {said}") from error
        finally:
            self.kill()

    # what it says

    def scrape(self, *wanted: str) -> list[Sample]:
        """Return the samples of one answer of /metrics that the store had its part in; a busy one is asked again.

        ``wanted``: beginnings of names; see samples().

        Raises:
            NotInTimeError: it did not answer the server in a few tries, and so nothing of it is shown.
        """
        for _ in range(10):
            if found := self.samples(*wanted):
                return found
            time.sleep(0.5)  # asked over HTTP: there is no event to wait for
        raise NotInTimeError(f"{STORE_UP} is 0")

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of a metric's samples that have these labels; see scrape()."""
        return sum(
            sample.value
            for sample in self.scrape(name)
            if sample.name == name and all(sample.labels.get(k) == v for k, v in labels.items())
        )

    def store_is_up(self) -> bool:
        return f"{STORE_UP} 1.0" in self.get("/metrics").text

    def unexplained(self) -> list[dict[str, Any]]:
        """Return every violation but those that the lab's own events explain."""
        said, lab = self.violations(), known.get(self.bootstrap)
        if lab is None:
            return said
        happened = (
            lab.events()
        )  # all of them: what was done to a broker before the canary began explains what came of it
        return [one for one in said if not explained(Condition.of_rest(one), happened, self.since)]

    def broken_promises(self) -> list[str]:
        """Return each unexplained violation with its evidence.

        But for copies that the client itself made (librdkafka issue 4953): those can come with any change of leader,
        and are warnings.
        """
        found = (self.get(f"/api/v1/violations/{one['id']}").json() for one in self.unexplained())
        return [
            f"{one['severity']} {one['kind']} in {one['topic']}[{one['partition']}] at {one['offset']}: "
            f"{one['summary']} {json.dumps(one['evidence'])}"
            for one in found
            if not (one["severity"] == "warning" and SENT_AGAIN in one["evidence"])
        ]

    def _alarms(self) -> list[str]:
        """Return the critical violations that nothing explains, if it still answers; a cut log explains a loss."""
        try:
            said = self.unexplained()
        except (httpx.TransportError, ValueError, KeyError):
            return []
        lab = known.get(self.bootstrap)
        cut = lab is not None and any(event.what == "cut" for event in lab.events(self.since))
        return [
            f"{one['kind']} in {one['topic']}[{one['partition']}] at {one['offset']}"
            for one in said
            if one["severity"] == "critical" and not (cut and one["kind"] in LOSS_KINDS)
        ]

    def until(self, reached: Callable[[], object], timeout: float, what: str) -> None:
        """Wait until ``reached``; fails with the log's end when it is not in time (see waiting.until)."""
        deadline = time.monotonic() + BUSY * timeout
        while time.monotonic() < deadline:
            ended = self.ended()
            assert ended is None, ended
            with contextlib.suppress(httpx.TransportError, ValueError, KeyError, NotInTimeError):
                if reached():
                    return
            time.sleep(0.25)  # asked over HTTP: there is no event to wait for
        said = self.output()[-3000:]
        self._abort()
        raise NotInTimeError(f"not in {BUSY * timeout:g} s: {what}\n{said}")

    def _abort(self) -> None:
        """End the processes; what each of their threads was doing is printed below the failure."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGABRT)  # tests.support.started: faulthandler writes the stacks
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(60)

    def until_probing(self, timeout: float = START_S) -> None:
        """Wait until the processes that run now have shown ten more deliveries."""
        self.until(
            lambda: self.metric("canary_runner_heartbeat_timestamp_seconds") > self.started,
            timeout,
            "the runner of now shows something",
        )
        before = self.metric("canary_probes_seen_total")
        self.until(lambda: self.metric("canary_probes_seen_total") > before + 10, timeout, "probes are seen")

    def until_all_seen(self, timeout: float = 60.0) -> None:
        """Wait until whatever was acknowledged some time ago has been seen, by every consumer in every partition."""

        def reached() -> bool:
            found = self.scrape("canary_unseen_oldest_seconds", "canary_probes_acked_total")
            oldest = [sample.value for sample in found if sample.name == "canary_unseen_oldest_seconds"]
            acked = sum(sample.value for sample in found if sample.name == "canary_probes_acked_total")
            return bool(oldest) and max(oldest) < 3.0 and acked > 0

        self.until(reached, timeout, "all acknowledged probes are seen")

    def until_no_doubt(self, timeout: float = 60.0) -> None:
        self.until(lambda: self.metric("canary_suspects") == 0, timeout, "nothing is in doubt any more")


def records(bootstrap: str, topic: str, isolation: str = "read_committed") -> Iterator[tuple[int, int, bytes | None]]:
    """Yield (partition, offset, value) of all that the topic holds, by a plain client."""
    yield from ((one.partition, one.offset, one.value) for one in direct.records(bootstrap, topic, isolation))


def identities(bootstrap: str, topic: str) -> dict[Identity, list[int]]:
    """Return every identity in the topic (any canary's) with its offsets."""
    found: dict[Identity, list[int]] = {}
    for _, offset, value in records(bootstrap, topic):
        probe = decode(value, None)
        assert isinstance(probe, Probe), probe
        found.setdefault(probe.identity, []).append(offset)
    return found


def acknowledged(directory: Path) -> dict[Identity, int]:
    """Return what the shipped probe log says was acknowledged, and where."""
    rows = direct.rows(directory / "probe-log" / "probes")
    return {direct.identity(row): row["offset"] for row in rows if row["outcome"] == "acked"}
