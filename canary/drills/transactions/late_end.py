"""The end of one transaction ends the next one.

A client asks for a commit (EndTxn), and the request is held up on its way, a network away. The client gives the
connection up, asks again on another one, has its answer, and begins the next transaction. In the middle of that one the
first request arrives. Nothing in it says which transaction it means: the coordinator commits what has been written so
far. What the client writes from then on is refused, and it aborts; but the first part of its transaction has been
committed, and is shown. With KIP-890 each transaction has an epoch of its own, which the late request lacks; but only
for clients that take part in it. librdkafka 2.16 does not, and meets this on Kafka 4.1 as on 3.9.

The canary says which records of an aborted transaction are shown, and were read before a commit was asked for.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.rig.direct import SHOWN
from canary.drills.stage import PROBES, TRANSACTIONS, Stage, Topic
from canary.drills.steps.network import Faults, Heal, UntilHappened
from canary.drills.steps.waiting import Pass, UntilAcked
from canary.lab import Delay, Hold

_BEFORE = UntilAcked(60, topic=TRANSACTIONS)
_SLOW = Delay("client", 1, 0.3, api="Produce")
"""So that the transaction is under way when its end comes, and what is refused is known later than what is shown."""
_AFTER = (Pass(10), Heal(), UntilAcked(60, topic=TRANSACTIONS))

DRILL = Drill(
    title="The end of one transaction ends the next one",
    source="Jepsen on Bufstream 0.1.0; KIP-890; jepsen-redpanda 3.9",
    stage=Stage(
        lab={"proxied": True},
        topics={PROBES: Topic(), TRANSACTIONS: Topic()},
        modes={
            "transactional": {"interval": "500ms", "records": 12, "abort_percent": 0, "timeout": "10s", "most_ids": 1}
        },
        clients={"socket.timeout.ms": "3000", "batch.num.messages": "2", "max.in.flight": "1"},
    ),
    steps=(_BEFORE, Faults((Hold("EndTxn", until_api="Produce"), _SLOW)), UntilHappened(), *_AFTER),
    says=(Said("G1a", at=SHOWN, within_s=15.0), Said("precommitted-read", at=SHOWN, how="within", within_s=15.0)),
    echoes=frozenset(),
    control=Control(why="Nothing is held up.", steps=(_BEFORE, Faults((_SLOW,)), *_AFTER), may_say=frozenset()),
)
