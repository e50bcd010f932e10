"""The canary's disk is full.

Everything that it writes is on one disk, as it is set by default: ledger, store and probe log. A probe may be sent only
once its sending is on disk, so none is sent, and nothing is judged; whoever asks learns within 10 s that the canary
does not judge. When there is room again it goes on by itself, files the time as blind, and has forgotten nothing.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.steps.canary import LimitFiles
from canary.drills.steps.saying import NothingForgotten, NothingIsWritten, UntilNotReady, UntilOver, UntilReady
from canary.drills.steps.waiting import Mark, UntilAcked

DRILL = Drill(
    title="The canary's disk is full",
    source='CONTRACTS "Silence" (a ledger that cannot write); ANOMALIES Part II (blind)',
    steps=(
        UntilAcked(),
        Mark(),
        LimitFiles(0),
        UntilNotReady(10.0),
        NothingIsWritten(5.0),
        LimitFiles(None),
        UntilReady(15.0),
        UntilAcked(),
        UntilOver("blind"),
        NothingForgotten(),
    ),
    says=(Said("blind", severity="critical", within_s=10.0),),
    echoes=frozenset(),
    control=Control(
        why="Where files may be of a gigabyte, there is room.",
        steps=(UntilAcked(), LimitFiles(10**9), UntilAcked(), NothingForgotten()),
        may_say=frozenset(),
    ),
    short=True,
)
