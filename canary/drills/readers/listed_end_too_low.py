"""A broker lists an end of its log that is too low.

Asked where a log ends, a broker names an offset below records that it has acknowledged, and that it gives to every
reader: so does Tansu 0.6, by one batch. Probes come in bursts, and seldom, so that many answers about the end come
after an acknowledgement.

Nothing is lost, and the canary says nothing: an end raises the question, and a fetch answers it.
"""

from canary.drills.drill import Drill
from canary.drills.stage import PROBES, Stage
from canary.drills.steps.network import Faults, Heal
from canary.drills.steps.waiting import UntilAcked
from canary.lab import Lie

DRILL = Drill(
    title="A broker lists an end of its log that is too low",
    source="tansu-io/tansu 0.6 (ListOffsets and Fetch do not agree)",
    stage=Stage(lab={"proxied": True}, modes={"idempotent": {"interval": "5s", "burst": 10}}),
    steps=(
        UntilAcked(10),
        Faults((Lie("client", "any", PROBES, "end too low"),)),
        UntilAcked(20),
        UntilAcked(20),
        UntilAcked(20),
        Heal(),
        UntilAcked(10),
    ),
    says=(),
    echoes=frozenset(),
    uncontrolled="It is a control itself: nothing is lost, and nothing may be said.",
)
