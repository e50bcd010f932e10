"""The online engine: a pure fold of facts into violations, questions and measurements.

What the log looks like
-----------------------
Two maps say where probes are. A *claim* is offset -> identity: an acknowledgement or a read placed this probe there. A
*place* is identity -> offset. A claim that was acknowledged (and its transaction, if any, committed) or read is
*promised*: every consumer that passes its offset must be given it.

What goes wrong
---------------
Both maps should be functions, and agree in order:

* a claim meets another one at its offset: ``inconsistent-offsets``;
* a place meets another one of its identity: ``duplicate``, unless a truncation removed the first;
* sequence order is not offset order: ``reorder`` or ``nonmonotonic-send``;
* a consumer passes a promised offset without the probe: it is *missing*, and a fresh client reads the place again. If
  the re-read finds it: ``poll-skip``. If not, and the topic still has the same id: ``lost-write`` (decisions 5 to 8).

Example: sequence 5 is acknowledged at offset 17, and a consumer is given sequence 9 of the same producer at 17. The
claim of 5 is contradicted (inconsistent-offsets at 17), 5 is looked for again, and is lost if a re-read of 17 does not
find it.

Why this is sound
-----------------
Knowledge arrives late: an acknowledgement after the read of its own record, an abort after a read, the cluster's answer
after everything that it is about. So rules work on sets, not on moments, and hold for every order of arrival. Where
order itself is the question (a read before its commit was asked for), the ledger's order decides. A violation that a
recreated topic could explain is *held* until two samples, asked later, give the same topic id.

What it cannot see
------------------
Losses before the ledger's first fact (``memory-lost`` names such a time), losses of records that are not probes, and
losses between a record's last re-read and its expiry.

Where it stands
---------------
Structures are runs and intervals (sets), so memory grows with breaks and never with messages, and consecutive facts are
folded as one run. tracker is the fold; log, stream, state, generations and incarnations are what it remembers, codec
writes that into snapshots; missing and wanted are its open questions; rules judges single probes, losses what is
missing, topology the cluster itself; scope collects the findings, gauges shows the state from outside.
"""

from canary.anomalies.online.scope import Findings
from canary.anomalies.online.tracker import Tracker

__all__ = ["Findings", "Tracker"]
