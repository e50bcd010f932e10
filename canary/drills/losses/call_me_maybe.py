"""A lone leader acknowledges, and dies.

With min.insync.replicas=1 a leader that has lost its followers goes on acknowledging: what it alone holds counts as
written. Brokers 2 and 3, the followers, freeze; broker 1 leads alone, and acknowledges for some seconds; then it dies.
With unclean.leader.election.enable=true a follower that is far behind leads as soon as it is back. Kafka calls that
available: everything that was acknowledged by the lone leader is gone, and its offsets are given to other records.

The canary says that one replica alone holds the data before any of it is lost; then which acknowledged probes are gone,
where the log was cut, and that the election was unclean; and that the end of an application's log went back as well.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.stage import ORDERS, PROBES, Stage, Topic
from canary.drills.steps.brokers import Kill, Pause, Resume, Start
from canary.drills.steps.waiting import Mark, UntilAcked, UntilIsr, UntilReadable, UntilSaid
from canary.drills.steps.writing import Produce

_LONE = "alone"
_UNSAFE = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
_STAGE = Stage(
    topics={PROBES: Topic(config=_UNSAFE), ORDERS: Topic(config=_UNSAFE)},
    cluster={"watch": {"topics": [ORDERS], "offsets": [ORDERS], "isr_of_one_after": "2s"}},
)
_UNTIL_DEAD = (
    Produce(100),
    Pause((2, 3)),
    UntilIsr(frozenset({1})),
    UntilIsr(frozenset({1}), topic=ORDERS),
    Mark(_LONE),
    UntilSaid("isr-of-one"),
    Produce(50, called="ordered from one"),
    UntilAcked(50),
    Kill((1,)),
)

DRILL = Drill(
    title="A lone leader acknowledges, and dies",
    source="call-me-maybe-kafka",
    stage=_STAGE,
    steps=(
        *_UNTIL_DEAD,
        Resume((2, 3)),
        UntilIsr(frozenset({2, 3})),
        UntilReadable(),
        UntilAcked(20),
        Start((1,)),
        UntilIsr(frozenset({1, 2, 3})),
    ),
    says=(
        Said("isr-of-one", partitions=frozenset({(PROBES, 0)}), within_s=6, since=_LONE, severity="warning"),
        Said("lost-write", at="gone"),
        Said("truncation", at="gone", how="first"),
        Said("unclean-election", at=("gone", "ordered from one"), how="first", severity="critical"),
        Said("offset-regression", at="ordered from one", how="first"),
    ),
    echoes=frozenset({"unseen", "inconsistent-offsets"}),
    control=Control(
        why="With unclean.leader.election.enable=false the followers wait for the one that has it all.",
        stage=_STAGE.with_topic_config(unclean_leader_election_enable="false"),
        steps=(
            *_UNTIL_DEAD,
            Resume((2, 3)),
            UntilSaid("offline-partition"),
            Start((1,)),
            UntilIsr(frozenset({1, 2, 3})),
            UntilReadable(),
            UntilAcked(20),
        ),
        may_say=frozenset({"unseen", "isr-of-one", "offline-partition"}),
    ),
    short=True,
)
