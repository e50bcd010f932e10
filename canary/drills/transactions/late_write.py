"""A write arrives after its transaction has been aborted.

A producer of an application writes a record in a transaction, and the request is held up on its way, a network away.
The client gives it up and aborts, and the abort is done in every partition. Then the request arrives. A broker that
does not ask the coordinator takes it for the beginning of the next transaction, which nobody has begun and nobody will
end: no read_committed consumer is given anything behind that record, whoever wrote it, and no timeout of a transaction
ends it. Since Kafka 3.6 the broker asks first (transaction.partition.verification.enable), and refuses the record.

The canary says that the last stable offset stands still. In the end the application is back, and commits another
record: that ends what hangs, and the record that it had aborted is read as committed with it.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.stage import Stage
from canary.drills.steps.network import Faults, Heal
from canary.drills.steps.waiting import Mark, UntilAcked, UntilSaid
from canary.drills.steps.writing import APPLICATION, GiveUp, LeaveOpen
from canary.lab import Hold

_CONTROL = Stage(lab={"proxied": True})
_LATE = (UntilAcked(), Faults((Hold("Produce", until_api="JoinGroup", count=9, client=APPLICATION),)), GiveUp(), Heal())

DRILL = Drill(
    title="A write arrives after its transaction has been aborted",
    source="KAFKA-14402 (KIP-890)",
    stage=_CONTROL.with_broker_properties(transaction_partition_verification_enable="false"),
    steps=(
        *_LATE,
        Mark(),
        UntilAcked(seen=False),
        UntilSaid("stalled"),
        LeaveOpen(commits=True, mark="ended"),
        UntilAcked(),
    ),
    says=(Said("stalled", within_s=75),),
    echoes=frozenset(),
    control=Control(
        why="The broker asks the coordinator, and refuses the record.",
        stage=_CONTROL,
        steps=(*_LATE, UntilAcked()),
        may_say=frozenset(),
    ),
)
