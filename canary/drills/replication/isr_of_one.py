"""One replica alone holds what is acknowledged.

Both followers die, and with min.insync.replicas=1 the leader goes on acknowledging. Nothing is lost yet; from now on
everything that is acknowledged exists once, in the page cache of one machine. This is the moment to be woken: after
the next failure it is too late.

The canary says so once it has lasted longer than it was told to wait.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.stage import KNOWABLE, PROBES, Stage, Topic
from canary.drills.steps.brokers import Kill, Start
from canary.drills.steps.waiting import Mark, Pass, UntilAcked, UntilIsr

_STAGE = Stage(
    topics={PROBES: Topic(config={"min.insync.replicas": "1"})},
    cluster={"watch": {"topics": [], "isr_of_one_after": "2s"}},
)

DRILL = Drill(
    title="One replica alone holds what is acknowledged",
    source="call-me-maybe-kafka; why-fsync",
    stage=_STAGE,
    steps=(
        Kill((2, 3)),
        UntilIsr(frozenset({1})),
        Mark(KNOWABLE),
        Pass(5),
        Start((2, 3)),
        UntilIsr(frozenset({1, 2, 3})),
        UntilAcked(20),
    ),
    says=(Said("isr-of-one", partitions=frozenset({(PROBES, 0)}), within_s=5, severity="warning"),),
    echoes=frozenset(),
    control=Control(
        why="With min.insync.replicas=2 a leader that is alone acknowledges nothing: unavailable, not unsafe.",
        stage=_STAGE.with_topic_config(min_insync_replicas="2"),
        may_say=frozenset(),
    ),
)
