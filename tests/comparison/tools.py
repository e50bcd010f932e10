"""The programs that are compared, each with a topic of its own: how they are run, and what they say."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import httpx
from confluent_kafka.admin import AdminClient, NewTopic

from canary.drills.rig.installation import Installation
from canary.lab.state import free_ports
from tests.benchmarks.measuring import cpu_s, family
from tests.support import families, kminion

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import psutil

PARTITIONS: Final = 3
INTERVAL_MS: Final = 100
_STRIMZI_PORT: Final = 8080  # it has no setting for it


@dataclass(frozen=True, slots=True)
class Said:
    """What a tool has said so far.

    Attributes:
        produced, consumed: probes, acknowledged and read back, by its own count.
        lost: records that it calls lost, as a number; None: it has no such number.
        places: where it says that something was lost: (partition, first offset, how many).
        words: the rest of it: kinds of violations and how many of each, or its own percentage.
    """

    produced: float = 0
    consumed: float = 0
    lost: float | None = None
    places: tuple[tuple[int, int, int], ...] = ()
    words: Mapping[str, float] | None = None


class Tool:
    """A program that probes a topic of its own."""

    name: str
    version: str

    def __init__(self, directory: Path, bootstrap: str) -> None:
        self.directory, self.bootstrap = directory / self.name, bootstrap
        self.topic = f"compared-{self.name}"
        self.directory.mkdir(parents=True)

    def start(self) -> None:
        """Start it."""
        raise NotImplementedError

    def said(self) -> Said:
        """Return what it says.

        Raises:
            OSError, httpx.HTTPError: it does not answer.
        """
        raise NotImplementedError

    def processes(self) -> list[psutil.Process]:
        """Return its processes."""
        raise NotImplementedError

    def stop(self) -> None:
        """Kill it."""
        raise NotImplementedError

    def listen(self, within_s: float = 60.0) -> Said | None:
        """Return what it says as soon as it answers; None: it does not answer ``within_s``."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, httpx.HTTPError, ValueError):
                return self.said()
            time.sleep(0.5)  # asked over HTTP: there is no event to wait for
        return None

    def cpu_s(self) -> float:
        """Return the CPU that its processes have taken, s."""
        return cpu_s(self.processes())

    def pss(self) -> int:
        """Return the memory that its processes hold, bytes; a page of several is divided among them."""
        return sum(one.memory_full_info().pss for one in self.processes())


class _Command(Tool):
    """One process, with its environment."""

    process: subprocess.Popen[bytes] | None = None

    def command(self) -> tuple[list[str], dict[str, str]]:
        """Return what to run, and what to add to its environment."""
        raise NotImplementedError

    def start(self) -> None:
        command, environment = self.command()
        with (self.directory / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **environment})

    def processes(self) -> list[psutil.Process]:
        assert self.process
        return family(self.process.pid)

    def stop(self) -> None:
        if self.process is not None:
            families.kill(self.process)


class Kminion(_Command):
    """kminion's end-to-end probing, with the settings of its documentation."""

    name = "kminion"
    version = "2.3.5"

    def command(self) -> tuple[list[str], dict[str, str]]:
        (self.port,) = free_ports(1)
        file = self.directory / "kminion.yaml"
        kminion.configure(file, self.bootstrap, self.topic, PARTITIONS, INTERVAL_MS, self.port)
        return [kminion.found() or ""], {"CONFIG_FILEPATH": str(file)}

    def said(self) -> Said:
        found = kminion.scrape(self.port, timeout=5.0)
        produced = found["messages_produced_total"] - found["messages_produced_failed_total"]
        return Said(produced, found["messages_received_total"], found["messages_lost_total"])


class Strimzi(_Command):
    """strimzi-canary, with nothing set but where it probes, and how often."""

    name = "strimzi-canary"
    version = "0.6.0"

    def command(self) -> tuple[list[str], dict[str, str]]:
        return [strimzi() or ""], {
            "KAFKA_BOOTSTRAP_SERVERS": self.bootstrap,
            "TOPIC": self.topic,
            "RECONCILE_INTERVAL_MS": str(INTERVAL_MS),
            "STATUS_TIME_WINDOW_MS": "60000",
        }

    def said(self) -> Said:
        found = kminion.scrape(_STRIMZI_PORT, "strimzi_canary_", timeout=5.0)
        status = httpx.get(f"http://127.0.0.1:{_STRIMZI_PORT}/status", timeout=5.0).json()
        percentage = status["Consuming"]["Percentage"]
        produced, consumed = found["records_produced_total"], found["records_consumed_total"]
        return Said(produced, consumed, words={"per cent consumed": percentage})


class Canary(Tool):
    """This canary: `run` and `serve`, with the defaults but for the interval."""

    name = "canary"
    version = "this commit"

    def start(self) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        admin.create_topics([NewTopic(self.topic, PARTITIONS, 3)])[self.topic].result(30)
        cluster = {
            "name": "compared",
            "kafka": {"bootstrap.servers": self.bootstrap},
            "topic": {"name": self.topic, "partitions": PARTITIONS},
            "modes": {"idempotent": {"interval": f"{INTERVAL_MS}ms"}},
        }
        self.installation = Installation(self.directory, [cluster])
        self.installation.start()

    def said(self) -> Said:
        counts: dict[str, float] = {}
        for sample in self.installation.samples():
            if sample.labels.get("isolation", "read_committed") == "read_committed":
                counts[sample.name] = counts.get(sample.name, 0) + sample.value
        if not counts:
            raise OSError("its store does not answer")
        places: list[tuple[int, int, int]] = []
        words: dict[str, float] = {}
        for one in self.installation.violations():
            words[one["kind"]] = words.get(one["kind"], 0) + 1
            if one["kind"] == "lost-write":
                runs = self.installation.runs_of(one)
                places.extend((one["partition"], offset, size) for offset, size, _ in runs)
        acked, seen = counts.get("canary_probes_acked_total", 0), counts.get("canary_probes_seen_total", 0)
        return Said(acked, seen, sum(size for *_, size in places), tuple(sorted(places)), words)

    def processes(self) -> list[psutil.Process]:
        return [one for process in self.installation.processes for one in family(process.pid)]

    def stop(self) -> None:
        self.installation.kill()


def strimzi() -> str | None:
    """Return where strimzi-canary is: what $STRIMZI_CANARY or the PATH leads to."""
    return os.environ.get("STRIMZI_CANARY") or shutil.which("strimzi-canary")


@contextlib.contextmanager
def all_of_them(directory: Path, bootstrap: str) -> Iterator[list[Tool]]:
    """Start every tool, wait until each has read a probe of its own, and stop them in the end.

    Raises:
        TimeoutError: one does not come up within two minutes.
    """
    tools: list[Tool] = [Canary(directory, bootstrap), Kminion(directory, bootstrap), Strimzi(directory, bootstrap)]
    try:
        for tool in tools:
            tool.start()
        deadline = time.monotonic() + 120
        for tool in tools:
            while not ((said := tool.listen()) and said.consumed):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{tool.name} reads nothing; see {tool.directory}")
                time.sleep(0.5)  # asked over HTTP: there is no event to wait for
        yield tools
    finally:
        for tool in tools:
            with contextlib.suppress(AttributeError):  # was not started
                tool.stop()
