"""A lab's directory: the files of each node, and how its process is started and ended."""

import contextlib
import fcntl
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGTERM

import structlog

from canary.lab import events, process, properties
from canary.lab.errors import LabError
from canary.lab.jars import cache, classes
from canary.lab.jars.cache import Progress
from canary.lab.process import ProcessFile
from canary.lab.state import CONTROLLER, State, load, random_id, save, texts

_log = structlog.get_logger(__name__)

_STOP_S = 15.0
_KAFKA = "kafka.Kafka"
_ZOOKEEPER = "org.apache.zookeeper.server.quorum.QuorumPeerMain"


@dataclass(frozen=True, slots=True)
class NodeStatus:
    """One process of a lab, which is "running", "paused" or "stopped"; then ``pid`` is None, and ``resident_bytes`` 0.

    ``role`` is "broker", "controller" or "zookeeper", ``port`` is on 127.0.0.1.
    """

    node: int
    role: str
    state: str
    pid: int | None
    port: int
    resident_bytes: int


@dataclass(frozen=True, slots=True)
class Site:
    """A lab's directory (absolute); ``wanted`` is the state to begin with, where there is none yet.

    ``die_with_parent``: kill the processes started from here when this Python process ends.
    """

    directory: Path
    wanted: State
    die_with_parent: bool

    def state(self) -> State:
        """Read afresh each time: another process may have added a broker."""
        return load(self.directory) or self.wanted

    def require_known(self, node: int) -> None:
        """Raise LabError if there is no such node."""
        if node not in self.state().ports:
            raise LabError(
                f"there is no node {node}; brokers are {list(self.state().brokers)}, "
                f"controllers {list(self.state().controllers)}"
            )

    def require_broker(self, node: int) -> None:
        """Raise LabError if there is no such broker."""
        if node not in (brokers := self.state().brokers):
            raise LabError(f"there is no broker {node}; there are {list(brokers)}")

    def require_stopped(self, node: int, what: str) -> None:
        """Raise LabError if a node runs, as it must not when ``what`` is done."""
        self.require_known(node)
        if self.pid(node) is not None:
            raise LabError(
                f"node {node} is running; kill it before {what}: canary lab kill {node} --directory {self.directory}"
            )

    def require_proxied(self) -> None:
        """Raise LabError if nothing is between the nodes."""
        if not self.state().proxied:
            place = f"--directory {self.directory}"
            raise LabError(
                f"the lab in {self.directory} has no proxy between its nodes; start it with one: "
                f"canary lab down {place} && canary lab up --proxied {place}"
            )

    def home(self, node: int) -> Path:
        """Return the directory of one node."""
        return self.directory / (
            f"broker-{node}" if node < CONTROLLER else "controller" if node == CONTROLLER else f"controller-{node}"
        )

    def data(self, node: int) -> Path:
        """Return a node's log directory."""
        return self.home(node) / "data"

    def cluster_id_of(self, broker: int) -> str:
        """Return the cluster id in a broker's data; "" before its first start."""
        meta = self.data(broker) / "meta.properties"
        lines = meta.read_text().splitlines() if meta.exists() else []
        return next((line.partition("=")[2] for line in lines if line.startswith("cluster.id=")), "")

    def file(self, node: int) -> ProcessFile:
        """Return a node's pid file."""
        home = self.home(node)
        return ProcessFile(home / "pid", marker=str(home / "server.properties"))

    def pid(self, node: int) -> int | None:
        """Return the pid of a node's process, paused or not; None when it does not run."""
        return self.file(node).find()

    def status(self, node: int) -> NodeStatus:
        """Return the state of a node's process."""
        now, pid = self.state(), self.pid(node)
        role = "broker" if node < CONTROLLER else "zookeeper" if now.zookeeper else "controller"
        condition = process.state(pid) if pid is not None else "stopped"
        memory = process.resident_bytes(pid) if pid is not None else 0
        return NodeStatus(node, role, condition, pid, now.ports[node], memory)

    def require_pid(self, node: int) -> int:
        """Return the pid of a node that has to run; LabError if it does not."""
        self.require_known(node)
        pid = self.pid(node)
        if pid is None:
            raise LabError(f"node {node} is not running")
        return pid

    def running(self, nodes: Iterable[int] | None = None) -> list[int]:
        """Return those of some nodes, or of all brokers, whose process runs and is not paused."""
        pids = {node: self.pid(node) for node in (self.state().brokers if nodes is None else nodes)}
        return [node for node, pid in pids.items() if pid is not None and process.state(pid) == "running"]

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from starting, stopping or changing the same lab meanwhile."""
        with (self.directory / "lab.lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def prepare(self, progress: Progress | None) -> State:
        """Choose ports, write every file that the processes read, and return the state."""
        with self.locked():
            before = load(self.directory)
            now = self.wanted
            if before is not None:
                wanted = {node: now.version_of(node) for node in before.ports}
                now = replace(before.upgraded(wanted), heap=now.heap, proxied=now.proxied)
                if running := [node for node in now.ports if self.pid(node) is not None]:
                    raise LabError(
                        f"the lab in {self.directory} is running (nodes {running}); use it, or stop it with: "
                        f"canary lab down --directory {self.directory}"
                    )
            for version in {now.version_of(node) for node in now.ports}:
                cache.fetch(version, progress)
            now = now.with_free_ports()
            save(self.directory, now)
            for node in now.ports:
                self.configure(now, node)
            return now

    def configure(self, now: State, node: int) -> None:
        """Write every file that a node reads when it starts."""
        home, data = self.home(node), self.data(node)
        data.mkdir(parents=True, exist_ok=True)
        meta = data / "meta.properties"
        if node < CONTROLLER and not now.zookeeper and not meta.exists():
            # as StorageTool does for a broker, without starting a JVM for each
            ids = {"version": 1, "cluster.id": now.cluster_id, "node.id": node, "directory.id": random_id()}
            meta.write_text(properties.render(texts(ids)))
        settings = properties.server_properties(now, node, data)
        (home / "server.properties").write_text(properties.render(settings))
        for name, text in properties.logging_files(home).items():
            (home / name).write_text(text)

    def format_controller(self, now: State, node: int) -> None:
        """Write a controller's first metadata with StorageTool, which knows a version's default features."""
        if now.zookeeper or (self.data(node) / "meta.properties").exists():
            return
        config = str(self.home(node) / "server.properties")
        options = ["format", "-t", now.cluster_id, "-c", config]
        command = [*self.java_command(now, node), "kafka.tools.StorageTool", *options]
        for name, level in now.features.items():
            command += ["--feature", f"{name}={level}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # the command is ours
        if done.returncode != 0:
            raise LabError(f"formatting controller {node} failed: {(done.stderr or done.stdout).strip()[-800:]}")

    def java_command(self, now: State, node: int, *, leaves_classes: bool = False) -> list[str]:
        """Return the command line up to the main class; ``leaves_classes``: the JVM archives its classes at its end."""
        lib, java = cache.fetch(now.version_of(node)), cache.java()
        flags = [*properties.JVM_FLAGS, *properties.logging_flags(self.home(node)), *classes.flags(lib, java)]
        if leaves_classes:
            flags += classes.writing(lib, java, self.home(node))
        unpacked = f"-Djava.io.tmpdir={self.home(node)}"  # codecs: /tmp may be mounted without the right to execute
        return [java, f"-Xmx{now.heap}", unpacked, *flags, "-cp", f"{lib}/*"]

    def upgrade(self, node: int, version: str | None) -> None:
        """Have a node run another version of Kafka from its next start on; None: the one that it ran."""
        if version is None:
            return
        with self.locked():
            now = self.state().upgraded({node: version})
            cache.fetch(version)
            save(self.directory, now)

    def spawn(self, node: int, environment: Mapping[str, str] | None = None) -> None:
        """Start a node's process, with these variables added to its environment, and write its pid file."""
        home, now = self.home(node), self.state()
        start = self.java_command(now, node, leaves_classes=node == now.brokers[0])
        program = _ZOOKEEPER if now.zookeeper and node >= CONTROLLER else _KAFKA
        command = [*start, program, str(home / "server.properties")]
        console = home / "console.log"
        events.note(self.directory, "started", (node,))
        pid = process.spawn(
            command, cwd=home, console=console, die_with_parent=self.die_with_parent, environment=environment
        )
        self.file(node).write(pid)

    def end(self, nodes: tuple[int, ...], *, hard: bool) -> None:
        """Stop several processes at once."""
        now = self.state()
        pids = {node: pid for node in nodes if (pid := self.pid(node)) is not None}
        events.note(self.directory, "killed" if hard else "stopped", pids)
        for pid in pids.values():
            process.send(pid, SIGKILL if hard else SIGTERM)
            process.send(pid, SIGCONT)  # a paused process would never see SIGTERM
        deadline = time.monotonic() + _STOP_S
        for node, pid in pids.items():
            if process.wait_for_end(pid, max(0.0, deadline - time.monotonic())):
                version = now.version_of(node)
                if not hard and cache.is_fetched(version):  # stopping a lab does not download Kafka
                    classes.keep(cache.fetch(version), cache.java(), self.home(node))
            else:
                _log.warning("node_killed", node=node, reason=f"did not stop within {_STOP_S:.0f} s")
                process.send(pid, SIGKILL)
                process.wait_for_end(pid, _STOP_S)
            self.file(node).path.unlink(missing_ok=True)

    def last_words(self, node: int) -> str:
        """Return the end of what a node logged, for an error message."""
        lines: list[str] = []
        for name in ("server.log", "console.log"):
            with contextlib.suppress(FileNotFoundError):
                logged = (self.home(node) / name).read_text(errors="replace").splitlines()
                lines += [line[:300] for line in logged if line.strip() and not line.startswith("\tat ")][-6:]
        return f"{' | '.join(lines) or 'it logged nothing'} (logs in {self.home(node)})"
