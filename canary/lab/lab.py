"""The lab itself: one controller, n brokers, and everything that can be done to them."""

import contextlib
import fcntl
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM
from types import TracebackType
from typing import Self

import structlog

from canary.lab import jars, logs, process, properties, state, wire
from canary.lab.errors import LabError
from canary.lab.process import ProcessFile
from canary.lab.state import CONTROLLER, State

_log = structlog.get_logger(__name__)

_POLL_S = 0.05
_STOP_S = 15.0


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One process of a lab.

    Attributes:
        node: id; CONTROLLER for the controller.
        role: "broker" or "controller".
        state: "running", "paused" or "stopped".
        pid: None when stopped.
        port: on 127.0.0.1.
        resident_bytes: memory; 0 when stopped.
    """

    node: int
    role: str
    state: str
    pid: int | None
    port: int
    resident_bytes: int


class Lab:
    """A Kafka cluster of real processes on this machine.

    Args:
        directory: of the lab; made if missing. One that was a lab before is started again with its data, its version
            (or a newer one), its nodes and its cluster id.
        brokers: how many, with ids 1..n. Ignored if the directory already is a lab.
        version: of Kafka.
        broker_properties: override or add to those of every broker.
        controller_properties: override or add to the controller's.
        heap: of each process, as for -Xmx.
        broker_overrides: properties of single brokers, by id, such as {1: {"broker.rack": "a"}}; they win.
        features: feature levels to format the cluster with, such as {"eligible.leader.replicas.version": 0}.
        die_with_parent: kill (-9) every process of the lab when this Python process ends, however it ends.
    """

    def __init__(
        self,
        directory: Path | str,
        brokers: int = 3,
        version: str = jars.DEFAULT_VERSION,
        broker_properties: Mapping[str, object] | None = None,
        controller_properties: Mapping[str, object] | None = None,
        heap: str = "256m",
        *,
        broker_overrides: Mapping[int, Mapping[str, object]] | None = None,
        features: Mapping[str, int] | None = None,
        die_with_parent: bool = False,
    ) -> None:
        if brokers < 1:
            raise LabError("a lab needs at least one broker", 2)
        self.directory = Path(directory).absolute()
        self._die_with_parent = die_with_parent
        self._wanted = State(
            version=version,
            cluster_id=state.random_id(),
            heap=heap,
            broker_properties=state.texts(broker_properties or {}),
            controller_properties=state.texts(controller_properties or {}),
            features=dict(features or {}),
            ports=dict.fromkeys([CONTROLLER, *range(1, brokers + 1)], 0),
            overrides={node: state.texts(values) for node, values in (broker_overrides or {}).items()},
        )

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
        lab._wanted = found
        return lab

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # What it is

    @property
    def bootstrap(self) -> str:
        """Addresses of all brokers, "127.0.0.1:p1,127.0.0.1:p2,..."."""
        now = self._state()
        return ",".join(f"127.0.0.1:{now.ports[node]}" for node in now.brokers)

    @property
    def version(self) -> str:
        """Of Kafka."""
        return self._state().version

    @property
    def cluster_id(self) -> str:
        """The id the cluster was formatted with."""
        return self._state().cluster_id

    @property
    def brokers(self) -> tuple[int, ...]:
        """Ids of all brokers, running or not."""
        return self._state().brokers

    def port(self, node: int) -> int:
        """Return the port of a broker (or of the controller)."""
        self._known(node)
        return self._state().ports[node]

    def alive(self) -> tuple[int, ...]:
        """Return the ids of brokers whose process exists, paused ones included."""
        return tuple(node for node in self.brokers if self._pid(node) is not None)

    def status(self) -> list[NodeStatus]:
        """Return every node's state, controller first."""
        now = self._state()
        found = []
        for node in (CONTROLLER, *now.brokers):
            pid = self._pid(node)
            role = "controller" if node == CONTROLLER else "broker"
            condition = process.state(pid) if pid is not None else "stopped"
            memory = process.resident_bytes(pid) if pid is not None else 0
            found.append(NodeStatus(node, role, condition, pid, now.ports[node], memory))
        return found

    def partition(self, topic: str, partition: int) -> wire.PartitionState:
        """Return leader, epoch, ISR and replicas of a partition as the brokers see it now.

        All running brokers are asked, and the answer with the highest leader epoch is taken (its leader's, if that one
        answers), because one that was just resumed serves what it knew before.

        Raises:
            LabError: no broker answers, or none knows the partition.
        """
        answers = {
            node: answer.partitions.get((topic, partition))
            for node in self._running()
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
        return logs.end_offset(self._data(broker), topic, partition)

    # Starting and stopping

    def start(self, progress: jars.Progress | None = None, *, timeout: float = 90.0) -> None:
        """Fetch the jars if need be, start every process, and return when the cluster is ready.

        Args:
            progress: told what is being fetched and started.
            timeout: seconds until the brokers must have come up, not counting the fetch.

        Raises:
            LabError: it runs already, cannot be fetched, or does not come up.
        """
        jars.java()
        self.directory.mkdir(parents=True, exist_ok=True)
        self._say(progress, "preparing", 0)
        now = self._prepare(progress)
        try:
            with self._locked():
                self._format_controller(now)
                for node in (CONTROLLER, *now.brokers):
                    self._spawn(node)
            self.wait_ready(timeout, progress)
        except BaseException:  # Ctrl-C too: nothing that was started half stays behind
            self.stop(hard=True)
            raise
        _log.info("lab_started", directory=str(self.directory), bootstrap=self.bootstrap, version=now.version)

    def stop(self, *, hard: bool = False) -> None:
        """Stop every process of the lab, brokers before the controller; fine when none runs.

        Args:
            hard: kill -9 at once instead of asking first and killing after 15 s.
        """
        if state.load(self.directory) is None:
            return
        with self._locked():
            for group in (self.brokers, (CONTROLLER,)):
                self._end(group, hard=hard)
        _log.info("lab_stopped", directory=str(self.directory))

    def wait_ready(self, timeout: float = 60.0, progress: jars.Progress | None = None) -> None:
        """Wait until every running broker says that all running brokers are in the cluster.

        Raises:
            LabError: one has ended meanwhile, or the time is up.
        """
        expected = set(self._running())
        pids = {node: self._pid(node) for node in expected}

        def ready() -> bool:
            for node in expected:
                if self._pid(node) != pids[node]:
                    raise LabError(f"broker {node} has ended while starting: {self._last_words(node)}")
            if self._pid(CONTROLLER) is None:
                raise LabError(f"the controller has ended: {self._last_words(CONTROLLER)}")
            answers = [wire.ask(self.port(node)) for node in sorted(expected)]
            up = sum(1 for answer in answers if answer is not None and expected <= answer.brokers)
            self._say(progress, "starting brokers", up, len(expected))
            return up == len(expected)

        self._wait(ready, timeout, f"brokers {sorted(expected)} have not all registered")

    # Faults, and their end

    def kill(self, node: int) -> None:
        """Kill -9 a broker (or the controller) and return when it is gone; fine when it is gone already."""
        self._known(node)
        self._end((node,), hard=True)

    def pause(self, node: int) -> None:
        """Stop a process where it stands (SIGSTOP): connections stay open and nobody answers."""
        pid = self._need(node)
        process.send(pid, SIGSTOP)
        self._wait(lambda: process.state(pid) != "running", 5.0, f"node {node} does not stop")

    def resume(self, node: int) -> None:
        """Let a paused process go on (SIGCONT); fine when it was not paused."""
        process.send(self._need(node), SIGCONT)

    def restart(self, node: int, *, hard: bool = False, timeout: float = 60.0) -> None:
        """Stop a process if it runs, start it, and wait until it is back in the cluster; see start_broker()."""
        self._known(node)
        self._end((node,), hard=hard)
        if node == CONTROLLER:
            self._spawn(node)
            self.wait_ready(timeout)
        else:
            self.start_broker(node, timeout=timeout)

    def start_broker(self, broker: int, *, timeout: float = 60.0) -> None:
        """Start a broker that was killed or stopped, with the same port and data.

        Args:
            broker: its id.
            timeout: seconds it may take until the cluster counts it in; 0 returns without waiting for that (with the
                controller paused it cannot register).

        Raises:
            LabError: it runs already, ends at once, or does not come up in time.
        """
        self._known(broker)
        if self._pid(broker) is not None:
            raise LabError(f"broker {broker} is running; kill or stop it first")
        self._spawn(broker)
        if timeout:
            self.wait_ready(timeout)

    def stop_broker(self, broker: int) -> None:
        """Stop a broker in good order (SIGTERM), so that it leaves a clean log behind."""
        self._known(broker)
        self._end((broker,), hard=False)

    def truncate(
        self,
        broker: int,
        topic: str,
        partition: int,
        *,
        bytes: int | None = None,  # noqa: A002  # what is cut, in the caller's words
        to_offset: int | None = None,
    ) -> logs.Cut:
        """Cut the end off a replica's log on disk, as a crash without fsync does; see canary.lab.logs.

        Args:
            broker: whose replica; it must not run.
            topic: whose log.
            partition: which.
            bytes: how many to cut from the end.
            to_offset: or: remove this offset and all behind it (whole batches).

        Returns:
            The end offset before and after.

        Raises:
            LabError: the broker runs, or holds no such replica.
        """
        self._known(broker)
        if self._pid(broker) is not None:
            raise LabError(f"broker {broker} is running; kill it before its logs are cut")
        cut = logs.truncate(self._data(broker), topic, partition, count=bytes, to_offset=to_offset)
        _log.info("log_truncated", broker=broker, topic=topic, partition=partition, before=cut.before, after=cut.after)
        return cut

    def wait_isr(self, topic: str, partition: int, isr: set[int] | frozenset[int], timeout: float = 30.0) -> None:
        """Wait until the in-sync replicas of a partition are exactly these brokers.

        Raises:
            LabError: the time is up; says what they are.
        """
        seen: list[object] = []

        def reached() -> bool:
            with contextlib.suppress(LabError):  # nobody answers just now
                seen[:] = [self.partition(topic, partition)]
                return bool(seen) and self.partition(topic, partition).isr == isr
            return False

        self._wait(reached, timeout, lambda: f"ISR of {topic}-{partition} is not {sorted(isr)} but {seen}")

    # Growing and shrinking

    def add_broker(self, broker_properties: Mapping[str, object] | None = None, *, timeout: float = 60.0) -> int:
        """Add a broker to the running lab and return its id, one more than the highest so far."""
        with self._locked():
            now = self._state()
            node = max(now.brokers) + 1
            (port,) = state.free_ports(1, avoid=now.ports.values())
            now = replace(
                now,
                ports={**now.ports, node: port},
                overrides={**now.overrides, node: state.texts(broker_properties or {})},
            )
            state.save(self.directory, now)
            self._configure(now, node)
            self._spawn(node)
        self.wait_ready(timeout)
        return node

    def remove_broker(self, broker: int) -> None:
        """Stop a broker, unregister it, and delete its data; replicas that were assigned to it stay assigned.

        Raises:
            LabError: it is the last one, or the cluster does not take the unregistration.
        """
        self._known(broker)
        if self.brokers == (broker,):
            raise LabError("the last broker cannot be removed; stop the lab instead")
        self._end((broker,), hard=False)
        others = self._running()
        if others and not any(wire.unregister(self.port(node), broker) for node in others):
            raise LabError(f"no broker of {others} would unregister broker {broker}; is the controller running?")
        with self._locked():
            now = self._state()
            ports = {node: port for node, port in now.ports.items() if node != broker}
            overrides = {node: values for node, values in now.overrides.items() if node != broker}
            state.save(self.directory, replace(now, ports=ports, overrides=overrides))
            shutil.rmtree(self._home(broker))

    # Inner workings

    def _state(self) -> State:
        """Read afresh each time: another process may have added a broker."""
        return state.load(self.directory) or self._wanted

    def _known(self, node: int) -> None:
        if node not in self._state().ports:
            raise LabError(f"there is no node {node}; brokers are {list(self.brokers)}, the controller is {CONTROLLER}")

    def _home(self, node: int) -> Path:
        return self.directory / ("controller" if node == CONTROLLER else f"broker-{node}")

    def _data(self, node: int) -> Path:
        return self._home(node) / "data"

    def _file(self, node: int) -> ProcessFile:
        home = self._home(node)
        return ProcessFile(home / "pid", marker=str(home / "server.properties"))

    def _pid(self, node: int) -> int | None:
        return self._file(node).find()

    def _need(self, node: int) -> int:
        self._known(node)
        pid = self._pid(node)
        if pid is None:
            raise LabError(f"node {node} is not running")
        return pid

    def _running(self) -> list[int]:
        pids = {node: self._pid(node) for node in self.brokers}
        return [node for node, pid in pids.items() if pid is not None and process.state(pid) == "running"]

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Exclude others who start, stop or change the same lab."""
        with (self.directory / "lab.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _prepare(self, progress: jars.Progress | None) -> State:
        """Settle state and ports, write every file the processes read, and return the state."""
        with self._locked():
            before = state.load(self.directory)
            now = self._wanted
            if before is not None:
                if jars.version_tuple(now.version) < jars.version_tuple(before.version):
                    raise LabError(f"{self.directory} holds data of Kafka {before.version}, newer than {now.version}")
                now = replace(before, version=now.version, heap=now.heap)
                if running := [node for node in now.ports if self._pid(node) is not None]:
                    raise LabError(
                        f"the lab in {self.directory} is running (nodes {running}); use it, or stop it with: "
                        f"canary lab down --directory {self.directory}"
                    )
            jars.fetch(now.version, progress)
            ports = dict(zip(now.ports, state.free_ports(len(now.ports), wanted=filter(None, now.ports.values())), strict=True))
            now = replace(now, ports=ports)
            state.save(self.directory, now)
            for node in now.ports:
                self._configure(now, node)
            return now

    def _configure(self, now: State, node: int) -> None:
        home, data = self._home(node), self._data(node)
        data.mkdir(parents=True, exist_ok=True)
        if node == CONTROLLER:
            settings = properties.controller_properties(
                node=node, port=now.ports[node], data=data, overrides=now.controller_properties
            )
        else:
            settings = properties.broker_properties(
                node=node,
                port=now.ports[node],
                controller=(CONTROLLER, now.ports[CONTROLLER]),
                data=data,
                brokers=len(now.brokers),
                overrides={**now.broker_properties, **now.overrides.get(node, {})},
            )
            meta = data / "meta.properties"
            if not meta.exists():  # what StorageTool would write for a broker, without a JVM's start for each
                ids = {"version": 1, "cluster.id": now.cluster_id, "node.id": node, "directory.id": state.random_id()}
                meta.write_text(properties.render(state.texts(ids)))
        (home / "server.properties").write_text(properties.render(settings))
        for name, text in properties.logging_files(home).items():
            (home / name).write_text(text)

    def _format_controller(self, now: State) -> None:
        """Write the controller's first metadata; only StorageTool knows a version's default features."""
        if (self._data(CONTROLLER) / "meta.properties").exists():
            return
        config = str(self._home(CONTROLLER) / "server.properties")
        command = [
            *self._java(now, CONTROLLER),
            "kafka.tools.StorageTool",
            "format",
            "-t",
            now.cluster_id,
            "-c",
            config,
        ]
        for name, level in now.features.items():
            command += ["--feature", f"{name}={level}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # the command is ours
        if done.returncode != 0:
            raise LabError(f"formatting the controller failed: {(done.stderr or done.stdout).strip()[-800:]}")

    def _java(self, now: State, node: int) -> list[str]:
        lib = jars.fetch(now.version)
        flags = [*properties.JVM_FLAGS, *properties.logging_flags(self._home(node))]
        return [jars.java(), f"-Xmx{now.heap}", *flags, "-cp", f"{lib}/*"]

    def _spawn(self, node: int) -> None:
        home = self._home(node)
        command = [*self._java(self._state(), node), "kafka.Kafka", str(home / "server.properties")]
        console = home / "console.log"
        pid = process.spawn(command, cwd=home, console=console, die_with_parent=self._die_with_parent)
        self._file(node).write(pid)

    def _end(self, nodes: tuple[int, ...], *, hard: bool) -> None:
        """Stop several processes at once."""
        pids = {node: pid for node in nodes if (pid := self._pid(node)) is not None}
        for pid in pids.values():
            process.send(pid, SIGKILL if hard else SIGTERM)
            process.send(pid, SIGCONT)  # a paused process would never see SIGTERM
        deadline = time.monotonic() + _STOP_S
        for node, pid in pids.items():
            if not process.wait_for_end(pid, max(0.0, deadline - time.monotonic())):
                _log.warning("node_killed", node=node, reason=f"did not stop within {_STOP_S:.0f} s")
                process.send(pid, SIGKILL)
                process.wait_for_end(pid, _STOP_S)
            self._file(node).forget()

    def _last_words(self, node: int) -> str:
        lines: list[str] = []
        for name in ("server.log", "console.log"):
            with contextlib.suppress(FileNotFoundError):
                lines += (self._home(node) / name).read_text(errors="replace").splitlines()[-6:]
        return f"{' | '.join(lines) or 'it said nothing'} (logs in {self._home(node)})"

    @staticmethod
    def _say(progress: jars.Progress | None, what: str, done: int, total: int = 1) -> None:
        if progress is not None:
            progress(what, done, total)

    @staticmethod
    def _wait(reached: Callable[[], bool], timeout: float, complaint: str | Callable[[], str]) -> None:
        deadline = time.monotonic() + timeout
        while not reached():
            if time.monotonic() > deadline:
                raise LabError(f"{complaint() if callable(complaint) else complaint} after {timeout:.0f} s")
            time.sleep(_POLL_S)  # a cluster's state raises no event here; asking is cheap
