"""Kill -9 of the canary at a hundred random moments: a drill that is longer than others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canary.drills.catalogue import Entry
from canary.drills.drill import Drill
from canary.drills.rig.result import attempt
from canary.drills.steps.canary import KillCanaryAgainAndAgain
from canary.drills.steps.saying import NothingForgotten
from canary.drills.steps.waiting import UntilAcked

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from threading import Event


def killed(directory: Path, stopping: Event, tell: Callable[[str], None], *, times: int, seed: int) -> list[str]:
    """Kill and start so many times; return what is wrong."""
    drill = Drill(
        title=f"{times} times kill -9",
        source="",
        steps=(UntilAcked(), KillCanaryAgainAndAgain(times=times, seed=seed), UntilAcked(), NothingForgotten()),
        says=(),
        echoes=frozenset(),
    )
    result = attempt(Entry("kills", "soak", "", drill), stopping, tell, directory)
    return [*result.complaints, *([result.impossible] if result.impossible else [])]
