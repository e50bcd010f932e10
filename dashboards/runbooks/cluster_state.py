"""Runbooks of the cluster's state: partitions without a leader or with too few replicas, another cluster or topic."""

from typing import Final

from dashboards.runbooks import commands as run
from dashboards.runbooks import shared
from dashboards.runbooks.runbook import Runbook, Step

_SINCE: Final = Step("See when leader and ISR changed, and which brokers came and went.", run.TOPOLOGY, run.BROKERS)
_WHY_BEHIND: Final = Step(
    "Find out why replicas are behind: the broker is down or cut off, its disk is full or slow, a throttle was left "
    "behind by a reassignment, or the leader is the slow one.",
    run.ANSWERING,
    run.REASSIGNMENTS,
    run.BROKER_SETTINGS,
    run.DISKS,
)
_CONTROLLERS: Final = Step(
    "Without a quorum of controllers nothing is elected: see that there is a leader and that the voters keep up.",
    run.QUORUM,
    run.QUORUM_LAG,
)

OFFLINE: Final = Runbook(
    title="A partition has no leader",
    kinds=("offline-partition",),
    means=(
        Step(
            "Every replica that is allowed to lead is down. Kafka waits rather than lose what only they have: that is "
            "right, and the wait ends when one of them is back."
        ),
    ),
    real=(
        shared.ON_THE_PAGES,
        Step(
            "List the partitions without a leader, and who was last in sync (Isr, Elr, LastKnownElr).",
            run.UNAVAILABLE,
            run.DESCRIBE,
        ),
        _CONTROLLERS,
    ),
    stop=(
        Step(
            "Bring back a broker that Isr or Elr names: it has everything that was acknowledged, unless its machine "
            "crashed, which takes along what was in memory only. The first one back leads, so of several start first "
            "the one whose machine did not crash. If its disk may be failing, copy it before you start the broker."
        ),
        shared.PRESERVE,
        Step(
            "If the machine is dead and its disk is not: start a broker with the same node.id on that disk (or a full "
            "copy of its log.dirs, meta.properties included) elsewhere. It comes back as the same in-sync replica."
        ),
        Step(
            "Do not elect uncleanly to be quick, and do not delete and recreate the topic: both discard acknowledged "
            "messages for ever."
        ),
        shared.UNCLEAN_OFF,
    ),
    extent=(
        Step(
            "See what else is near: partitions below min.insync.replicas, and just at it.",
            run.UNDER_MIN_ISR,
            run.AT_MIN_ISR,
        ),
        _SINCE,
        shared.EXPOSED,
    ),
    recover=(
        Step(
            "When it has a leader again: wait for the ISR, then give the leadership back.",
            run.DESCRIBE,
            run.ELECT_PREFERRED,
        ),
        Step(
            "An unclean election is the lesser harm only if all of this holds: the disks of every replica in Isr and "
            "Elr are gone for good (or for longer than the business can wait), what is left is copied, and the owners "
            "of the topic agree to lose what only those brokers had. It takes the first living replica in the order of "
            "Replicas: see first which living one has the longest log at the newest epoch, and let only that one live.",
            run.EPOCHS,
            run.BATCHES,
            run.ELECT_UNCLEAN,
        ),
        Step("After one: it is a loss. Go on as in CanaryLostWrite: extent, copies, groups, owners."),
        shared.READ_EVERYTHING,
        Step(
            "Redpanda: `rpk cluster health` and `rpk cluster partitions list --all` name leaderless partitions; a "
            "majority of replicas has to come back. `rpk cluster partitions unsafe-recover` is its unclean election."
        ),
    ),
    tell=(
        Step("The owners of the topics: not available since when; nothing acknowledged is lost while you wait."),
        shared.CLOSE,
    ),
)
THIN: Final = Runbook(
    title="Too few replicas are in sync",
    kinds=("isr-of-one", "under-min-isr", "isr-below-half", "under-replicated"),
    means=(
        Step(
            "With one replica in sync what is acknowledged exists once: the next failure loses it. Below "
            "min.insync.replicas producers with acks=all are refused instead: unavailable, not unsafe."
        ),
    ),
    real=(
        shared.ON_THE_PAGES,
        Step(
            "Compare with the cluster's own view; a rolling restart explains minutes, not more.",
            run.ISR,
            run.UNDER_REPLICATED,
            run.UNDER_MIN_ISR,
        ),
    ),
    stop=(
        Step(
            "Do not restart, stop or drain the broker that is still in sync: it may have the only copy. Stop any "
            "rolling restart, upgrade or reassignment that is under way.",
            run.DESCRIBE,
            run.REASSIGNMENTS,
        ),
        Step("Bring the followers back first: start what is down.", run.BROKERS, run.ANSWERING),
        Step(
            "If refusing writes is better than losing them: with min.insync.replicas=2 a lone leader acknowledges "
            "nothing (acks=all). Never lower it to get writes going.",
            run.SETTINGS,
            run.MIN_ISR_2,
        ),
        shared.UNCLEAN_OFF,
    ),
    extent=(
        _WHY_BEHIND,
        _SINCE,
        Step("See all partitions that one more failure makes unavailable.", run.AT_MIN_ISR),
    ),
    recover=(
        Step(
            "Wait until the ISR is complete again, everywhere; then give leaderships back.",
            run.UNDER_REPLICATED,
            run.ELECT_PREFERRED,
        ),
        Step(
            "If the lone leader's disk is the one that fails: let followers catch up before anything else, and only "
            "then move the leadership off it; copy its log directory if they cannot."
        ),
    ),
    tell=(
        Step("The owners of the topics: which writes are at risk or refused, since when."),
        shared.CLOSE,
    ),
)
ANOTHER: Final = Runbook(
    title="The cluster or the topic is not the one it was",
    kinds=("another-cluster", "topic-recreated", "leader-epoch-regression"),
    means=(
        Step(
            "Clients notice none of these: they go on writing and reading, at offsets that mean other messages, in a "
            "cluster or topic without their data, or in one whose metadata is older than it was."
        ),
    ),
    real=(
        Step("See which it was, and since when.", run.VIOLATIONS, run.VIOLATION),
        Step("Ask the cluster itself for its id, and the topic for its TopicId.", run.QUORUM, run.DESCRIBE),
        Step(
            "See where the address leads: DNS, load balancers, Kubernetes services; meta.properties on the brokers.",
            run.META,
        ),
    ),
    stop=(
        Step("Stop what writes through that address until you know which cluster is right: its writes go astray."),
        Step(
            "Do not delete the topic, do not format storage, and do not run `canary forget`: the known cluster's "
            "promises are judged on when it answers again."
        ),
        Step(
            "A topic that was just deleted: its files stay on each broker as TOPIC-PARTITION.*-delete for "
            "file.delete.delay.ms, a minute by default. Copy them at once, or stop a broker that still has them."
        ),
    ),
    extent=(
        Step("See what else was made anew or went back: topics, controllers, their logs.", run.BROKERS, run.QUORUM_LAG),
        Step(
            "Another cluster: connections that were open may still be in the known one; only new ones lead elsewhere. "
            "The evidence names the client that met it. Ask each address of bootstrap.servers, and each address that "
            "its name resolves to. The violation ends by itself when the known cluster answers again."
        ),
        shared.GROUPS_BEYOND,
    ),
    recover=(
        Step(
            "Put the address right; or, if the new cluster is the right one, enter it in the settings under a name of "
            "its own."
        ),
        shared.SALVAGE_ALL,
        shared.RESCUE,
        shared.READ_THE_RESCUED,
        shared.WRITE_AGAIN,
        shared.RESET_GROUPS,
    ),
    tell=(
        Step("Everybody who writes through that address: from when to when their writes went elsewhere."),
        shared.CLOSE_LOST,
    ),
)
GONE: Final = Runbook(
    title="A topic is gone, with what was acknowledged in it",
    kinds=("promises-void", "watched-topic-gone", "topic-deleted", "metadata-went-back"),
    means=(
        Step(
            "Somebody deleted the topic, or the cluster has lost the metadata in which it is: a controller's disk that "
            "was emptied and formatted with the same cluster id, for example. Then all topics are gone at once, and "
            "where watch.quorum is set metadata-went-back is said a minute later."
        ),
    ),
    real=(
        Step(
            "See which topic it was, since when, and what it held; or what went back, from what to what.",
            run.VIOLATIONS,
            run.VIOLATION,
        ),
        Step(
            "Ask the cluster itself for the topic and its TopicId, and each broker by itself for the quorum: compare "
            "LeaderEpoch and HighWatermark with the evidence.",
            run.DESCRIBE,
            run.QUORUM,
        ),
    ),
    stop=(
        shared.TOUCH_NOTHING,
        Step(
            "Look at each broker's log directory. A broker that has directories TOPIC-PARTITION.*-delete or *-stray "
            "follows the new metadata, and deletes them: *-delete after file.delete.delay.ms, a minute by default. If "
            "nobody meant it, kill that broker, copy its disk, and do not start it again.",
        ),
        Step(
            "A broker that has none still serves its topics by the metadata that it had, and loses them with its next "
            "start: leave it running, and copy its __cluster_metadata-0, which may be the newest metadata there is."
        ),
        shared.PRESERVE,
        Step("Copy a directory that was set aside under its former name: salvage reads no other.", run.KEEP_SET_ASIDE),
    ),
    extent=(
        Step("See what else is gone, was made anew or went back.", run.BROKERS, run.QUORUM_LAG),
        shared.GROUPS_BEYOND,
    ),
    recover=(
        Step(
            "Metadata that was lost: with all brokers stopped, put the newest copy of __cluster_metadata-0 (of a "
            "controller, or of a broker that did not follow) in place of the controllers'. Nothing else makes the "
            "former topics known again. metadata-went-back does not end by itself: resolve it when that is done."
        ),
        shared.SALVAGE_ALL,
        shared.REPLAY,
        shared.RESCUE,
        shared.READ_THE_RESCUED,
        shared.WRITE_AGAIN,
        shared.RESET_GROUPS,
    ),
    tell=(shared.TELL_OWNERS, shared.CLOSE_LOST),
)
CLOCKS: Final = Runbook(
    title="Clocks disagree",
    kinds=("clock-skew",),
    means=(Step("Retention by time goes by timestamps: a clock that is wrong deletes too early, or too late."),),
    real=(Step("See which leader, and by how much; then ask its clock.", run.VIOLATIONS, run.VIOLATION, run.CLOCK),),
    stop=(
        Step(
            "If it runs ahead by more than the retention, keep what is left of topics with LogAppendTime.",
            run.KEEP_ALL_RECORDS,
        ),
    ),
    extent=(Step("See the other brokers' clocks, and the canary's own machine's.", run.CLOCK),),
    recover=(Step("Let time synchronisation slew the clock; then put the retention back.", run.SETTINGS),),
    tell=(Step("The owners of topics with a retention by time; whoever runs the machines."), shared.CLOSE),
)
ELECTIONS_UNKNOWN: Final = Runbook(
    title="Elections are not seen",
    alerts=("CanaryEpochsUnknown", "CanaryQuorumUnknown"),
    means=(
        Step("What an election cuts off there, or which controller leads, is not known: neither good nor bad news."),
    ),
    real=(shared.FIRES, Step("See which part of the runner fails, and why.", run.FAILING, run.SUMMARY)),
    stop=(
        Step(
            "Give the canary the rights that watch.epochs and watch.quorum need: Describe on the topics, Describe on "
            "the cluster (docs/acl.md).",
            run.CONFIG_CHECK,
        ),
    ),
    extent=(Step("See whether brokers and controllers answer others: then it is the canary alone.", run.ANSWERING),),
    recover=(
        Step(
            "See that it is answered again. Elections meanwhile are judged then, by where the epochs in the logs "
            "begin; a high watermark that was told only meanwhile is not known.",
            run.FAILING,
        ),
    ),
    tell=(Step("The owners of the topics that are watched: since when their elections are not seen."),),
)
CONTROLLER: Final = Runbook(
    title="A controller does not keep up",
    alerts=("CanaryControllerBehind",),
    means=(
        Step(
            "More than half of the controllers must keep up, or no leader is elected and no topic changed. Each one "
            "that does not is one less that may fail."
        ),
    ),
    real=(shared.FIRES, _CONTROLLERS),
    stop=(Step("Restart no other controller, and take no other machine away, before it is back."),),
    extent=(Step("See how many of the voters keep up, and whether it is also a broker.", run.QUORUM_LAG, run.BROKERS),),
    recover=(
        Step(
            "Start it again on its own disk. One whose disk is lost is formatted anew and catches up by itself: one at "
            "a time, while more than half of the others keep up."
        ),
    ),
    tell=(Step("Whoever runs the controllers: which one, and since when."), shared.CLOSE),
)
