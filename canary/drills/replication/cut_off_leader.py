"""A leader that only clients and the controller can reach.

The network between broker 1, the leader, and its followers fails; everything else works. With min.insync.replicas=1 the
leader drops its followers from the ISR and goes on acknowledging. A little later it is cut off from everybody. With
unclean.leader.election.enable=true one of the followers, which missed all of it, leads. When the network is mended the
old leader is told so, and cuts off what it alone had acknowledged. No process has died, and no disk has failed.

The canary says that one replica alone holds the data before any of it is lost; then which acknowledged probes are gone,
where the log was cut, and that the election was unclean.
"""

from canary.drills.drill import Control, Drill, Said
from canary.drills.stage import PROBES, Stage, Topic
from canary.drills.steps.network import Faults, Heal
from canary.drills.steps.waiting import Mark, UntilAcked, UntilIsr, UntilReadable, UntilSaid
from canary.lab import Cut

_LONE = "alone"
_STAGE = Stage(
    lab={"proxied": True},
    topics={PROBES: Topic(config={"min.insync.replicas": "1", "unclean.leader.election.enable": "true"})},
    cluster={"watch": {"topics": [], "isr_of_one_after": "2s"}},
)
_FROM_FOLLOWERS = Faults((Cut(1, 2), Cut(1, 3)))
_FROM_ALL = Faults((Cut(1, "any"),))
_WHOLE = UntilIsr(frozenset({1, 2, 3}))

DRILL = Drill(
    title="A leader that only clients and the controller can reach",
    source="call-me-maybe-kafka (the experiment as it was done, with a network that fails)",
    stage=_STAGE,
    steps=(
        UntilAcked(20),
        _FROM_FOLLOWERS,
        UntilIsr(frozenset({1})),
        Mark(_LONE),
        UntilSaid("isr-of-one"),
        UntilAcked(40),
        _FROM_ALL,
        UntilIsr(frozenset({2, 3})),
        UntilReadable(),
        Heal(),
        _WHOLE,
        UntilAcked(20),
    ),
    says=(
        Said("isr-of-one", partitions=frozenset({(PROBES, 0)}), within_s=6, since=_LONE, severity="warning"),
        Said("lost-write", at="gone"),
        Said("truncation", at="gone", how="first"),
        Said("unclean-election", at="gone", how="first", severity="critical"),
    ),
    echoes=frozenset({"unseen", "inconsistent-offsets"}),
    control=Control(
        why="With min.insync.replicas=2 a leader without followers acknowledges nothing.",
        stage=_STAGE.with_topic_config(min_insync_replicas="2", unclean_leader_election_enable="false"),
        steps=(UntilAcked(20), _FROM_FOLLOWERS, UntilIsr(frozenset({1})), Heal(), _WHOLE, UntilAcked(20)),
        may_say=frozenset({"unseen"}),
    ),
)
