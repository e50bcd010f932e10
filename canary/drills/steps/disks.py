"""What happens to the disks of brokers and of the controller."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from canary.drills.rig.rig import Rig
from canary.drills.steps.step import Step
from canary.lab import CONTROLLER, LabError

_METADATA: Final = "__cluster_metadata-0"
_START_S: Final = 120.0
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


@dataclass(frozen=True, slots=True)
class BackUpController(Step):
    """The controller's data is copied, as by a snapshot of its disk."""

    def take(self, rig: Rig) -> None:
        """Stop it for so long; brokers go on without."""
        rig.lab.kill(CONTROLLER)
        rig.lab.copy_data(CONTROLLER)
        rig.lab.restart(CONTROLLER)

    def __str__(self) -> str:
        """Say it."""
        return "the controller's disk is backed up"


@dataclass(frozen=True, slots=True)
class RestoreController(Step):
    """The controller's data is the last backup's again, and brokers forget what they knew of the cluster's metadata.

    With their own copy of it they would refuse a controller that knows less than they do.
    """

    def take(self, rig: Rig) -> None:
        """Stop everything, and start it again."""
        copies = list((rig.lab.directory / "copies").glob("controller-*"))  # the control may have left one
        if not copies:
            raise LabError("there is no backup of the controller")
        rig.lab.stop()
        rig.lab.put_data(CONTROLLER, max(copies, key=_number))
        for broker in rig.lab.brokers:
            shutil.rmtree(rig.lab.directory / f"broker-{broker}" / "data" / _METADATA)
        rig.lab.start(timeout=rig.patience * _START_S)

    def __str__(self) -> str:
        """Say it."""
        return "the whole cluster is stopped; the controller's disk is restored from the backup; all is started again"


def _number(copy: Path) -> int:
    return int(copy.name.rpartition("-")[2])
