"""A step of a drill."""

from collections.abc import Iterable
from dataclasses import dataclass

from canary.drills.rig.rig import Ground, Rig


@dataclass(frozen=True, slots=True)
class Step:
    """Something that is done to the cluster or to the canary, or waited for; str() says it to people.

    The name of one that only waits begins with Until; its line is written when what it waits for has come.
    """

    @property
    def waits(self) -> bool:
        """It changes nothing, and waits for something."""
        return type(self).__name__.startswith("Until")

    def take(self, rig: Rig) -> None:
        """Do it, and return when it is done.

        Raises:
            LabError, NotInTimeError: it could not be done.
        """
        raise NotImplementedError

    def __str__(self) -> str:
        """Return what happens, as a line of the timeline."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class LiveStep(Step):
    """A step that harms nothing but the drill topic, and so may be taken in a live cluster."""

    def take(self, rig: Ground) -> None:
        """Do it."""
        raise NotImplementedError


def take(rig: Rig, steps: Iterable[Step]) -> None:
    """Take steps, each with its line in the timeline; that of one that only waits once it has come."""
    for step in steps:
        line = str(step)
        if line and not step.waits:
            rig.note(line, done=True)
        step.take(rig)
        if line and step.waits:
            rig.note(line)
