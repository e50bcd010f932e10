"""Elections, exactly: where each leader epoch of a log begins, and who leads the metadata quorum.

These are questions that librdkafka does not ask; canary.wire does. Its parts put facts into the queue, and judge
nothing.

* ``lineages``: which epochs and high watermarks of watched logs are told already. Pure;
* ``asking``: a thread that asks round after round over canary.wire;
* ``epoch_watcher``: the one that asks for epochs; ``quorum_watcher``: the one that asks for the quorum.
"""
