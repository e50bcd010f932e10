"""The simulated world: the whole canary lives in it, and any part of it can fail at any step.

What runs is the product. It asks for what differs from run to run through ports alone (time and threads, the disk, the
database, Kafka's clients), and the world puts its own in their place. So a day takes seconds, and a seed brings a life
back. A plan follows from a seed: how long the life is, what probes, which harms strike when. When the harms are over,
what the canary said is held against what really happened: against the logs of the cluster, against what the ledger made
durable, and against what ``canary check`` and the night say of the same life. docs/testing.md has all verdicts.

Rooms, from the ground up:

* ``machine``: virtual time, tasks, a disk that lies, the store's database: what a process runs on
* ``kafka``: records, logs, copies, brokers; ``cluster``: the controller, topics, coordinators, faults and bugs
* ``clients``: librdkafka's producer, consumer and admin client
* ``world``: a canary with all that it stands in, and who writes down what happens; ``harms``: what can go wrong
* ``verdicts``: what is held against what; ``life``: a plan is lived and judged
* ``search``: many lives, the shortest that goes wrong, and mends taken out to see whether the search finds that

Three more rooms have no cluster and no clients. They make up what single engines are tested with: ``histories`` (a life
as a history and as facts at once), ``destruction`` (one partition in which data is destroyed), ``nights`` (tables for
the reconciliation, and an oracle in plain Python).

Begin with ``life.life.Life.live`` and ``world.world.World``. ``python -m simulation`` searches. It is in no wheel.
"""
