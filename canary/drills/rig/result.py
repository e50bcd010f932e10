"""A drill from its stage to its verdict, its control first."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event

from canary.drills.catalogue import Entry
from canary.drills.drill import Control
from canary.drills.rig.performance import Played, Stagehand, clear, lab, play
from canary.drills.rig.rig import StoppedError
from canary.drills.rig.verdict import Verdict, judge, judge_control
from canary.drills.stage import Stage
from canary.lab import Lab, LabError


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a drill and of its control.

    Attributes:
        entry: the drill.
        seconds: how long all of it took.
        played, verdict: of the drill; None where it could not be performed.
        control: None where there is none, or it was left out.
        impossible: why it could not be performed here; "" where it was.
    """

    entry: Entry
    seconds: float
    played: Played | None = None
    verdict: Verdict | None = None
    control: Verdict | None = None
    impossible: str = ""

    @property
    def failed(self) -> bool:
        """Something was missed, or something false was said."""
        return bool(self.complaints)

    @property
    def complaints(self) -> tuple[str, ...]:
        """What is wrong, a sentence each."""
        own = self.verdict.complaints if self.verdict else ()
        control = self.control.complaints if self.control else ()
        return (*own, *(f"in the control, {one}" for one in control))


Brokers = Callable[[Stage, Stagehand], AbstractContextManager[Lab]]
"""Gives the brokers of a stage, running."""


def attempt(
    entry: Entry,
    stopping: Event,
    tell: Callable[[str], None],
    keep: Path | None = None,
    *,
    with_control: bool = True,
    brokers: Brokers = lab,
) -> Result:
    """Perform a drill, and its control before it; what cannot be performed here is a result, too.

    Args:
        entry: the drill.
        stopping: ends it, once set.
        tell: is given each line of the timeline as it happens.
        keep: a directory for logs and data; None: they are thrown away.
        with_control: perform the control, where there is one.
        brokers: gives those that it is performed on; throwaway ones by default.
    """
    began = time.monotonic()
    try:
        with _directory(entry, keep) as directory:
            hand = Stagehand(directory, stopping, tell)
            return _perform(entry, hand, began, brokers, with_control=with_control)
    except StoppedError:
        return Result(entry, time.monotonic() - began, impossible="it was stopped")
    except LabError as error:
        return Result(entry, time.monotonic() - began, impossible=str(error))


@contextmanager
def _directory(entry: Entry, keep: Path | None) -> Iterator[Path]:
    if keep is not None:
        directory = keep.absolute() / entry.name
        if directory.exists():  # a canary of before would know another cluster
            raise LabError(f"{directory} is there already; keep it, and name another directory")
        yield directory
        return
    with tempfile.TemporaryDirectory(prefix="canary-drill-", ignore_cleanup_errors=True) as temporary:
        yield Path(temporary)


def _perform(entry: Entry, hand: Stagehand, began: float, brokers: Brokers, *, with_control: bool) -> Result:
    drill = entry.drill
    control = None
    with ExitStack() as running:
        used: Stage | None = None
        if with_control and drill.control is not None:
            aside = replace(hand, directory=hand.directory / "control", tell=lambda line: hand.tell(f"control: {line}"))
            hand.tell(f"control: {drill.control.why}")
            used = drill.control.stage or drill.stage
            found = running.enter_context(brokers(used, aside))
            control = _control(drill.control, entry, found, aside)
        if used is not None and used.same_brokers(drill.stage):
            clear(found)
        else:
            running.close()
            found = running.enter_context(brokers(drill.stage, hand))
        played = play(found, drill.stage, drill.steps, drill.says, hand)
    return Result(entry, time.monotonic() - began, played, judge(drill, played), control)


def _control(control: Control, entry: Entry, brokers: Lab, hand: Stagehand) -> Verdict:
    stage, steps = control.stage or entry.drill.stage, control.steps or entry.drill.steps
    played = play(brokers, stage, steps, (), hand)
    return judge_control(played, control.may_say, loses=control.loses, says=entry.drill.says)
