"""Where the way to the cluster leads: the faults of a lab that is proxied, and another cluster at the addresses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from confluent_kafka.admin import AdminClient, NewTopic

from canary.drills.rig.rig import Rig
from canary.drills.steps.step import Step, take
from canary.drills.steps.waiting import Mark
from canary.lab import Cut, Delay, Fault, Hold, Lab, LabError, Lie, LoseAnswers, Redirect, ShiftFetch

_HAPPENS_S: Final = 30.0
_REQUEST_S: Final = 60.0
_START_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Faults(Step):
    """These faults are in force from now on, and no others; see canary.lab.proxy.faults."""

    faults: tuple[Fault, ...]

    def take(self, rig: Rig) -> None:
        """Tell the proxy."""
        rig.lab.nemesis(*self.faults)

    def __str__(self) -> str:
        """Say it."""
        return "; ".join(map(_words, self.faults))


@dataclass(frozen=True, slots=True)
class Heal(Step):
    """Everything passes again."""

    def take(self, rig: Rig) -> None:
        """Tell the proxy."""
        rig.lab.heal()

    def __str__(self) -> str:
        """Say it."""
        return "the network is as it should be again"


def _words(fault: Fault) -> str:  # noqa: PLR0911  # one for each kind
    between = f"{fault.source} and {fault.target}"
    match fault:
        case Cut(both=both):
            return f"nothing passes between {between}" if both else f"nothing goes from {between.replace('and', 'to')}"
        case Delay(seconds=seconds, api=api):
            what = "what goes" if api is None else f"each {api}"
            return f"{what} from {between.replace('and', 'to')} arrives {seconds:g} s later"
        case LoseAnswers(api=api, count=count):
            return f"the next {count} answers to {api} are lost between {between}"
        case Hold(api=api, until_api=until, count=count, client=client):
            whose = f" of {client}" if client else ""
            return f"requests {api}{whose} (the next {count:,}) between {between} are held until {until}"
        case ShiftFetch(topic=topic, partition=partition, how=how):
            done = "skips a batch" if how == "skip" else "swaps two batches"
            return f"an answer of {topic}-{partition} {done}, which no checksum shows"
        case Redirect(port=port):
            return f"new connections from {between.replace('and', 'to')} lead to port {port}, of another cluster"
        case Lie(lie=lie, topic=topic):
            return f"what is answered about {topic} from {between.replace('and', 'to')} is not true: {lie}"


@dataclass(frozen=True, slots=True)
class UntilHappened(Step):
    """Every fault that happens to so many requests has happened to them: a direct client could know from now on."""

    def take(self, rig: Rig) -> None:
        """Ask the proxy."""
        rig.until(
            lambda: all(isinstance(one, Cut | Delay | Lie | Redirect) for one in rig.lab.faults()),
            _HAPPENS_S,
            str(self),
        )
        Mark().take(rig)

    def __str__(self) -> str:
        """Say it."""
        return "the faults have happened"


@contextmanager
def _another(rig: Rig, brokers: int, ports: Mapping[int, int] | None = None) -> Iterator[Lab]:
    """Yield another cluster, running, with empty topics of the names that the stage has; it is killed in the end."""
    other = Lab(
        rig.directory / "another-lab",
        brokers=brokers,
        version=rig.lab.version,
        profile="quick",
        ports=ports,
        die_with_parent=True,
    )
    try:
        other.start(timeout=rig.patience * _START_S)
        admin = AdminClient({"bootstrap.servers": other.bootstrap, "log_level": 0})
        topics = [NewTopic(name, len(topic.replicas), brokers) for name, topic in rig.stage.topics.items()]
        for made in admin.create_topics(topics, request_timeout=_REQUEST_S).values():
            made.result(_REQUEST_S)
        yield other
    finally:
        other.stop(hard=True)


@dataclass(frozen=True, slots=True)
class AnotherCluster(Step):
    """The cluster is stopped, another one answers at its addresses, and steps are taken; then the known one is back.

    The other one has the topics of the stage as well, and would acknowledge whatever is sent to it.
    """

    steps: tuple[Step, ...]

    def take(self, rig: Rig) -> None:
        """Stop one, start the other, and the other way round."""
        rig.lab.stop()
        ports = {node: rig.lab.port(node) for node in (*rig.lab.controllers, *rig.lab.brokers)}
        with _another(rig, len(rig.lab.brokers), ports) as other:
            if other.bootstrap != rig.lab.bootstrap:
                raise LabError("the ports of the cluster were taken by another program meanwhile; try again")
            take(rig, self.steps)
        rig.note("the known cluster is started again")
        rig.lab.start(timeout=rig.patience * _START_S)

    def __str__(self) -> str:
        """Say it."""
        return "the cluster is stopped, and another one answers at its addresses"


@dataclass(frozen=True, slots=True)
class NewConnectionsElsewhere(Step):
    """Steps are taken while the clients' new connections lead to another cluster; then they lead to the known one.

    The known cluster runs, and connections that are open stay. It needs a stage that is proxied.
    """

    steps: tuple[Step, ...]

    def take(self, rig: Rig) -> None:
        """Start the other cluster, and have the proxy lead to it."""
        with _another(rig, 1) as other:
            try:
                rig.lab.nemesis(Redirect("client", "any", other.port(1)))
                Mark().take(rig)
                take(rig, self.steps)
            finally:
                rig.note("new connections lead to the known cluster again")
                rig.lab.heal()

    def __str__(self) -> str:
        """Say it."""
        return "new connections lead to another cluster, and those that are open stay"
