"""No broker answers.

All brokers freeze, as behind a firewall that drops every packet: connections stay open, nothing comes back. That is no
loss, but silence is not health either: after 45 s without any answer the canary says that it is blind. When the brokers
go on, so does it, by itself, and nothing was lost.
"""

from canary.drills.drill import REPLICAS_MISSING, Control, Drill, Said
from canary.drills.stage import KNOWABLE
from canary.drills.steps.brokers import Pause, Resume
from canary.drills.steps.saying import NothingForgotten, UntilOver
from canary.drills.steps.waiting import Mark, Pass, UntilAcked, UntilSaid

_ALL = (1, 2, 3)

DRILL = Drill(
    title="No broker answers",
    source='CONTRACTS "Silence"; ANOMALIES Part II (blind)',
    steps=(
        UntilAcked(),
        Mark(KNOWABLE),
        Pause(_ALL),
        UntilSaid("blind"),
        Resume(_ALL),
        UntilAcked(),
        UntilOver("blind"),
        NothingForgotten(),
    ),
    says=(Said("blind", within_s=60.0, severity="critical"),),
    echoes=REPLICAS_MISSING | {"offline-partition", "stalled", "unwritable"},
    control=Control(
        why="After 15 s the brokers go on: no longer than a change of controller takes.",
        steps=(UntilAcked(), Pause(_ALL), Pass(15), Resume(_ALL), UntilAcked(), NothingForgotten()),
        may_say=REPLICAS_MISSING | {"offline-partition"},
    ),
)
