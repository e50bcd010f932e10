"""Brokers forget a producer that still sends.

A broker knows the last batches of each idempotent producer, and drops what is sent again; what it has not heard of for
producer.id.expiration.ms (a day) it forgets. Here that is 3 seconds, and for longer than that every answer is lost: the
producer sends the same batch again and again. Once the broker has forgotten it, it takes the batch for a new one.

The canary says which records stand twice, though the producer is idempotent.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.rig.direct import TWICE
from canary.drills.stage import Stage
from canary.drills.steps.network import Faults, Heal
from canary.drills.steps.waiting import Mark, Pass, UntilAcked
from canary.lab import LoseAnswers

_STAGE = Stage(lab={"proxied": True})

DRILL = Drill(
    title="Brokers forget a producer that still sends",
    source="idempotent-producer (expiration of PIDs); KIP-854",
    stage=_STAGE.with_broker_properties(
        producer_id_expiration_ms="3000", producer_id_expiration_check_interval_ms="500"
    ),
    steps=(
        UntilAcked(),
        Faults((LoseAnswers("Produce", count=1000),)),
        Pass(3),
        Mark(),
        Pass(8),
        Heal(),
        UntilAcked(),
    ),
    says=(Said("duplicate", at=TWICE, severity="critical"),),
    echoes=frozenset(),
    control=Control(why="A day is longer than any batch is sent again.", stage=_STAGE, may_say=frozenset()),
)
