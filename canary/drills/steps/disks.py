"""What happens to the disks of brokers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from canary.drills.rig.rig import Rig
from canary.drills.steps.step import Step

_ENDS_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Wipe(Step):
    """A broker that does not run has an empty disk: another machine that is given its id."""

    broker: int

    def take(self, rig: Rig) -> None:
        """Empty it."""
        rig.lab.wipe(self.broker)

    def __str__(self) -> str:
        """Say it."""
        return f"broker {self.broker} has an empty disk"


@dataclass(frozen=True, slots=True)
class FillDisk(Step):
    """A running broker can write no more to its disk; Kafka ends a broker that has no disk left that works."""

    broker: int

    def take(self, rig: Rig) -> None:
        """Let it write nothing more, and wait until it has ended."""
        rig.lab.limit_file_size(self.broker, 1)
        rig.until(lambda: self.broker not in rig.lab.alive(), _ENDS_S, f"broker {self.broker} ends by itself")

    def __str__(self) -> str:
        """Say it."""
        return f"the disk of broker {self.broker} is full"
