"""Three ways to take a dead member's partitions over: a rebalance, the same name again, the brokers' own assignment.

The same application three times, its offsets stored once a record is processed. *Dynamic*: the group waits for the end
of the dead member's session, then everybody stops, and partitions are shared out anew. *Static*
(group.instance.id): the one that joins has the dead one's name, and is given its partitions at once, without a
rebalance. *Brokers* (group.protocol=consumer, KIP-848): the coordinator moves single partitions; the others are read on
all the while, and the dead one's wait for the end of its session, which is the brokers' to say.

No record may be left out in any of them, and none costs more copies than what was processed since the last commit. What
differs is for how long a partition stands still. As measured (2,000 records, 2 ms each, a commit a second, sessions of
6 s):

| group | twice | never | longest pause |
|---|---|---|---|
| dynamic | 83 | 0 | 6.5 s |
| static | 15 | 0 | 2.6 s |
| brokers | 23 | 0 | 6.9 s |
"""

from canary.drills.drill import Drill
from canary.drills.stage import Stage
from canary.drills.steps.groups import GroupReads
from canary.drills.steps.waiting import UntilAcked
from canary.lab import NodeProperties

_SESSION = {
    "group.consumer.min.session.timeout.ms": 6000,
    "group.consumer.session.timeout.ms": 6000,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.heartbeat.interval.ms": 500,
}
_TICK = {"auto.commit.interval.ms": 1000}

DRILL = Drill(
    title="Three ways to take partitions over",
    source="KIP-345 (static membership); KIP-848 (the new protocol)",
    stage=Stage(properties=NodeProperties(_SESSION)),
    steps=(
        GroupReads("dynamic", _TICK, commits="stored"),
        GroupReads("static", {**_TICK, "group.instance.id": "member"}, commits="stored", returns=True),
        GroupReads("brokers", {**_TICK, "group.protocol": "consumer"}, commits="stored"),
        UntilAcked(),
    ),
    says=(),
    echoes=frozenset(),
    uncontrolled="Nothing may be said of the cluster, and nothing left out: the drill is its own control.",
)
