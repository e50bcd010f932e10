"""Every anomaly, defined once.

The model
---------
A *log* (in Kafka: a topic-partition of one incarnation; here: a **key**) is a sequence of places numbered by
*offsets*, 0, 1, 2 and so on, not all of which hold a message: markers of transactions and aborted data leave holes. A
*message* is a **value** that is sent at most once to a key; for the running canary it is a probe's identity. An
*operation* is what one process did in one go: ``send`` (some values to some keys, in order), ``poll`` (what the
client handed out, by key, in order), ``txn`` (both, in a transaction), ``assign`` and ``subscribe`` (which keys the
consumer reads from now on) and ``crash`` (the process ends, its thread goes on as a new process). Every operation is
invoked and then completes:

* ``ok``: it happened;
* ``fail``: it definitely did not;
* ``info``: the outcome is unknown. It may happen later, or never.

What we believe
---------------
A send that is ok happened. A send that is info happened if any ok poll returned one of its operation's values,
to any key (a transaction happens as a whole); otherwise we take it as not happened, which can only make us say less.
A failed send did not happen. Polls of any outcome show what is in the log, because a consumer must never be given
bad data, whatever becomes of its transaction. But only ok polls count as reading, because what a failed operation
polled was not processed.

From sends that happened and from all polls we gather, for each key, which values were seen at which offset. That should
be a function both ways: two values at one offset are ``inconsistent-offsets``, one value at two offsets a
``duplicate``. The offsets present, put in order and numbered densely, are the key's *version order*; holes vanish. With
it we ask whether consumers skip (``poll-skip``) or go back (``nonmonotonic-poll``) between operations or within one
(``int-``), whether sends of one process go up, whether everything below the highest place read was read
(``lost-write``), and which operation depends on which (``ww``: wrote the next place; ``wr``: read what the other
wrote): cycles are G0 and G1c. A send that is ok and never polled is ``unseen``; a consumer may be arbitrarily far
behind, so that means loss only after final reads. When something is not known (no offset, a value that lost the choice
among conflicting ones) no error is made from it.

What the protocol allows is in each entry; it is reported all the same.

The running canary (canary.anomalies.online) and the reconciliation (spark_reconcile) use the same words for the same
things, and know a few more: of checksums, of the cluster's topology, of retention. ``scopes`` says which engine decides
an anomaly. The exact rules are in canary.anomalies.offline, one module for each group, and in the documents made from
here.

One loss has echoes: a lost write is also unseen, each reader that passes it skips, and offsets behind it shift. The
incident gathers them: the first of them leads (for cause and exposure), the worst that is open heads it.

Adding an anomaly is adding an entry: metrics, API, documents, dashboards and runbooks are derived from CATALOGUE.
"""

from canary.anomalies.anomaly import Anomaly, Scope
from canary.anomalies.application_anomalies import APPLICATION_ANOMALIES
from canary.anomalies.cluster_anomalies import CLUSTER_ANOMALIES
from canary.anomalies.log_anomalies import LOG_ANOMALIES
from canary.anomalies.mirror_anomalies import MIRROR_ANOMALIES
from canary.anomalies.transaction_anomalies import TRANSACTION_ANOMALIES

__all__ = ["CATALOGUE", "Anomaly", "Scope"]

CATALOGUE: dict[str, Anomaly] = {
    anomaly.name: anomaly
    for anomaly in (
        *LOG_ANOMALIES,
        *TRANSACTION_ANOMALIES,
        *CLUSTER_ANOMALIES,
        *APPLICATION_ANOMALIES,
        *MIRROR_ANOMALIES,
    )
}
"""Name to entry, in the order in which documents list them."""
