"""An operator elects uncleanly.

Everything is set as it should be: three replicas, min.insync.replicas=2, unclean elections off. Broker 3 dies, and what
is acknowledged from now on is on brokers 1 and 2. They die as well. Broker 3 comes back first, and Kafka rightly does
not let it lead: the partition is offline. An operator wants it online and elects broker 3 by hand. When the others
return they cut off what broker 3 never had.

The canary says that the partition is offline and who must be brought back; after the election, that it was unclean,
which acknowledged probes are gone, and where the log was cut.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.stage import PROBES, Stage
from canary.drills.steps.brokers import Kill, Start
from canary.drills.steps.operating import Elect
from canary.drills.steps.waiting import Mark, UntilAcked, UntilIsr, UntilLed, UntilReadable, UntilSaid

_OFFLINE = "offline"
_UNTIL_OFFLINE = (
    Kill((3,)),
    UntilIsr(frozenset({1, 2})),
    UntilAcked(30),
    Kill((1, 2)),
    Start((3,)),
    UntilLed(None),
    Mark(_OFFLINE),
    UntilSaid("offline-partition"),
)
_AFTERWARDS = (UntilReadable(), UntilIsr(frozenset({1, 2, 3})), UntilAcked(20))

DRILL = Drill(
    title="An operator elects uncleanly",
    source='call-me-maybe-kafka ("make the decision yourself"); KIP-460',
    stage=Stage(cluster={"watch": {"topics": []}}),
    steps=(*_UNTIL_OFFLINE, Elect("unclean"), UntilLed(3), Start((1, 2), wait=False), *_AFTERWARDS),
    says=(
        Said("offline-partition", partitions=frozenset({(PROBES, 0)}), within_s=8, since=_OFFLINE),
        Said("unclean-election", at="gone", how="first", severity="critical"),
        Said("lost-write", at="gone"),
        Said("truncation", at="gone", how="first"),
    ),
    echoes=frozenset({"unseen", "inconsistent-offsets"}),
    control=Control(
        why="Who waits for a broker that was in sync loses nothing.",
        steps=(*_UNTIL_OFFLINE, Start((1, 2), wait=False), *_AFTERWARDS),
        may_say=frozenset({"unseen", "offline-partition"}),
    ),
)
