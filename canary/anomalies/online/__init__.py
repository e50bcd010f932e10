"""The online engine: a pure fold of facts into violations, questions and measurements.

How it thinks
-------------
Two maps say where probes are: a *claim* (offset to identity: somebody, an acknowledgement or a read, said that this
probe stands there) and a *place* (identity to offset). Both should be functions; where a claim meets another at its
offset, there are ``inconsistent-offsets``; where a place meets another of its identity, a ``duplicate`` (unless the
first was cut off); where places and sequences disagree in order, a ``reorder``. A claim that was acknowledged (and its
transaction committed) or read is *promised*: it must be found by whoever passes its offset. What is not found is
*missing*: a fresh client reads the place again, and only then, and only when the topic is still the same one, it is a
``lost-write`` (decisions 5 to 8 of the architecture; the steps are in losses.py).

Late knowledge: an acknowledgement may come after the read of its own record, a commit or abort after a read, the
cluster's word about itself after everything it is about. Each rule stands on sets, not on moments, so it holds for each
such order; where order itself is the question (a read before its commit was asked for) the ledger's order decides.

All structures are runs and intervals: consecutive probes cost nothing to remember, and consecutive facts are folded as
one (the cost of a fact is then that of comparing it with its predecessor).

Modules: tracker (the fold), state, generations and codec (what is remembered), deliveries, claims, losses, retention,
transactions, incarnations, cluster (the rules), questions (what it asks), scope (where findings go), view (from
outside).
"""

from canary.anomalies.online.tracker import Findings, Tracker
from canary.anomalies.online.view import view

__all__ = ["Findings", "Tracker", "view"]
