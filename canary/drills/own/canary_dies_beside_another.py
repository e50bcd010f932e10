"""One of two canaries dies, and the other one lives.

Each watches a cluster of its own, and one Prometheus scrapes both. All processes of one end (-9), as when its machine
is gone, and nothing is left that could report it. A rule that asks for any series at all is content with those of the
living one, and a cluster is without a canary unnoticed.

The cluster of the dead canary must be missed by its name: no API has series of it, CanaryAbsent (`canary alert rules`)
fires for it and for no other cluster, and its heartbeat is not called any more. The alert is looked for where PATH has
a `prometheus`, with a hold of 10 s in place of 2 minutes. The living canary goes on, and says nothing of its cluster.
"""

from canary.drills.drill import Control, Drill
from canary.drills.steps.canary import BesideAnother
from canary.drills.steps.saying import NothingForgotten
from canary.drills.steps.waiting import UntilAcked


def _beside(*, dies: bool) -> tuple[UntilAcked | BesideAnother | NothingForgotten, ...]:
    return (UntilAcked(), BesideAnother(dies=dies), UntilAcked(), NothingForgotten())


DRILL = Drill(
    title="A canary dies beside another",
    source='CONTRACTS "Silence"; notifications "When the alarm itself is gone"',
    steps=_beside(dies=True),
    says=(),
    echoes=frozenset(),
    control=Control(
        why="Both live: no alert fires, and the heartbeat is called.", steps=_beside(dies=False), may_say=frozenset()
    ),
)
