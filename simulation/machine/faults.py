"""What goes wrong with operations of a disk."""

import random
from dataclasses import dataclass
from pathlib import Path


@dataclass(slots=True)
class Fault:
    """What goes wrong with ``operations``, from the call ``after`` on, ``times`` times (None: always).

    ``error`` is an errno, 0 for a call that is only slow: ``delay_s`` virtual seconds. ``where`` is a part of the path,
    ``chance`` the part of the calls that are met. ``hits`` counts those that were.
    """

    operations: tuple[str, ...]
    error: int
    times: int | None
    after: int
    where: str
    delay_s: float
    chance: float
    hits: int = 0
    _seen: int = 0

    def meets(self, operation: str, path: Path, dice: random.Random) -> bool:
        """Whether this call is met; it is counted."""
        if operation not in self.operations or self.where not in str(path):
            return False
        self._seen += 1
        if self._seen <= self.after or (self.times is not None and self.hits >= self.times):
            return False
        if self.chance < 1 and dice.random() >= self.chance:
            return False
        self.hits += 1
        return True
