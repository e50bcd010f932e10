"""The checker of recorded histories: every rule of ANOMALIES Part I over all of a history at once.

``check`` takes a History (columns) and gives a Verdict: for each anomaly found its cases, and whether the history is
valid, that is, whether nothing was found but what the protocol allows. What the words mean is in
canary.anomalies.catalogue; each rule says in its docstring what it finds, what it leaves out and why:

* ``tables``: messages, the log, version orders: what all rules share;
* ``log_rules``: inconsistent-offsets, duplicate, phantom;
* ``read_rules``: G1a, precommitted-read, lost-write, unseen;
* ``order_rules``: skipping and going back, of polls and of sends, within operations and between them;
* ``cycles``: G0 and G1c;
* ``metrics``: realtime lag, unseen over time, how often things were consumed: numbers, not errors.

All of it is NumPy over columns, linear in the history (sorting only what is short or nearly sorted); evidence is made
only for the cases that are looked at. There is no I/O here.
"""

from canary.anomalies.offline.cases import Case, Cases
from canary.anomalies.offline.verdict import Options, Verdict, check

__all__ = ["Case", "Cases", "Options", "Verdict", "check"]
