"""How far the runner's clock may be wrong: ages are intervals that contain this doubt.

A runner's clock is the machine's clock when the process began, plus monotonic time. It does not follow when the
machine's clock is set, or when the machine is suspended. Brokers count a record's age from a time that the machine's
clock, or their own, gave it. So for them a record is older than for the runner by as much as the machine's clock went
ahead of the runner's since it was sent. And by as much as the machine's clock is behind now: if it was set back, it was
right before that, or is right since, and nothing says which.

Example: a virtual machine sleeps for two hours. A record that was sent a minute before is a minute old by the runner's
clock and two hours and a minute old for the broker, which deletes it where an hour is kept.
"""

import dataclasses
import itertools
from typing import Any, Final, NamedTuple

from canary import facts as f
from canary.anomalies.online.scope import Scope
from canary.anomalies.online.state import ClockStep, State
from canary.anomalies.violation import Violation

_STEP_NS = 10**9
_STEPS_KEPT = 1000
_LAST_KNOWN: Final = frozenset(
    {
        "after_ns",
        "end_ns",
        "former_ns",
        "known_ns",
        "lost_after_ns",
        "rounds",
        "scrub_pass_ns",
        "seen_ns",
        "verified_ns",
    }
)
"""What tells when something was last known to be well; 0: not known."""


class Ahead(NamedTuple):
    """How far (ns) the machine's clock was ahead of the runner's: between ``least`` and ``most``."""

    least: int
    most: int


def began(state: State, fact: f.RunnerStarted) -> None:
    """A process begins, with a clock of its own; that of the process before may have been ahead of it."""
    said_ns = state.clock_ns
    if state.now_ns > fact.at_ns:
        _set_back(state, fact.at_ns)
    state.clock_ns = said_ns
    state.now_ns = fact.at_ns
    _read(state, fact.at_ns, fact.clock_ahead_ns or 0)


def _set_back(known: Any, last_ns: int, name: str = "") -> Any:
    """Return what a former process noted, with no time later than ``last_ns``: it had ended by then.

    Example: its clock was a day ahead. What it saw to be gone is gone since tomorrow, and would not be gone for ten
    seconds before that: it is gone since ``last_ns``. When a log was verified that it had verified is not known.

    ``known`` is a state or anything in one, and changed itself where it can be. ``name`` is that of its field, which
    ends in _ns where it is a time.
    """
    match known:
        case Violation():
            found = known.retimed(lambda at_ns: min(at_ns, last_ns))
            return found.since(known.happened_after_ns, found.happened_before_ns)
        case dict():
            for key, one in known.items():
                known[key] = _set_back(one, last_ns, key if isinstance(key, str) and key.endswith("_ns") else name)
        case tuple() if fields := getattr(known, "_fields", ()):
            return type(known)(*map(_set_back, known, itertools.repeat(last_ns), fields))
        case list() if known and not isinstance(known[0], int):
            known[:] = [_set_back(one, last_ns, name) for one in known]
        case int() if known > last_ns and (name.endswith("_ns") or name in _LAST_KNOWN):
            return 0 if name in _LAST_KNOWN else last_ns
        case _ if dataclasses.is_dataclass(known):
            for field in dataclasses.fields(known):
                setattr(known, field.name, _set_back(getattr(known, field.name), last_ns, field.name))
    return known


def lately(state: State, at_ns: int, for_ns: int) -> bool:
    """Whether something was less than ``for_ns`` ago (0: never); not by a clock that was set back since."""
    return at_ns > 0 and 0 <= state.now_ns - at_ns < for_ns


def asked(state: State, fact: f.WatchAsked) -> None:
    """A round begins: the runner's clock goes on, unless it was set back."""
    _read(state, fact.at_ns, state.clock_ahead_ns)


def seen(scope: Scope, fact: f.ClockSeen) -> None:
    """The machine's clock was set while the process runs."""
    state = scope.state
    forward_ns = fact.clock_ahead_ns - state.clock_ahead_ns
    _step(state, fact.at_ns, -forward_ns, fact.clock_ahead_ns)
    state.clock_ns += forward_ns


def _read(state: State, at_ns: int, ahead_ns: int) -> None:
    wall_ns = at_ns + ahead_ns
    back_ns = state.clock_ns - wall_ns if state.clock_ns - wall_ns >= _STEP_NS else 0
    if back_ns or abs(ahead_ns - state.clock_ahead_ns) >= _STEP_NS:
        _step(state, at_ns, back_ns, ahead_ns)
    state.clock_ns = wall_ns


def _step(state: State, at_ns: int, back_ns: int, ahead_ns: int) -> None:
    """Note that the machine's clock was set back, and how far it is ahead of the runner's from now on."""
    state.clock_steps = [*state.clock_steps, ClockStep(at_ns, back_ns, state.clock_ahead_ns)][-_STEPS_KEPT:]
    state.clock_ahead_ns = ahead_ns


def ahead(state: State, since_ns: float) -> Ahead:
    """Return how far the machine's clock was ahead of the runner's, of its present or a former process, since then."""
    former = [step.ahead_ns for step in state.clock_steps if step.at_ns >= since_ns]
    return Ahead(min([state.clock_ahead_ns, *former]), max([state.clock_ahead_ns, *former]))


def machines_ns(state: State, at_ns: int) -> int:
    """Return what the machine's clock said when the runner's said ``at_ns``."""
    return at_ns + next((step.ahead_ns for step in state.clock_steps if step.at_ns > at_ns), state.clock_ahead_ns)


def doubt_ms(state: State, kept_ms: int, sent_ns: float) -> float:
    """Return by how many ms what was sent then may be older, for brokers that keep it for ``kept_ms``.

    When the machine's clock was right is not known: now, or at any time within two retentions.
    """
    steps = [step.back_ns for step in state.clock_steps if state.now_ns - step.at_ns < 2e6 * kept_ms]
    behind_ns = max(itertools.accumulate(reversed(steps), initial=0))
    return (state.clock_ahead_ns - ahead(state, sent_ns).least + behind_ns) / 1e6
