"""Whether the machine stalled while a test ran, which failures that may excuse, and what crashed meanwhile.

A test is run again once (on brokers in a fresh lab) if what failed is that something came too late *and* there is
evidence: this process or one that tests started did not get to run for a second, four threads and more wanted each
processor for ten, or a broker was expelled that nothing was done to. A false assertion is never excused, nor a
violation that the lab's own events do not explain.

Witnesses write to a directory of the session, each process to a file of its own: see tests/support/started.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import httpx
from confluent_kafka import KafkaException

from canary.lab import LabError
from tests.support.expulsions import leaderless, unasked
from tests.support.labs import known
from tests.support.started.sitecustomize import Witness

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from canary.lab.events import Event

STARTED: Final = Path(__file__).with_name("started")
DIRECTORY: Final = "TESTS_WITNESS"
BEFORE_S: Final = 120.0
"""How long a stall may be over when what it caused is said."""


class NotInTimeError(AssertionError):
    """What was waited for did not come in time."""


class UnexplainedError(AssertionError):
    """A canary said something that nothing explains."""


LATE: Final = (NotInTimeError, LabError, KafkaException, TimeoutError, subprocess.TimeoutExpired, httpx.TransportError)
"""Failures that are no more than lateness."""


def python_path(*folders: Path | str) -> str:
    """Return a PYTHONPATH with these folders for a process that is to be watched."""
    return os.pathsep.join(map(str, (STARTED, *folders)))


class Witnesses:
    """What the witnesses of this session wrote: of this process, and of each Python that it starts."""

    def __init__(self) -> None:
        self._own: Witness | None = None
        self._directory: tempfile.TemporaryDirectory[str] | None = None

    def start(self) -> None:
        """Watch this process, and from here on each Python that it starts."""
        self._directory = tempfile.TemporaryDirectory(prefix="canary-witnesses-", ignore_cleanup_errors=True)
        os.environ[DIRECTORY] = self._directory.name
        os.environ["PYTHONPATH"] = python_path(*filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
        self._own = Witness(Path(self._directory.name) / f"{os.getpid()}.stalls", crowds=True)
        self._own.start()

    def stop(self) -> None:
        """Stop watching, and forget what was written."""
        if self._own is not None and self._directory is not None:
            self._own.stop()
            self._directory.cleanup()

    def note(self, words: str) -> None:
        """Write down a stall of this process that ends now."""
        assert self._own is not None
        self._own.note(words)

    def stalls(self) -> list[tuple[float, str]]:
        """Return when each stall ended (s since the epoch), and its words, the earliest first."""
        lines = (line for file in self._files("stalls") for line in file.read_text().splitlines())
        return sorted((float(at), words) for at, _, words in (line.partition("\t") for line in lines))

    def crashes(self, since: float) -> list[str]:
        """Return what was written of each crash, and each SIGABRT, since a time (s since the epoch)."""
        files = [file for file in self._files("crash") if file.stat().st_size and file.stat().st_mtime >= since]
        return [f"process {file.stem}:\n{file.read_text()}" for file in files]

    def _files(self, kind: str) -> list[Path]:
        return [] if self._directory is None else list(Path(self._directory.name).glob(f"*.{kind}"))


witnesses = Witnesses()
"""Started with the session; see tests/support/again.py."""


def evidence(since: float) -> list[str]:
    """Return a line for each stall since a time (s since the epoch), of processes and of brokers."""
    gaps = [f"{_clock(at)} process {words}" for at, words in witnesses.stalls() if at >= since]
    expelled = [event for lab in known.values() for event in unasked(lab.events()) if event.at >= since]
    return gaps + [f"nobody asked for it: {event}" for event in expelled]


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))


def only_late(errors: Iterable[BaseException]) -> bool:
    """Tell whether nothing worse than lateness made a test fail, nor stands behind it: cleaning up may be late, too."""
    return all(isinstance(error, LATE) and not any(map(_is_false, _behind(error))) for error in errors)


def _behind(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors during which one was raised."""
    seen = {id(error)}
    ahead = [error]
    while ahead:
        one = ahead.pop()
        yield one
        members = one.exceptions if isinstance(one, BaseExceptionGroup) else ()
        for other in (one.__cause__, one.__context__, *members):
            if other is not None and id(other) not in seen:
                seen.add(id(other))
                ahead.append(other)


def _is_false(error: BaseException) -> bool:
    return isinstance(error, AssertionError) and not isinstance(error, LATE)


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
        case "stalled" | "unwritable" | "unseen" | "blind":
            stalls = [at for at, _ in witnesses.stalls()] + [event.at for event in unasked(happened)]
            return any(said.seen - BEFORE_S <= at <= said.seen for at in stalls)
    return False
