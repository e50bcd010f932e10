"""What a drill waits for, and the moments that it remembers."""

from __future__ import annotations

from dataclasses import dataclass

from canary.drills.rig import direct
from canary.drills.rig.rig import Ground, NotInTimeError, Rig, StoppedError
from canary.drills.stage import KNOWABLE, PROBES
from canary.drills.steps.step import LiveStep, Step

_BROKER_S = 40.0
_CANARY_S = 30.0


@dataclass(frozen=True, slots=True)
class Mark(LiveStep):
    """Remember this moment: times to detect are counted from it."""

    name: str = KNOWABLE

    def take(self, rig: Ground) -> None:
        """Remember it."""
        rig.marks[self.name] = rig.note(
            f"from now on a direct client could know{'' if self.name == KNOWABLE else f' ({self.name})'}"
        )

    def __str__(self) -> str:
        """Say it."""
        return ""


@dataclass(frozen=True, slots=True)
class UntilIsr(Step):
    """The in-sync replicas of a partition are exactly these brokers."""

    isr: frozenset[int]
    partition: int = 0
    topic: str = PROBES

    def take(self, rig: Rig) -> None:
        """Ask the brokers."""

        def reached() -> bool:
            return rig.lab.partition(self.topic, self.partition).isr == self.isr

        rig.until(reached, _BROKER_S, str(self))

    def __str__(self) -> str:
        """Say it."""
        return f"the ISR of {self.topic}-{self.partition} is {sorted(self.isr)}"


@dataclass(frozen=True, slots=True)
class UntilLed(Step):
    """A partition is led by a broker; None: by none."""

    leader: int | None
    partition: int = 0
    topic: str = PROBES

    def take(self, rig: Rig) -> None:
        """Ask the brokers."""
        rig.until(lambda: rig.lab.leader(self.topic, self.partition) == self.leader, _BROKER_S, str(self))

    def __str__(self) -> str:
        """Say it."""
        leads = "nobody leads" if self.leader is None else f"broker {self.leader} leads"
        return f"{leads} {self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class UntilReadable(Step):
    """A direct client is told the end of each of these partitions: what is gone can be known from now on."""

    partitions: tuple[int, ...] = (0,)
    topic: str = PROBES
    mark: str = KNOWABLE

    def take(self, rig: Rig) -> None:
        """Ask as a client."""
        for partition in self.partitions:
            rig.until(
                lambda p=partition: direct.readable(rig.lab.bootstrap, self.topic, p),  # type: ignore[misc]
                _BROKER_S,
                str(self),
            )
        Mark(self.mark).take(rig)

    def __str__(self) -> str:
        """Say it."""
        return f"{self.topic} {', '.join(map(str, self.partitions))} can be read again"


@dataclass(frozen=True, slots=True)
class UntilAcked(Step):
    """So many more probes were acknowledged in a partition, and were seen by every reader."""

    count: int = 30
    partition: int = 0
    topic: str = PROBES
    seen: bool = True

    def take(self, rig: Rig) -> None:
        """Ask the canary."""
        place = {"topic": self.topic, "partition": str(self.partition)}
        names = ("canary_probes_acked_total", *(("canary_probes_seen_total",) if self.seen else ()))
        before: dict[str, float] = {}

        def reached() -> bool:
            for name in names:
                before.setdefault(name, rig.metric(name, **place))
            return all(rig.metric(name, **place) >= before[name] + self.count for name in names)

        rig.until(reached, _CANARY_S, str(self))

    def __str__(self) -> str:
        """Say it."""
        return f"{self.count} more probes are acknowledged in {self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class UntilSaid(Step):
    """The canary has had the time to report a violation of this kind; the verdict tells whether it did."""

    kind: str

    def take(self, rig: Rig) -> None:
        """Ask the canary."""
        try:
            rig.until(lambda: rig.canary.violations(self.kind), _CANARY_S, str(self))
        except NotInTimeError:
            rig.note(f"the canary does not report {self.kind}")

    def __str__(self) -> str:
        """Say it."""
        return f"the canary reports {self.kind}"


@dataclass(frozen=True, slots=True)
class Pass(LiveStep):
    """So many seconds pass: enough for what must not be said in them."""

    seconds: float

    def take(self, rig: Ground) -> None:
        """Wait."""
        if rig.stopping.wait(self.seconds):
            raise StoppedError

    def __str__(self) -> str:
        """Say it."""
        return f"{self.seconds:g} s pass"
