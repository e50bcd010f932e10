"""The lab itself: one controller, n brokers, and everything that can be done to them."""

import contextlib
import shutil
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from typing import Self

import structlog

from canary.kafka import wire
from canary.lab import events, logs, process, state
from canary.lab.errors import LabError
from canary.lab.jars import cache
from canary.lab.jars.cache import Progress
from canary.lab.jars.pinned_jars import DEFAULT_VERSION
from canary.lab.site import NodeStatus, Site
from canary.lab.state import CONTROLLER, NodeProperties, Profile, State

_log = structlog.get_logger(__name__)

_POLL_S = 0.05


class Lab:
    """A Kafka cluster of real processes on this machine.

    Args:
        directory: of the lab; made if missing. One that was a lab before is started again with its data, its version
            (or a newer one), its nodes and its cluster id.
        brokers: how many, with ids 1..n. Ignored if the directory already is a lab.
        version: of Kafka.
        properties: override or add to those of the nodes.
        heap: of each process, as for -Xmx.
        profile: "calm" waits for a silent broker as long as production does, "quick" expels it within 3 s.
        features: feature levels to format the cluster with, such as {"eligible.leader.replicas.version": 0}.
        die_with_parent: kill (-9) every process of the lab when this Python process ends, however it ends.
    """

    def __init__(
        self,
        directory: Path | str,
        brokers: int = 3,
        *,
        version: str = DEFAULT_VERSION,
        properties: NodeProperties = NodeProperties(),  # noqa: B008  # frozen
        heap: str = "256m",
        profile: Profile = "calm",
        features: Mapping[str, int] | None = None,
        die_with_parent: bool = False,
    ) -> None:
        if brokers < 1:
            raise LabError("a lab needs at least one broker", 2)
        self.directory = Path(directory).absolute()
        wanted = State(
            version=version,
            cluster_id=state.random_id(),
            heap=heap,
            broker_properties=state.texts(properties.brokers),
            controller_properties=state.texts(properties.for_controller()),
            features=dict(features or {}),
            ports=dict.fromkeys([CONTROLLER, *range(1, brokers + 1)], 0),
            overrides={node: state.texts(values) for node, values in properties.single.items()},
            profile=profile,
        )
        self._site = Site(self.directory, wanted, die_with_parent)

    @classmethod
    def attach(cls, directory: Path | str) -> Self:
        """Return a handle of the lab in a directory, running or not, that another process may have started.

        Raises:
            LabError: there is none.
        """
        found = state.load(Path(directory).absolute())
        if found is None:
            raise LabError(f"no lab in {directory}; start one with: canary lab up --directory {directory}")
        lab = cls(directory)
        lab._site = Site(lab.directory, found, die_with_parent=False)
        return lab

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        self.stop()

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers, "127.0.0.1:p1,127.0.0.1:p2,..."."""
        now = self._site.state()
        return ",".join(f"127.0.0.1:{now.ports[node]}" for node in now.brokers)

    @property
    def version(self) -> str:
        """Of Kafka."""
        return self._site.state().version

    @property
    def cluster_id(self) -> str:
        """The id the cluster was formatted with."""
        return self._site.state().cluster_id

    @property
    def brokers(self) -> tuple[int, ...]:
        """Ids of all brokers, running or not."""
        return self._site.state().brokers

    def port(self, node: int) -> int:
        """Return the port of a broker (or of the controller)."""
        self._site.require_known(node)
        return self._site.state().ports[node]

    def alive(self) -> tuple[int, ...]:
        """Return the ids of brokers whose process exists, paused ones included."""
        return tuple(node for node in self.brokers if self._site.pid(node) is not None)

    def status(self) -> list[NodeStatus]:
        """Return every node's state, controller first."""
        return [self._site.status(node) for node in (CONTROLLER, *self.brokers)]

    def partition(self, topic: str, partition: int) -> wire.PartitionState:
        """Return leader, epoch, ISR and replicas of a partition as the brokers see it now.

        All running brokers are asked, and the answer with the highest leader epoch is taken (its leader's, if that one
        answers), because a broker that was just resumed serves what it knew before.

        Raises:
            LabError: no broker answers, or none knows the partition.
        """
        answers = {
            node: answer.partitions.get((topic, partition))
            for node in self._site.running()
            if (answer := wire.ask(self.port(node), (topic,))) is not None
        }
        known = [(found.leader_epoch, found.leader == node, found) for node, found in answers.items() if found]
        if not known:
            raise LabError(f"none of the answering brokers {sorted(answers)} knows {topic}-{partition}")
        return max(known, key=lambda entry: entry[:2])[2]

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the id of the leading broker, None if there is none; see partition()."""
        return self.partition(topic, partition).leader

    def end_offset(self, broker: int, topic: str, partition: int) -> int:
        """Return the end offset of a replica's log on disk (of what the broker has written so far)."""
        return logs.end_offset(self._site.data(broker), topic, partition)

    def events(self, since: float = 0.0) -> list[events.Event]:
        """Return what was done to the nodes, and when brokers were fenced or left an ISR, since a time (epoch s)."""
        return events.events(self.directory, since)

    def start(self, progress: Progress | None = None, *, timeout: float = 180.0) -> None:
        """Fetch the jars if need be, start every process, and return when the cluster is ready.

        Raises:
            LabError: it runs already, cannot be fetched, or is not ready ``timeout`` seconds after the fetch.
        """
        cache.java()
        self.directory.mkdir(parents=True, exist_ok=True)
        _report(progress, "preparing", 0)
        now = self._site.prepare(progress)
        try:
            with self._site.locked():
                self._site.format_controller(now)
                for node in (CONTROLLER, *now.brokers):
                    self._site.spawn(node)
            self.wait_ready(timeout, progress, including=now.brokers)
        except BaseException:  # Ctrl-C too: no half-started lab is left behind
            self.stop(hard=True)
            raise
        _log.info("lab_started", directory=str(self.directory), bootstrap=self.bootstrap, version=now.version)

    def stop(self, *, hard: bool = False) -> None:
        """Stop every process of the lab, brokers before the controller; fine when none runs.

        With ``hard``, or without a controller, they are killed (-9) at once, else after 15 s.
        """
        if state.load(self.directory) is None:
            return
        with self._site.locked():
            controller = self._site.pid(CONTROLLER)
            alone = controller is None or process.state(controller) != "running"  # brokers would wait for it
            for group in (self.brokers, (CONTROLLER,)):
                self._site.end(group, hard=hard or alone)
        _log.info("lab_stopped", directory=str(self.directory))

    def wait_ready(
        self, timeout: float = 180.0, progress: Progress | None = None, *, including: Iterable[int] = ()
    ) -> None:
        """Wait until every running broker, those ``including``, and the controller say that all of them are in.

        Raises:
            LabError: one has ended meanwhile, or ``timeout`` seconds are over.
        """
        expected = {*self._site.running(), *including}

        def ready() -> bool:
            for node in expected:
                if self._site.pid(node) is None:
                    raise LabError(f"broker {node} has ended while starting: {self._site.last_words(node)}")
            if self._site.pid(CONTROLLER) is None:
                raise LabError(f"the controller has ended: {self._site.last_words(CONTROLLER)}")
            answers = [wire.ask(self.port(node)) for node in sorted(expected)]
            up = sum(1 for answer in answers if answer is not None and expected <= answer.brokers)
            if expected and up == len(expected):  # a broker that was frozen may have been fenced without knowing it
                up = len(wire.unfenced(self.port(min(expected)), expected))
            _report(progress, "starting brokers", up, len(expected))
            return up == len(expected)

        _wait(ready, timeout, f"brokers {sorted(expected)} are not all in the cluster")

    def kill(self, node: int) -> None:
        """Kill -9 a broker (or the controller) and return when it is gone; fine when it is gone already."""
        self._site.require_known(node)
        self._site.end((node,), hard=True)

    def pause(self, node: int) -> None:
        """Freeze a process (SIGSTOP): connections stay open and nothing answers on them."""
        pid = self._site.require_pid(node)
        events.note(self.directory, "paused", (node,))
        process.send(pid, SIGSTOP)
        _wait(lambda: process.state(pid) != "running", 5.0, f"node {node} does not stop")

    def resume(self, node: int) -> None:
        """Let a frozen process go on (SIGCONT); fine when it was not frozen."""
        pid = self._site.require_pid(node)
        process.send(pid, SIGCONT)
        events.note(self.directory, "resumed", (node,))

    def restart(self, node: int, *, hard: bool = False, timeout: float = 180.0) -> None:
        """Stop a process if it runs, start it, and wait until it is back in the cluster; see start_broker()."""
        self._site.require_known(node)
        self._site.end((node,), hard=hard)
        if node == CONTROLLER:
            self._site.spawn(node)
            self.wait_ready(timeout)
        else:
            self.start_broker(node, timeout=timeout)

    def start_broker(self, broker: int, *, timeout: float = 180.0) -> None:
        """Start a broker that was killed or stopped, with the same port and data.

        A ``timeout`` of 0 returns before the broker is in the cluster: with the controller paused it cannot register.

        Raises:
            LabError: it runs already, ends at once, or does not come up in time.
        """
        self._site.require_known(broker)
        if self._site.pid(broker) is not None:
            raise LabError(f"broker {broker} is running; kill or stop it first")
        self._site.spawn(broker)
        if timeout:
            self.wait_ready(timeout, including=(broker,))

    def stop_broker(self, broker: int) -> None:
        """Stop a broker in good order (SIGTERM), so that it leaves a clean log behind."""
        self._site.require_known(broker)
        self._site.end((broker,), hard=False)

    def truncate(
        self,
        broker: int,
        topic: str,
        partition: int,
        *,
        bytes: int | None = None,  # noqa: A002  # what is cut, in the caller's words
        to_offset: int | None = None,
    ) -> logs.Cut:
        """Cut the end off a stopped broker's log on disk, as a crash without fsync does; see canary.lab.logs.

        Either so many ``bytes``, or ``to_offset``: this offset and all behind it (whole batches).

        Raises:
            LabError: the broker runs, or holds no such replica.
        """
        self._site.require_known(broker)
        if self._site.pid(broker) is not None:
            raise LabError(f"broker {broker} is running; kill it before its logs are cut")
        events.note(self.directory, "cut", (broker,))
        cut = logs.truncate(self._site.data(broker), topic, partition, count=bytes, to_offset=to_offset)
        _log.info("log_truncated", broker=broker, topic=topic, partition=partition, before=cut.before, after=cut.after)
        return cut

    def wait_isr(self, topic: str, partition: int, isr: set[int] | frozenset[int], timeout: float = 90.0) -> None:
        """Wait until the in-sync replicas of a partition are exactly these brokers.

        Raises:
            LabError: the time is up; names them.
        """
        seen: list[wire.PartitionState] = []

        def reached() -> bool:
            with contextlib.suppress(LabError):  # no broker answers just now
                seen[:] = [self.partition(topic, partition)]
                return seen[0].isr == isr
            return False

        _wait(reached, timeout, lambda: f"ISR of {topic}-{partition} is not {sorted(isr)} but {seen}")

    def add_broker(self, broker_properties: Mapping[str, object] | None = None, *, timeout: float = 180.0) -> int:
        """Add a broker to the running lab and return its id, one more than the highest so far."""
        with self._site.locked():
            now = self._site.state()
            node = max(now.brokers) + 1
            (port,) = state.free_ports(1, avoid=now.ports.values())
            now = replace(
                now,
                ports={**now.ports, node: port},
                overrides={**now.overrides, node: state.texts(broker_properties or {})},
            )
            state.save(self.directory, now)
            self._site.configure(now, node)
            self._site.spawn(node)
        self.wait_ready(timeout, including=(node,))
        return node

    def remove_broker(self, broker: int) -> None:
        """Stop a broker, unregister it, and delete its data; replicas that were assigned to it stay assigned.

        Raises:
            LabError: it is the last one, or the cluster does not take the unregistration.
        """
        self._site.require_known(broker)
        if self.brokers == (broker,):
            raise LabError("the last broker cannot be removed; stop the lab instead")
        self._site.end((broker,), hard=False)
        others = self._site.running()
        if others and not any(wire.unregister(self.port(node), broker) for node in others):
            raise LabError(f"no broker of {others} would unregister broker {broker}; is the controller running?")
        with self._site.locked():
            now = self._site.state()
            ports = {node: port for node, port in now.ports.items() if node != broker}
            overrides = {node: values for node, values in now.overrides.items() if node != broker}
            state.save(self.directory, replace(now, ports=ports, overrides=overrides))
            shutil.rmtree(self._site.home(broker))


def _report(progress: Progress | None, what: str, done: int, total: int = 1) -> None:
    if progress is not None:
        progress(what, done, total)


def _wait(reached: Callable[[], bool], timeout: float, complaint: str | Callable[[], str]) -> None:
    deadline = time.monotonic() + timeout
    while not reached():
        if time.monotonic() > deadline:
            raise LabError(f"{complaint() if callable(complaint) else complaint} after {timeout:.0f} s")
        time.sleep(_POLL_S)  # a cluster's state raises no event here; asking is cheap
