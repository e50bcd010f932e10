"""The canary's credentials are deleted, and set again.

A password runs out, or is rotated for everybody but the canary. Its connections live on for some seconds, until the
brokers ask who it is; from then on it is refused, and knows nothing of the cluster any more. It says within seconds
that it is blind, and that it was refused; when its password counts again it goes on by itself.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.stage import Stage
from canary.drills.steps.access import Admit, TurnAway
from canary.drills.steps.saying import NothingForgotten, UntilOver
from canary.drills.steps.waiting import Mark, Pass, UntilAcked, UntilSaid

DRILL = Drill(
    title="The canary's credentials are deleted",
    source="ANOMALIES Part II (blind: authentication); KIP-368 (connections are authenticated again)",
    stage=Stage(guarded=True),
    steps=(
        UntilAcked(),
        Mark(),
        TurnAway(),
        UntilSaid("blind"),
        Admit(),
        UntilAcked(),
        UntilOver("blind", within_s=120.0),
        NothingForgotten(),
    ),
    says=(Said("blind", severity="critical", within_s=20.0),),
    echoes=frozenset(),
    control=Control(
        why="Credentials that are set anew to what they were count at the next authentication.",
        steps=(UntilAcked(), Admit(), Pass(12), UntilAcked(), NothingForgotten()),
        may_say=frozenset(),
    ),
)
