"""A client that commits by itself commits what nobody has processed.

With enable.auto.commit (the default) librdkafka takes a record for done when it hands it over, and commits it at the
next tick of auto.commit.interval.ms, whatever the application has made of it by then. An application that takes many
records at once and needs longer for them than a tick loses the rest of them when it dies: the group goes on behind
them. (Jepsen claimed the same of the Java client, and withdrew it in 2024: that one commits at the next poll, when the
records before are done. librdkafka has no such rule.)

Stored offsets make the difference: with enable.auto.offset.store=false the application calls store_offsets() for a
record that is processed, and the client commits only that. Then nothing is left out, and what was processed since the
last commit is processed again.

The cluster keeps every record all the while: the canary says nothing. As measured (2,000 records, 10 ms for each,
two members with batches of 100, one of them killed, a tick of 0.3 s):

| group | twice | never |
|---|---|---|
| the client commits what it has handed over | 0 | 84 |
| the client commits what was processed | 18 | 0 |
| a commit after each batch | 15 | 0 |
"""

from canary.drills.drill import Control, Drill
from canary.drills.steps.groups import GroupReads
from canary.drills.steps.waiting import UntilAcked

_TICK = {"auto.commit.interval.ms": 300}

DRILL = Drill(
    title="A group that commits before it has processed",
    source="jepsen-redpanda #10 (auto-commit)",
    steps=(GroupReads("handed over", _TICK, work_s=0.01, loses=True), UntilAcked()),
    says=(),
    echoes=frozenset(),
    control=Control(
        why="What is committed was processed.",
        steps=(
            GroupReads("processed", _TICK, commits="stored", work_s=0.01),
            UntilAcked(),
        ),
        may_say=frozenset(),
    ),
)
