"""Two relays read what the other one has not committed.

An application that reads, works and writes in one transaction (a relay) has to read with read_committed. Here two of
them read uncommitted records, as Java's consumer does by default: each sees what the other one writes, before either
has committed. No order of the two explains both.

The brokers do nothing wrong, so the running canary is silent. Both relays record what they do, as Jepsen's clients do,
and `canary check` says of the history that information flows in a circle (G1c), and that the writes interleave (G0),
which Kafka's transactions always may.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.steps.waiting import UntilAcked
from canary.drills.steps.writing import Overlap

DRILL = Drill(
    title="Two relays read what the other one has not committed",
    source="jepsen-redpanda 3.8 and 3.9 (#8, #3036); ANOMALIES Part I, rule 11",
    steps=(UntilAcked(), Overlap("read_uncommitted")),
    says=(Said("G1c", severity="warning"), Said("G0", severity="info")),
    echoes=frozenset(),
    control=Control(
        why="With read_committed no relay is shown a record of an open transaction; writes still interleave (G0).",
        steps=(UntilAcked(), Overlap("read_committed")),
        may_say=frozenset({"G0"}),
    ),
)
