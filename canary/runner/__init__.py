"""Wires the parts together and keeps them running.

For each cluster there is one ClusterRunner: it knows the order in which things start (store, lease, ledger, replay,
cluster, topic, generation, consumers, producers), acts on what the judge found (re-reads, renewals, look-ups), and
starts again readers and writers that failed. Who owns what:

* the **judge** thread owns the ledger and the tracker: it takes facts from the one queue, makes them durable, folds
  them, and publishes frozen views;
* the **flusher** thread owns what is on its way to the store: views and violations, kept until the store has them;
* the **shipper** thread turns sealed segments into the probe log;
* the **keeper** thread owns the lease;
* the **supervisor** thread starts again what ends, or ends the runner (canary.runner.supervision.supervisor);
* each probing and watching part owns its client.

Between them are queues and frozen values; nothing is shared that changes.
"""
