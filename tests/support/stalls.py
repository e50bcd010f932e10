"""Whether the machine stalled while a test ran, and which failures that may excuse.

A test on brokers is run again once, in a fresh lab, if what failed is that something came too late *and* there is
evidence: this process did not get to run for a second, or a broker was expelled that nothing was done to. A false
assertion is never excused, nor a violation that the lab's own events do not explain.
"""

from __future__ import annotations

import subprocess
import threading
import time
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import httpx
from confluent_kafka import KafkaException

from canary.lab import LabError
from tests.support.expulsions import leaderless, unasked
from tests.support.labs import known

if TYPE_CHECKING:
    from collections.abc import Iterable

    from canary.lab.events import Event

TICK_S: Final = 0.1
STALL_S: Final = 1.0
"""A tick that comes this much later than it should is a stall."""
BEFORE_S: Final = 120.0
"""How long a stall may be over when what it caused is said."""


class NotInTimeError(AssertionError):
    """What was waited for did not come in time."""


class UnexplainedError(AssertionError):
    """A canary said something that nothing explains."""


LATE: Final = (NotInTimeError, LabError, KafkaException, TimeoutError, subprocess.TimeoutExpired, httpx.TransportError)
"""Failures that are no more than lateness."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A time in which the witness did not get to run: when it ended (s since the epoch), and how long it was (s)."""

    at: float
    late_s: float

    def __str__(self) -> str:
        """Return it as a line for people."""
        at = time.strftime("%H:%M:%S", time.localtime(self.at))
        return f"{at} this process did not get to run for {self.late_s:.1f} s"


class Witness(threading.Thread):
    """Ticks ten times a second, and remembers when that was not to be had."""

    def __init__(self) -> None:
        super().__init__(name="stall-witness", daemon=True)
        self.gaps: list[Gap] = []
        self._ended = threading.Event()

    def run(self) -> None:
        """Tick."""
        before = time.monotonic()
        while not self._ended.wait(TICK_S):
            now = time.monotonic()
            if (late_s := now - before - TICK_S) >= STALL_S:
                self.gaps.append(Gap(time.time(), late_s))
            before = now

    def stop(self) -> None:
        """End it."""
        self._ended.set()
        self.join()


witness = Witness()
"""Started with the session; see tests/conftest.py."""


def evidence(since: float) -> list[str]:
    """Return a line for each stall since a time (s since the epoch): the witness's, and those that brokers suffered."""
    gaps = [str(gap) for gap in witness.gaps if gap.at >= since]
    expelled = [event for lab in known.values() for event in unasked(lab.events()) if event.at >= since]
    return gaps + [f"nobody asked for it: {event}" for event in expelled]


def only_late(errors: Iterable[BaseException]) -> bool:
    """Tell whether nothing worse than lateness made a test fail."""
    return all(isinstance(error, LATE) for error in errors)


@dataclass(frozen=True, slots=True)
class Condition:
    """What a canary says of a partition: kind, place, and when it was first seen (s since the epoch)."""

    kind: str
    topic: str | None
    partition: int | None
    seen: float

    @classmethod
    def of_rest(cls, violation: dict[str, Any]) -> Condition:
        """Take it from a violation of the REST API."""
        seen = datetime.fromisoformat(violation["first_seen_at"]).timestamp()
        return cls(violation["kind"], violation["topic"], violation["partition"], seen)


def explained(said: Condition, happened: list[Event], since: float = 0.0) -> bool:
    """Tell whether a canary says no more than what the lab's events, or a stall, made true.

    Only conditions can be explained so; a loss, a copy or a skip never.

    Args:
        said: by the canary.
        happened: all that happened to the lab.
        since: when the canary began (s since the epoch): a topic of that name may have been another test's before.
    """
    place = (said.topic, said.partition)
    here = [event for event in happened if event.at >= since and place == (event.topic, event.partition)]
    isrs = [event.isr for event in here if event.isr is not None]
    match said.kind:
        case "isr-of-one":
            return any(len(isr) == 1 for isr in isrs)
        case "under-min-isr":
            return any(len(isr) < 2 for isr in isrs)
        case "offline-partition":
            return leaderless(happened, *place)
        case "unclean-election":
            return any(event.what == "unclean" for event in here)
        case "stalled" | "unseen" | "blind":
            stalls = [gap.at for gap in witness.gaps] + [event.at for event in unasked(happened)]
            return any(said.seen - BEFORE_S <= at <= said.seen for at in stalls)
    return False
