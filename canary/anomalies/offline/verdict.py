"""All rules over one history."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from canary.anomalies import policy
from canary.anomalies.catalogue import CATALOGUE
from canary.anomalies.offline import cycles, log_rules, order_rules, read_rules, tables
from canary.anomalies.offline.cases import Case, Cases
from canary.anomalies.offline.tables import Tables
from canary.history.columns import OK, TXN, History


@dataclass(frozen=True, slots=True)
class Options:
    """What the checker cannot know from the history.

    Attributes:
        sub_via: How consumers came to their keys: "assign", "subscribe" or both. Under subscribe a rebalance may move
            them, so that poll-skip and nonmonotonic-poll are allowed.
        ww_deps: Whether the order of writes counts as dependency. It makes G1c normal, so that G1c is allowed then.
    """

    sub_via: frozenset[str] = frozenset({"assign"})
    ww_deps: bool = True

    @property
    def allowed(self) -> frozenset[str]:
        """Names of the anomalies that do not make a history invalid."""
        return policy.allowed(self.sub_via | ({"ww_deps"} if self.ww_deps else frozenset()))


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What is wrong with a history.

    Attributes:
        anomalies: Name to cases, of those found, in the order of the catalogue.
        allowed: Those names among them that the protocol allows.
        operations: Number of operations in the history.
        confirmed: Whether any send, poll or txn was ok; a history in which none was proves nothing and is not valid.
    """

    anomalies: Mapping[str, Sequence[Case]]
    allowed: frozenset[str]
    operations: int
    confirmed: bool

    @property
    def valid(self) -> bool:
        """Something was confirmed, and nothing is wrong but what is allowed."""
        return self.confirmed and self.allowed >= set(self.anomalies)

    @property
    def counts(self) -> dict[str, int]:
        """Number of cases by name."""
        return {name: len(cases) for name, cases in self.anomalies.items()}


@dataclass(frozen=True, slots=True)
class Verdict(Conclusion):
    """What is wrong with a history that is in memory, and the ``tables`` it was concluded from."""

    tables: Tables


def check(history: History, options: Options | None = None) -> Verdict:
    """Return the verdict on ``history``."""
    options = options or Options()
    base = tables.build(history)
    found = by_key(base)
    if options.ww_deps:
        found["G0"] = cycles.write_cycles(base)
    found["G1c"] = cycles.circular_information_flow(base, ww_deps=options.ww_deps)
    return Verdict(
        anomalies={name: found[name] for name in CATALOGUE if found.get(name)},
        allowed=options.allowed,
        operations=history.operations,
        confirmed=bool(((history.type == OK) & (history.f <= TXN)).any()),
        tables=base,
    )


def by_key(base: Tables) -> dict[str, Cases]:
    """Return the cases of every rule that looks at one key at a time, none of them left out: all but the cycles."""
    int_poll_skip, int_nonmonotonic_poll = order_rules.internal_polls(base)
    int_send_skip, int_nonmonotonic_send = order_rules.internal_sends(base)
    poll_skip, nonmonotonic_poll = order_rules.external_polls(base)
    return {
        "lost-write": read_rules.lost_write(base),
        "unseen": read_rules.unseen(base),
        "duplicate": log_rules.duplicate(base),
        "inconsistent-offsets": log_rules.inconsistent_offsets(base),
        "poll-skip": poll_skip,
        "nonmonotonic-poll": nonmonotonic_poll,
        "int-poll-skip": int_poll_skip,
        "int-nonmonotonic-poll": int_nonmonotonic_poll,
        "nonmonotonic-send": order_rules.external_sends(base),
        "int-nonmonotonic-send": int_nonmonotonic_send,
        "int-send-skip": int_send_skip,
        "phantom": log_rules.phantom(base),
        "G1a": read_rules.aborted_read(base),
        "precommitted-read": read_rules.precommitted_read(base),
    }
