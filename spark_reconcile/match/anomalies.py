"""What a night knows of each anomaly that it decides: one entry each, from which counts, files and violations derive.

Adding an anomaly that is decided identity by identity is adding an entry here (and to the catalogue): `cases` says
which judged identities are cases of it. Its severity is that of canary.anomalies.policy.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from canary.anomalies import policy
from canary.anomalies.catalogue import CATALOGUE
from spark_reconcile.match.rules import Judgement, Verdict
from spark_reconcile.tables.columns import Bool

Subject = Literal["identity", "copy", "offset", "transaction", "cycle"]
"""What one case is: an identity; a second or further offset of an identity; an offset, whatever identity claims it; a
transaction, at its first missing write; a cycle of transactions, at the offset of its first write."""


@dataclass(frozen=True, slots=True)
class NightlyAnomaly:
    """An anomaly of the catalogue, as the night decides and reports it.

    Attributes:
        kind: Its name in the catalogue.
        subject: What one case is.
        one: What happened, in words, if there is one case.
        many: The same for several cases.
        cases: Which judged identities are cases; None where it is not decided identity by identity.
        once_a: Of what all cases are one violation, as online; None: of the ranges that they make up.
        lost: Its cases are acknowledged writes that are gone, and rows of lost/.
    """

    kind: str
    subject: Subject
    one: str
    many: str = ""
    cases: Callable[[Judgement], Bool] | None = None
    once_a: Literal["partition", "topic"] | None = None
    lost: bool = False

    @property
    def of_offset(self) -> bool:
        """Whether the place of a case is an offset, without an identity (CONTRACTS "Place of a violation")."""
        return self.subject in {"offset", "cycle"}

    @property
    def single(self) -> bool:
        """Whether each case is a violation of its own; other cases are joined into ranges of offsets."""
        return self.subject == "cycle"

    @property
    def compared(self) -> bool:
        """Whether the running canary decides it, too, with one violation for each case."""
        return "online" in CATALOGUE[self.kind].scopes and self.once_a is None


LOST_WRITE: Final = NightlyAnomaly(
    policy.WRITES_LOST,
    "identity",
    "an acknowledged write is not in the topic",
    "acknowledged writes are not in the topic",
    cases=lambda judged: judged.lost_write,
    lost=True,
)
DUPLICATE: Final = NightlyAnomaly(
    "duplicate",
    "copy",
    "one probe stands at two offsets",
    "probes stand at two offsets each",
    cases=lambda judged: judged.duplicated,
)
INCONSISTENT_OFFSETS: Final = NightlyAnomaly(
    "inconsistent-offsets", "offset", "two probes claim one offset", "two probes each claim the offsets"
)
CORRUPT: Final = NightlyAnomaly(
    "corrupt",
    "offset",
    "a record that bears our magic and tag is damaged",
    "records that bear our magic and tag are damaged",
)
PHANTOM: Final = NightlyAnomaly(
    "phantom",
    "identity",
    "the topic holds an intact probe that was never sent",
    "the topic holds intact probes that were never sent",
    cases=lambda judged: judged.verdict == Verdict.UNEXPECTED,
)
ABORTED_READ: Final = NightlyAnomaly(
    "G1a",
    "identity",
    "a write that is definitely not committed can be read",
    "writes that are definitely not committed can be read",
    cases=lambda judged: judged.verdict == Verdict.ABORTED_READ,
)
FRACTURED: Final = NightlyAnomaly(
    "fractured-transaction",
    "transaction",
    "a transaction committed, and this write of it is not there",
    "transactions committed, and writes of theirs are not there",
)
EARLY_EXPIRY: Final = NightlyAnomaly(
    "early-expiry",
    "identity",
    "promised records are gone that retention does not explain",
    cases=lambda judged: judged.verdict == Verdict.EARLY_EXPIRY,
    once_a="partition",
    lost=True,
)
UNEXPLAINED_EXPIRY: Final = NightlyAnomaly(
    "unexplained-expiry",
    "identity",
    "promised records are gone, and it is unknown whether by retention",
    cases=lambda judged: judged.verdict == Verdict.UNEXPLAINED_EXPIRY,
    once_a="topic",
)
WRITE_CYCLE: Final = NightlyAnomaly("G0", "cycle", "transactions wrote before and after one another")

ANOMALIES: Final[dict[str, NightlyAnomaly]] = {
    one.kind: one
    for one in (
        LOST_WRITE,
        DUPLICATE,
        INCONSISTENT_OFFSETS,
        CORRUPT,
        PHANTOM,
        ABORTED_READ,
        FRACTURED,
        EARLY_EXPIRY,
        UNEXPLAINED_EXPIRY,
        WRITE_CYCLE,
    )
}
"""By kind."""
