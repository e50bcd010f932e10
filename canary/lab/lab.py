"""The lab itself: controllers, brokers, and everything that can be done to them."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from typing import Self

import structlog

from canary.lab import events, process, state
from canary.lab.cluster import report, wait
from canary.lab.damage import Damageable
from canary.lab.errors import LabError
from canary.lab.jars import cache
from canary.lab.jars.cache import Progress
from canary.lab.jars.pinned_jars import DEFAULT_VERSION, version_tuple
from canary.lab.proxy import control
from canary.lab.proxy.faults import Fault, impaired
from canary.lab.site import Site
from canary.lab.state import CONTROLLER, NodeProperties, Profile, State
from canary.wire import broker_view

_log = structlog.get_logger(__name__)


class Lab(Damageable):
    """A Kafka cluster of real processes on this machine.

    Args:
        directory: of the lab; made if missing. One that was a lab before is started again with its data, its version
            (or a newer one), its nodes and its cluster id.
        brokers: how many, with ids 1..n. Ignored if the directory already is a lab, as are ``controllers``.
        controllers: how many, with ids from CONTROLLER on; one of three may fail.
        version: of Kafka.
        properties: override or add to those of the nodes.
        heap: of each process, as for -Xmx.
        profile: "calm" waits for a silent broker as long as production does, "quick" expels it within 3 s.
        features: feature levels to format the cluster with, such as {"eligible.leader.replicas.version": 0}.
        zookeeper: node CONTROLLER is ZooKeeper, which Kafka before 4.0 can do without KRaft with.
        ports: at which nodes are reached, by their ids, where these are free; others choose.
        proxied: start it with a proxy that all connections come by, so that the network can fail; see nemesis().
        die_with_parent: kill (-9) every process of the lab when this Python process ends, however it ends.
    """

    def __init__(  # noqa: PLR0913  # each says one thing of the cluster, by name
        self,
        directory: Path | str,
        brokers: int = 3,
        *,
        controllers: int = 1,
        version: str = DEFAULT_VERSION,
        properties: NodeProperties = NodeProperties(),  # noqa: B008  # frozen
        heap: str = "256m",
        profile: Profile = "calm",
        features: Mapping[str, int] | None = None,
        zookeeper: bool = False,
        ports: Mapping[int, int] | None = None,
        proxied: bool = False,
        die_with_parent: bool = False,
    ) -> None:
        if brokers < 1 or controllers < 1:
            raise LabError("a lab needs at least one broker and one controller", 2)
        if zookeeper and (controllers > 1 or version_tuple(version) >= (4,)):
            raise LabError("a lab has one ZooKeeper, and Kafka 3", 2)
        nodes = [*range(CONTROLLER, CONTROLLER + controllers), *range(1, brokers + 1)]
        self.directory = Path(directory).absolute()
        wanted = State(
            version=version,
            cluster_id=state.random_id(),
            heap=heap,
            broker_properties=state.texts(properties.brokers),
            controller_properties=state.texts(properties.for_controller()),
            features=dict(features or {}),
            ports={node: (ports or {}).get(node, 0) for node in nodes},
            overrides={node: state.texts(values) for node, values in properties.single.items()},
            profile=profile,
            zookeeper=zookeeper,
            proxied=proxied,
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

    def start(self, progress: Progress | None = None, *, timeout: float = 180.0) -> None:
        """Fetch the jars if need be, start every process, and return when the cluster is ready.

        Raises:
            LabError: it runs already, cannot be fetched, or is not ready ``timeout`` seconds after the fetch.
        """
        cache.java()
        self.directory.mkdir(parents=True, exist_ok=True)
        report(progress, "preparing", 0)
        now = self._site.prepare(progress)
        try:
            with self._site.locked():
                if now.proxied:
                    control.start(self.directory, die_with_parent=self._site.die_with_parent)
                for node in now.controllers:
                    self._site.format_controller(now, node)
                for node in now.controllers:
                    self._site.spawn(node)
                self._wait_for_the_end_of_sessions(set(now.brokers))
                for node in now.brokers:
                    self._site.spawn(node)
            self.wait_ready(timeout, progress, including=now.brokers)
        except BaseException:  # Ctrl-C too: no half-started lab is left behind
            self.stop(hard=True)
            raise
        _log.info("lab_started", directory=str(self.directory), bootstrap=self.bootstrap, version=now.version)

    def stop(self, *, hard: bool = False) -> None:
        """Stop every process of the lab, brokers before controllers; fine when none runs.

        With ``hard``, or without a quorum of controllers, they are killed (-9) at once, else after 15 s.
        """
        if state.load(self.directory) is None:
            return
        with self._site.locked():
            controllers = self.controllers
            alone = 2 * len(self._site.running(controllers)) <= len(controllers)  # brokers would wait for them
            for group in (self.brokers, controllers):
                self._site.end(group, hard=hard or alone)
            control.stop(self.directory)
        _log.info("lab_stopped", directory=str(self.directory))

    def mend(self) -> None:
        """Let what is frozen go on, and start what is dead.

        Raises:
            LabError: not all of them come back.
        """
        for node in self.status():
            if node.state == "paused":
                self.resume(node.node)
            elif node.state == "stopped":
                self.restart(node.node)
        self.wait_ready()

    def kill(self, node: int) -> None:
        """Kill -9 a node and return when it is gone; fine when it is gone already."""
        self._site.require_known(node)
        self._site.end((node,), hard=True)

    def pause(self, node: int) -> None:
        """Freeze a process (SIGSTOP): connections stay open and nothing answers on them."""
        pid = self._site.require_pid(node)
        events.note(self.directory, "paused", (node,))
        process.send(pid, SIGSTOP)
        wait(lambda: process.state(pid) != "running", 5.0, f"node {node} does not stop")

    def resume(self, node: int) -> None:
        """Let a frozen process go on (SIGCONT); fine when it was not frozen."""
        pid = self._site.require_pid(node)
        process.send(pid, SIGCONT)
        events.note(self.directory, "resumed", (node,))

    def restart(
        self,
        node: int,
        *,
        hard: bool = False,
        version: str | None = None,
        environment: Mapping[str, str] | None = None,
        timeout: float = 180.0,
    ) -> None:
        """Stop a process if it runs, start it, and wait until it is back in the cluster; see start_broker()."""
        self._site.require_known(node)
        self._site.end((node,), hard=hard)
        if node in self.controllers:
            self._site.upgrade(node, version)
            self._site.spawn(node, environment)
            self.wait_ready(timeout)
        else:
            self.start_broker(node, version=version, environment=environment, timeout=timeout)

    def start_broker(
        self,
        broker: int,
        *,
        version: str | None = None,
        environment: Mapping[str, str] | None = None,
        timeout: float = 180.0,
    ) -> None:
        """Start a broker that was killed or stopped, with the same port and data.

        Args:
            broker: id.
            version: of Kafka, from now on: a rolling upgrade restarts one node after the other.
            environment: added to the process's own, for this start: what a preloaded library (libfaketime) reads.
            timeout: seconds; 0 returns before the broker is in the cluster: with the controller paused it cannot
                register.

        Raises:
            LabError: it runs already, its data is of a newer version, it ends at once, or does not come up in time.
        """
        self._site.require_stopped(broker, "it is started")
        self._site.upgrade(broker, version)
        self._wait_for_the_end_of_sessions({broker})
        self._site.spawn(broker, environment)
        if timeout:
            self.wait_ready(timeout, including=(broker,))

    def stop_broker(self, broker: int) -> None:
        """Stop a broker in good order (SIGTERM), so that it leaves a clean log behind."""
        self._site.require_known(broker)
        self._site.end((broker,), hard=False)

    def nemesis(self, *wanted: Fault) -> None:
        """Have the network do this from now on, and nothing else; returns when it does.

        What was held back until now is delivered, and counts begin anew.

        Raises:
            LabError: the lab has no proxy, or it does not answer.
        """
        self._site.require_proxied()
        nodes = (*self.controllers, *self.brokers)
        before, after = impaired(control.follow(self.directory), nodes), impaired(wanted, nodes)
        events.note(self.directory, "impaired", sorted(after - before))
        events.note(self.directory, "healed", sorted(before - after))
        control.put_in_force(self.directory, wanted)
        _log.info("network_faults", faults=[str(one) for one in wanted])

    def heal(self) -> None:
        """Have the network pass everything on again, also what was held back."""
        self.nemesis()

    def faults(self) -> list[Fault]:
        """Return what the network does now, with the counts that are left."""
        self._site.require_proxied()
        return control.follow(self.directory)

    def add_broker(self, broker_properties: Mapping[str, object] | None = None, *, timeout: float = 180.0) -> int:
        """Add a broker to the running lab and return its id, one more than the highest so far."""
        with self._site.locked():
            now = self._site.state()
            node = max(now.brokers) + 1
            port, private = state.free_ports(2, avoid=(*now.ports.values(), *now.private.values()))
            now = replace(
                now,
                ports={**now.ports, node: port},
                private={**now.private, node: private} if now.proxied else {},
                overrides={**now.overrides, node: state.texts(broker_properties or {})},
            )
            state.save(self.directory, now)
            self._site.configure(now, node)
            self._site.spawn(node)
            if now.proxied:
                control.follow(self.directory)
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
        ports = [self._site.state().private_port(node) for node in others]
        if (
            others
            and not self._site.state().zookeeper
            and not any(broker_view.unregister(port, broker) for port in ports)
        ):
            raise LabError(f"no broker of {others} would unregister broker {broker}; is the controller running?")
        with self._site.locked():
            now = self._site.state().without(broker)
            state.save(self.directory, now)
            if now.proxied:
                control.follow(self.directory)
            shutil.rmtree(self._site.home(broker))
