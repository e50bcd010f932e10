"""What happens to the network of a lab that is proxied."""

from __future__ import annotations

from dataclasses import dataclass

from canary.drills.rig.rig import Rig
from canary.drills.steps.step import Step
from canary.drills.steps.waiting import Mark
from canary.lab import Cut, Delay, Fault, Hold, Lie, LoseAnswers, Redirect, ShiftFetch

_HAPPENS_S = 30.0


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
