"""What verified probes cost: the canary beside the bare confluent-kafka loop and kminion, on the same brokers.

Three brokers of the lab (RF 3), whose CPU is told apart. Subjects run in turn, each in a process tree and with a topic
of its own: warmed up, then watched for a whole number of the canary's snapshots. A probe counts that was acknowledged
and read back by a read_committed reader, and no more of them than the log has grown by. kminion is what the environment
variable KMINION or the PATH leads to (github.com/redpanda-data/kminion); without it, its part is left out.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import psutil
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from canary.lab import Lab, NodeProperties
from canary.lab.state import free_ports
from canary.metrics.published import loads
from storage.store import Store
from tests.benchmarks.measuring import MIB, ROOT, Figure, command, cpu_s, family, metered
from tests.support import kminion
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST: Final = {"30x3": 2.0, "300x3": 1.5, "300x30": 1.25, "3000x30": 2.0}
"""CPU over that of the bare loop, at most, by rate (1/s) and partitions."""
REACHED: Final = 0.99
BROKERS: Final = NodeProperties({"min.insync.replicas": 2})
NAMES: Final = Path(__file__).parent / "named_threads"


@dataclass(frozen=True, slots=True)
class Counts:
    """What a subject says of itself at a moment (s, of its own clock), and what the log holds."""

    at: float
    acked: float
    seen: float
    skipped: float = 0


@dataclass(frozen=True, slots=True)
class Window:
    """What a subject took and did in a stretch of time."""

    cpu: float
    brokers_cpu: float
    seconds: float
    verified: float
    written: float
    skipped: float
    rss: float
    pss: float
    processes: int
    threads: int
    by_thread: dict[str, float]

    @property
    def per_thousand(self) -> float:
        """CPU seconds per 1,000 verified probes."""
        return self.cpu / self.verified * 1000

    @property
    def yielded(self) -> float:
        """Verified probes for each CPU second of the subject and of the brokers."""
        return self.verified / (self.cpu + self.brokers_cpu)

    @property
    def rate(self) -> float:
        """Verified probes a second."""
        return self.verified / self.seconds


class Subject:
    """A program that probes ``topic``, in ``directory``, at ``rate`` probes a second altogether (0: what it can)."""

    def __init__(self, lab: Lab, directory: Path, partitions: int, rate: float, *, named: bool = False) -> None:
        self.lab, self.directory, self.partitions, self.rate, self.named = lab, directory, partitions, rate, named
        self.topic = f"{type(self).__name__.lower()}-{time.time_ns()}"

    def command(self) -> list[str]:
        """Return what to run, once its files are written."""
        raise NotImplementedError

    def counts(self) -> Counts:
        """Return what it says of itself."""
        raise NotImplementedError

    @property
    def interval_ms(self) -> float:
        """Time between two probes of a partition."""
        return self.partitions / self.rate * 1000

    def measured(self, warm_s: float, window_s: float) -> Window:
        """Run it; return what it took once it is warm."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*[str(NAMES)] * self.named, str(ROOT)])}
        whole = metered(self.command(), self.directory / "account")
        with (
            (self.directory / "log").open("wb") as log,
            subprocess.Popen(
                whole, cwd=self.directory, env=environment, stdout=subprocess.PIPE, stderr=log
            ) as self.running,
        ):
            try:
                until(lambda: self.counts().seen > 0, 120, f"a probe of {self.topic}")
                time.sleep(warm_s)
                return self._watched(window_s)
            except BaseException:
                sys.stderr.write((self.directory / "log").read_text()[-2000:])
                raise
            finally:
                self.running.send_signal(signal.SIGTERM)
                self.running.wait(60)

    def _watched(self, window_s: float) -> Window:
        nodes = [psutil.Process(node.pid) for node in self.lab.status() if node.pid]
        counted, end = self.counts(), self._end()
        threads = by_thread(self.running.pid)
        brokers, cpu, began = cpu_s(nodes), cpu_s(family(self.running.pid)), time.monotonic()
        time.sleep(window_s)
        processes = family(self.running.pid)
        cpu, brokers, seconds = cpu_s(processes) - cpu, cpu_s(nodes) - brokers, time.monotonic() - began
        more = by_thread(self.running.pid)
        written = self._end() - end
        then = self.counts()
        own = processes[1:]  # the first waits for the others
        held = [one.memory_full_info() for one in own]
        return Window(
            cpu=cpu,
            brokers_cpu=brokers,
            seconds=seconds,
            verified=min(
                min(then.acked - counted.acked, then.seen - counted.seen) / (then.at - counted.at) * seconds,
                written * 1.01 + self.partitions,  # its clock is not that of the log
            ),
            written=written,
            skipped=then.skipped - counted.skipped,
            rss=sum(one.rss for one in held) / MIB,
            pss=sum(one.pss for one in held) / MIB,
            processes=len(own),
            threads=sum(one.num_threads() for one in own),
            by_thread={name: used - threads.get(name, 0) for name, used in more.items()},
        )

    def _end(self) -> int:
        places = {TopicPartition(self.topic, partition): OffsetSpec.latest() for partition in range(self.partitions)}
        admin = AdminClient({"bootstrap.servers": self.lab.bootstrap})
        return sum(future.result(30).offset for future in admin.list_offsets(places).values())

    def make_topic(self) -> None:
        """Make its topic, where it does not do so itself."""
        admin = AdminClient({"bootstrap.servers": self.lab.bootstrap})
        admin.create_topics([NewTopic(self.topic, self.partitions, 3)])[self.topic].result(30)


class Bare(Subject):
    """tests.benchmarks.probing_bare: says how far it is at once, and when it is asked."""

    _ready = False

    def command(self) -> list[str]:
        """Return what to run."""
        self.make_topic()
        given = [self.lab.bootstrap, self.topic, str(self.partitions), str(self.rate)]
        return [sys.executable, "-m", "tests.benchmarks.probing_bare", *given]

    def counts(self) -> Counts:
        """Ask it."""
        assert self.running.stdout
        if self._ready:
            family(self.running.pid)[-1].send_signal(signal.SIGUSR1)
        self._ready = True
        return Counts(**json.loads(self.running.stdout.readline()))


class Kminion(Subject):
    """kminion, with nothing but its end-to-end probing."""

    def command(self) -> list[str]:
        """Write its configuration; return what to run."""
        (self.port,) = free_ports(1)
        file = self.directory / "kminion.yaml"
        kminion.configure(file, self.lab.bootstrap, self.topic, self.partitions, self.interval_ms, self.port)
        return ["env", f"CONFIG_FILEPATH={file}", kminion.found() or ""]

    def counts(self) -> Counts:
        """Scrape it."""
        at = time.monotonic()
        try:
            found = kminion.scrape(self.port)
        except OSError:
            return Counts(at, 0, 0)
        acked = found["messages_produced_total"] - found["messages_produced_failed_total"]
        return Counts(at, acked, found["messages_received_total"])


class Canary(Subject):
    """``canary run``: what it is by default, with the interval and partitions that make the rate."""

    def command(self) -> list[str]:
        """Write its settings; return what to run."""
        cluster = {
            "name": "bench",
            "kafka": {"bootstrap.servers": self.lab.bootstrap},
            "topic": {"name": self.topic, "partitions": self.partitions},
            "modes": {"idempotent": {"interval": f"{self.interval_ms:.6f}ms"}},
        }
        file = self.directory / "canary.yaml"
        file.write_text(json.dumps({"clusters": [cluster], "runner": {"name": "bench"}}))
        return [sys.executable, "-m", "canary.cli", "--config", str(file), "run"]

    def counts(self) -> Counts:
        """Read the view that it has stored."""
        place = self.directory / "var/canary/store.db"
        if not place.exists():
            return Counts(time.monotonic(), 0, 0)
        with Store.connect(f"sqlite:///{place}", timeout=5) as store:
            try:
                view = store.views.get("bench", "bench")
            except Exception:  # noqa: BLE001  # its tables are not there yet
                view = None
        found: dict[str, float] = defaultdict(float)
        for name, labels, value, *_ in loads(view.view, view.at_ns).series() if view else ():
            if name != "canary_probes_seen_total" or labels[-1] == "read_committed":
                found[name] += value
        at = view.at_ns / 1e9 if view else time.time()
        skipped = found["canary_probes_skipped_total"]
        return Counts(at, found["canary_probes_acked_total"], found["canary_probes_seen_total"], skipped)


SUBJECTS: Final = {"bare": Bare, "kminion": Kminion, "canary": Canary}


def by_thread(pid: int) -> dict[str, float]:
    """Return the CPU seconds of each thread of a process tree, by its number and what the kernel calls it."""
    tasks = [task for process in family(pid)[1:] for task in Path(f"/proc/{process.pid}/task").iterdir()]
    return {
        f"{task.name} {(task / 'comm').read_text().strip()}": int((task / "schedstat").read_text().split()[0]) / 1e9
        for task in tasks
    }


def threads_told(windows: list[Window]) -> Iterator[str]:
    """Yield a line for each kind of thread: its share of the CPU, how many there are, and the busiest of them."""
    window = windows[-1]
    groups: defaultdict[str, list[float]] = defaultdict(list)
    for name, used in window.by_thread.items():
        groups[name.partition(" ")[2]].append(used)
    for name, parts in sorted(groups.items(), key=lambda one: -sum(one[1])):
        each = ", ".join(f"{one:.2f}" for one in sorted(parts, reverse=True)[:8])
        yield f"{name:16} {sum(parts) / window.seconds:7.2%} of a core, {len(parts):3} threads (CPU-s: {each})"


def run_once(lab: Lab, subject: str, setting: str, warm_s: float, window_s: float, *, named: bool = False) -> Window:
    """Measure one subject at one setting."""
    rate, partitions = (int(part) for part in setting.split("x"))
    with tempfile.TemporaryDirectory(prefix=f"{subject}-") as directory:
        one = SUBJECTS[subject](lab, Path(directory), partitions, rate, named=named)
        try:
            return one.measured(warm_s, window_s)
        finally:
            AdminClient({"bootstrap.servers": lab.bootstrap}).delete_topics([one.topic])[one.topic].exception(30)


def measure(
    rounds: int = 5,
    settings: str = ",".join([*MOST, "10000x30"]),
    subjects: str = ",".join(SUBJECTS),
    warm: float = 10.0,
    window: float = 30.0,
    *,
    threads: bool = False,
) -> Iterator[Figure]:
    """Measure the subjects at each setting, in turn."""
    chosen = [one for one in subjects.split(",") if one != "kminion" or kminion.found()]
    if "kminion" in subjects and "kminion" not in chosen:
        yield Figure("kminion", "left out: it is not here", 0)
    with (
        tempfile.TemporaryDirectory(prefix="lab-") as directory,
        Lab(directory, properties=BROKERS, die_with_parent=True) as lab,
    ):
        for setting in settings.split(","):
            found: dict[str, list[Window]] = {one: [] for one in chosen}
            for _ in range(rounds):
                for one, windows in found.items():
                    windows.append(run_once(lab, one, setting, warm, window, named=threads))
            yield from figures(setting, found)
            if threads and "canary" in found:
                sys.stderr.write("\n".join(threads_told(found["canary"])) + "\n")


def figures(setting: str, found: dict[str, list[Window]]) -> Iterator[Figure]:
    """Yield what is told of a setting."""
    rate, partitions = setting.split("x")
    place = f"{int(rate):,}/s x {partitions}"
    for one, windows in found.items():
        yield Figure.of(place, f"{one}: CPU per 1,000", (w.per_thousand for w in windows), "CPU-s")
        yield Figure.of(place, f"{one}: verified", (w.rate for w in windows), "/s")
        yield Figure.of(place, f"{one}: brokers", (w.brokers_cpu / w.seconds for w in windows), "cores")
        yield Figure.of(place, f"{one}: PSS", (w.pss for w in windows), "MiB")
    mine = found.get("canary", [])
    if mine:
        yield Figure.of(place, "canary: of the rate", (w.rate / int(rate) for w in mine), least=REACHED)
        yield Figure.of(place, "canary: skipped", (w.skipped for w in mine), "probes")
        yield Figure.of(place, "canary: RSS", (w.rss for w in mine), "MiB")
        yield Figure(place, f"canary: threads of {mine[-1].processes} processes", mine[-1].threads)
    for other, most in (("bare", MOST.get(setting)), ("kminion", 1.0 if setting in MOST else None)):
        if mine and found.get(other):
            ratios = (a.per_thousand / b.per_thousand for a, b in zip(mine, found[other], strict=True))
            yield Figure.of(place, f"canary / {other}, CPU", ratios, most=most)


if __name__ == "__main__":
    command(measure)
