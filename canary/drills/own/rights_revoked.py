"""The canary's right to write is taken away, and given back.

Somebody tidies up the access control lists, or a credential runs out while the canary works. The cluster refuses every
write from then on, and nothing is known of its durability any more: the canary says within seconds that it is blind,
and that it was refused. When the right is given back it goes on by itself.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.stage import Stage
from canary.drills.steps.access import AUTHORIZER, Deny, Permit
from canary.drills.steps.saying import NothingForgotten
from canary.drills.steps.waiting import Mark, UntilAcked, UntilSaid
from canary.lab import NodeProperties

DRILL = Drill(
    title="The canary is refused",
    source="ANOMALIES Part II (blind: authorisation)",
    stage=Stage(properties=NodeProperties(AUTHORIZER, AUTHORIZER)),
    steps=(
        UntilAcked(),
        Mark(),
        Deny("write"),
        UntilSaid("blind"),
        Permit("write"),
        UntilAcked(),
        NothingForgotten(),
    ),
    says=(Said("blind", severity="critical", within_s=15.0),),
    echoes=frozenset(),
    control=Control(
        why="A right that the canary does not use is taken away.",
        steps=(UntilAcked(), Deny("delete"), UntilAcked(), Permit("delete"), UntilAcked(), NothingForgotten()),
        may_say=frozenset(),
    ),
)
