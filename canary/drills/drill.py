"""What a drill is made of; all of it frozen values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from canary.drills.stage import KNOWABLE, Stage
from canary.drills.steps.step import Step

REPLICAS_MISSING: Final = frozenset({"under-replicated", "under-min-isr", "isr-below-half", "isr-of-one", "unseen"})
"""Conditions that are true, and rightly said, while brokers are away."""
OUTAGE: Final = REPLICAS_MISSING | {"offline-partition", "blind", "stalled", "unwritable"}
"""The same while all are."""

How = Literal["exactly", "within", "first"]


@dataclass(frozen=True, slots=True)
class Said:
    """A violation that the canary must report.

    Attributes:
        kind: of the catalogue of anomalies.
        at: the names of the places that it is held against: "gone" for what a direct reading no longer finds, another
            name of canary.drills.rig.direct, or one that a step gives; None: any place.
        how: "exactly": all violations of the kind together name these places and no others, with the identities that
            were there; "within": they name some of them and no others; "first": one names the first of each partition.
        partitions: topic and number of each partition that it must be said of, and of no other; None: any.
        within_s: seconds after ``since``.
        since: the moment that the time to detect counts from; see steps.waiting.Mark.
        severity: None: any.
        after: the moment before which nothing that was said counts: a mark of a step; None: the drill's beginning.
    """

    kind: str
    at: str | tuple[str, ...] | None = None
    how: How = "exactly"
    partitions: frozenset[tuple[str, int]] | None = None
    within_s: float = 10.0
    since: str = KNOWABLE
    severity: str | None = None
    after: str | None = None

    @property
    def words(self) -> str:
        """The kind, and after what."""
        return self.kind if self.after is None else f"{self.kind} after {self.after}"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its places."""
        return (self.at,) if isinstance(self.at, str) else self.at or ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """The same, where nothing may be said.

    Attributes:
        why: it is safe, in a sentence.
        stage: None: the drill's.
        steps: None: the drill's.
        may_say: kinds that are true here all the same.
        loses: promised records are gone here as well, and it was announced.
    """

    why: str
    stage: Stage | None = None
    steps: tuple[Step, ...] | None = None
    may_say: frozenset[str] = REPLICAS_MISSING
    loses: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Drill:
    """One drill. Its name is its file's, its story the file's docstring.

    Attributes:
        title: a few words.
        source: the seed (with its section), KIP, JIRA or report that it comes from.
        stage, steps: what is done, on what.
        says: what must be said.
        echoes: kinds that may be said as well: what else is true here, or follows from the same fault.
        control: None: there is no safe setting that prevents it; the reason stands in ``uncontrolled``.
        uncontrolled: why there is no control.
        loses: promised records are gone in the end, by somebody's will: no lost-write has to tell of them.
        live: it may be performed on a live cluster: every step of it that harms anything is a LiveStep.
        short: it is one of those that CI runs.
    """

    title: str
    source: str
    stage: Stage = field(default_factory=Stage)
    steps: tuple[Step, ...]
    says: tuple[Said, ...]
    echoes: frozenset[str] = REPLICAS_MISSING
    control: Control | None = None
    uncontrolled: str = ""
    loses: bool = False
    live: bool = False
    short: bool = False

    @property
    def allowed(self) -> frozenset[str]:
        """Every kind that may be said."""
        return self.echoes | {one.kind for one in self.says}
