"""What a lab can be asked, and waiting for an answer."""

import contextlib
import time
from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from pathlib import Path

from canary.lab import events, logs
from canary.lab.errors import LabError
from canary.lab.jars.cache import Progress
from canary.lab.site import NodeStatus, Site
from canary.lab.state import CONTROLLER
from canary.wire import broker_view

_POLL_S = 0.05


class Cluster:
    """The nodes of a lab, as their processes and their disks show them.

    Attributes:
        directory: of the lab, absolute.
    """

    directory: Path
    _site: Site

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
        """The id the cluster was formatted with; ZooKeeper's brokers choose it when they first start."""
        now = self._site.state()
        return self._site.cluster_id_of(now.brokers[0]) if now.zookeeper else now.cluster_id

    @property
    def brokers(self) -> tuple[int, ...]:
        """Ids of all brokers, running or not."""
        return self._site.state().brokers

    @property
    def controllers(self) -> tuple[int, ...]:
        """Ids of all controllers, running or not."""
        return self._site.state().controllers

    def port(self, node: int) -> int:
        """Return the port at which others reach a node: the proxy's, where there is one."""
        self._site.require_known(node)
        return self._site.state().ports[node]

    def alive(self) -> tuple[int, ...]:
        """Return the ids of brokers whose process exists, paused ones included."""
        return tuple(node for node in self.brokers if self._site.pid(node) is not None)

    def status(self) -> list[NodeStatus]:
        """Return every node's state, controllers first."""
        return [self._site.status(node) for node in (*self.controllers, *self.brokers)]

    def partition(self, topic: str, partition: int) -> broker_view.PartitionState:
        """Return leader, epoch, ISR and replicas of a partition as the brokers see it now.

        All running brokers are asked, and the answer with the highest leader epoch is taken (its leader's, if that one
        answers), because a broker that was just resumed serves what it knew before.

        Raises:
            LabError: no broker answers, or none knows the partition.
        """
        answers = {
            node: answer.partitions.get((topic, partition))
            for node in self._site.running()
            if (answer := broker_view.ask(self._site.state().private_port(node), (topic,))) is not None
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

    def wait_ready(
        self, timeout: float = 180.0, progress: Progress | None = None, *, including: Iterable[int] = ()
    ) -> None:
        """Wait until every running broker, those ``including``, and the controllers say that all of them are in.

        Raises:
            LabError: one has ended meanwhile, most controllers have ended, or ``timeout`` seconds are over.
        """
        expected = {*self._site.running(), *including}
        now = self._site.state()

        def ready() -> bool:
            for node in expected:
                if self._site.pid(node) is None:
                    raise LabError(f"broker {node} has ended while starting: {self._site.last_words(node)}")
            ended = [node for node in self.controllers if self._site.pid(node) is None]
            if 2 * len(ended) >= len(self.controllers):
                raise LabError(f"there is no quorum without controllers {ended}: {self._site.last_words(ended[0])}")
            answers = [broker_view.ask(now.private_port(node)) for node in sorted(expected)]
            up = sum(1 for answer in answers if answer is not None and expected <= answer.brokers)
            doors = (now.ports[node] for node in (*self._site.running(now.controllers), *sorted(expected)))
            everyone = up == len(expected) and all(map(broker_view.accepts, doors))
            if expected and everyone:  # a broker that was frozen may have been fenced without knowing it
                up = len(expected & self._taken_in(expected, {one.controller for one in answers if one is not None}))
            report(progress, "starting brokers", up, len(expected))
            return everyone and up == len(expected)

        wait(ready, timeout, f"brokers {sorted(expected)} are not all in the cluster")

    def _taken_in(self, brokers: AbstractSet[int], controllers: AbstractSet[int]) -> frozenset[int]:
        """Return which of some brokers the cluster has taken in, as who decides it says.

        That is the controller, to whom any broker leads. With ZooKeeper it is ZooKeeper, once all brokers name the same
        controller and that one takes requests (for which it does not look who is there).
        """
        now = self._site.state()
        if not now.zookeeper:
            return broker_view.unfenced(now.private_port(min(brokers)), brokers)
        if len(controllers) > 1 or not controllers <= brokers:
            return frozenset()
        (controller,) = controllers
        found = broker_view.registered(now.private_port(CONTROLLER)) or frozenset()
        return found & broker_view.unfenced(now.private_port(controller), brokers)

    def _wait_for_the_end_of_sessions(self, brokers: AbstractSet[int]) -> None:
        """Wait until ZooKeeper knows none of these brokers: it takes none in whose last session is not over."""
        now = self._site.state()
        if now.zookeeper:
            keeper = now.private_port(CONTROLLER)
            complaint = f"ZooKeeper does not answer, or knows brokers of {sorted(brokers)} from before,"

            def over() -> bool:
                found = broker_view.registered(keeper)
                return found is not None and not found & brokers

            wait(over, 60.0, complaint)

    def wait_isr(self, topic: str, partition: int, isr: set[int] | frozenset[int], timeout: float = 90.0) -> None:
        """Wait until the in-sync replicas of a partition are exactly these brokers.

        Raises:
            LabError: the time is up; names them.
        """
        seen: list[broker_view.PartitionState] = []

        def reached() -> bool:
            with contextlib.suppress(LabError):  # no broker answers just now
                seen[:] = [self.partition(topic, partition)]
                return seen[0].isr == isr
            return False

        wait(reached, timeout, lambda: f"ISR of {topic}-{partition} is not {sorted(isr)} but {seen}")


def report(progress: Progress | None, what: str, done: int, total: int = 1) -> None:
    """Tell whoever wants to know how many of ``total`` steps are done."""
    if progress is not None:
        progress(what, done, total)


def wait(reached: Callable[[], bool], timeout: float, complaint: str | Callable[[], str]) -> None:
    """Wait until something is ``reached``; LabError with the ``complaint`` if it is not within ``timeout`` seconds."""
    deadline = time.monotonic() + timeout
    while not reached():
        if time.monotonic() > deadline:
            raise LabError(f"{complaint() if callable(complaint) else complaint} after {timeout:.0f} s")
        time.sleep(_POLL_S)  # a cluster's state raises no event here; asking is cheap
