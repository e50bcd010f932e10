"""What was destroyed in a life of one partition, and the verdict on what the tracker said of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from canary.anomalies.violation import Violation

Key = tuple[int, int]
"""(generation, sequence) of a probe."""


class Record(NamedTuple):
    """What stands at an offset: a probe, or (``key`` None) somebody else's record."""

    key: Key | None
    epoch: int
    sent_ns: int
    tag: str


@dataclass
class Truth:
    """What really happened. Offsets are those of the present incarnation."""

    stood: dict[Key, set[int]] = field(default_factory=dict)
    """Where each probe was ever appended."""
    gone: dict[Key, int] = field(default_factory=dict)
    """What was destroyed, and where it stood."""
    told: set[Key] = field(default_factory=set)
    """What was acknowledged with its offset, or read by anybody."""
    excused: set[Key] = field(default_factory=set)
    """What need not be said though it was destroyed: it had expired, or soon did; or its topic was made again."""
    passed: set[Key] = field(default_factory=set)
    """What was appended below a consumer's position, which the log was cut under: it passes them."""
    happened: Counter[str] = field(default_factory=Counter)


def _probe(v: Violation) -> Key | None:
    return None if v.identity is None else (v.identity.generation, v.identity.sequence)


def verdict(truth: Truth, said: Iterable[Violation], oldest: int) -> list[str]:
    """Return what was missed, false or misnamed, one line each: nothing, if all is well.

    What was written before the generation ``oldest`` is of a former topic.
    """
    said = list(said)
    named = {_probe(v) for v in said if v.kind == "lost-write"}
    due = {key for key in truth.gone.keys() & truth.told if key[0] >= oldest} - truth.excused
    missed = [f"missed: {key} at {truth.gone[key]}" for key in sorted(due - named)]
    return missed + [wrong for v in said for wrong in _wrong(truth, v)]


def _wrong(truth: Truth, v: Violation) -> Iterator[str]:
    """Yield what is false or misnamed in a violation."""
    places = set(truth.gone.values())
    key = _probe(v)
    if v.kind == "lost-write":
        if key not in truth.gone:
            yield f"false: lost-write {key} at {v.offset}"
        elif v.offset not in truth.stood[key]:
            yield f"misnamed: lost-write {key} at {v.offset}, it stood at {truth.stood[key]}"
    elif v.kind in {"truncation", "inconsistent-offsets"} and v.offset not in places:
        yield f"{'misnamed' if places else 'false'}: {v.kind} at {v.offset}"
    elif v.kind == "poll-skip" and key not in truth.passed:
        yield f"false: poll-skip {v.identity} at {v.offset}"
    elif not truth.happened[CAUSES.get(v.kind, "")] and v.kind not in EXPLAINED:
        yield f"false: {v.kind} {v.identity} at {v.offset}: {v.summary}"


CAUSES = {"topic-recreated": "recreate", "leader-epoch-regression": "epoch"}
"""What explains a kind wherever it is said."""
EXPLAINED = frozenset({"truncation", "inconsistent-offsets", "poll-skip"})
"""Kinds of which it is the place that tells whether they are false."""
