"""One entry of the catalogue of anomalies."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["critical", "warning", "info"]
"""Critical is what wakes somebody: data are lost or promises are void; or nobody would know, because the canary is
blind or its way to a pager is broken; or writes are refused now. All else that needs a person is a warning."""
Scope = Literal["offline", "online", "spark", "watch"]
"""Who decides it: the checker of histories, the running tracker, the nightly reconciliation, the watch."""
Class = Literal["data", "blindness", "unavailability", "warning", "rehearsal"]
"""What an incident or an alert is about, the worst first: data are lost, or are not what was written; the canary sees
or remembers nothing; writes or reads wait; none of these yet; the alarm is tried, and nothing is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly:
    """All that policy, metrics, API, documents, dashboards and runbooks know of an anomaly.

    Attributes:
        name: The name in docs/design/anomalies.md; the metrics' label ``kind``, and Jepsen's name where Jepsen has one.
        title: A few words for headlines.
        severities: Every severity that a violation of this kind may have, the usual one first.
        scopes: Who decides it.
        meaning: What happened, in one sentence.
        implies: What that means for the data.
        do_first: What the person who is paged does first.
        source: The seed, paper or issue that it comes from, with its section.
        picture: Rows of its drawing, each a label and cells, in the notation of dashboards.reference.drawings.
        allowed: When the protocol allows it; "" if never.
        shows: "loss": by itself it means that an acknowledged write was not kept. "damage": the log, or what a reader
            is given, is not what was written. "blindness": nothing can be known, neither of a broken promise nor of a
            kept one. "unavailability": writes or reads wait. "": none of these.
        ends: It is a condition: it is reported while it holds, and ends by itself. Of `unclean-election` only what is
            suspected does, which has no offset.
        wide: All of a cluster that hold at one time are one incident, for what they have in common is no partition.
        needs_idempotence: Only acks=all with idempotence rules it out: it is critical there, and a warning where acks=1
            has to expect it.
        finished: Its severity at the end of a recorded history; None: the usual one.
        allowed_with: The option of `canary check` with which it does not make a history invalid; None: there is none.
    """

    name: str
    title: str
    severities: tuple[Severity, ...]
    scopes: tuple[Scope, ...]
    meaning: str
    implies: str
    do_first: str
    source: str
    picture: tuple[tuple[str, str], ...]
    allowed: str = ""
    shows: Literal["loss", "damage", "blindness", "unavailability", ""] = ""
    ends: bool = False
    wide: bool = False
    needs_idempotence: bool = False
    finished: Severity | None = None
    allowed_with: Literal["always", "subscribe", "ww_deps"] | None = None

    @property
    def severity(self) -> Severity:
        """The usual severity."""
        return self.severities[0]

    @property
    def class_(self) -> Class:
        """The class of its incidents and alerts."""
        match self.shows:
            case "loss" | "damage":
                return "data"
            case "":
                return "warning"
            case other:
                return other
