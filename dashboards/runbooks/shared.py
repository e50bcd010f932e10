"""Steps that several runbooks share, so that each advice stands once."""

from typing import Final

from dashboards.runbooks import commands as run
from dashboards.runbooks.runbook import Step

ON_THE_PAGES: Final = Step(
    "See what is open, and its evidence: the offsets, who wrote and read there, the elections around it.",
    run.OPEN,
    run.VIOLATIONS,
    run.VIOLATION,
)
FIRES: Final = Step(
    "See since when the alert fires, and for which places. The canary's own state counts too: a canary that judges "
    "nothing has alerts of its own (CanaryRunnerDown, CanaryBlind).",
    run.FIRING,
)
TOUCH_NOTHING: Final = Step(
    "Do not restart, wipe, reassign or decommission any broker, and do not delete or recreate the topic. The only good "
    "copy may be on a broker that is down or outside the ISR; when that broker comes back it cuts its log to the new "
    "leader's, within a second and without an error."
)
FORMER_LEADERS: Final = Step(
    "Find the brokers that led the partition, or were in its ISR, before the loss, and which of them are down now. "
    "Elr and LastKnownElr (Kafka 4 with eligible leader replicas) name replicas that may still have everything.",
    run.TOPOLOGY,
    run.BROKERS,
    run.DESCRIBE,
)
STAY_DOWN: Final = Step(
    "Keep a former leader that is down from being started: disable what would start it (systemd: mask the unit; "
    "Kubernetes: keep its pod from being scheduled, and snapshot its volume first of all)."
)
PRESERVE: Final = Step(
    "Copy the partition's directory on every broker that has one, the former leader's first, to a disk with room. Of a "
    "broker that is down copy all of the log directory, meta.properties included. A broker that is up has cut its log "
    "already; copy it at once all the same: whole segments that were cut or expired stay as *.deleted for "
    "file.delete.delay.ms, a minute by default.",
    run.KEEP_PARTITION,
    run.KEEP_BROKER,
)
UNCLEAN_OFF: Final = Step(
    "See whether unclean elections are on, for the brokers or for single topics, and switch them off: in the middle of "
    "an incident, too. It harms no data; the price is that a partition of which no in-sync replica lives stays offline "
    "until one returns. A topic's own setting wins over the brokers'.",
    run.BROKER_SETTINGS,
    run.OVERRIDES,
    run.UNCLEAN_OFF,
    run.UNCLEAN_OFF_TOPIC,
)
SLOW_THE_WRITERS: Final = Step(
    "If the count still rises, what is acknowledged now may be lost as well: have the writers of the exposed topics "
    "pause, or keep what they send (a file, an outbox table) until the cause is known."
)
EXPOSED: Final = Step(
    "The canary's probes are a sample. Read which partitions of all topics had the same leader and the same shrunken "
    "ISR at that time: the owners' data in them was in the same danger.",
    run.EXPOSURE,
)
WHERE_CUT: Final = Step(
    "Compare the histories of leader epochs (epoch, first offset) of the kept copy and of the present leader. The "
    "first epoch that differs begins where the log was cut: everything at or above it in the copy is what is missing.",
    run.EPOCHS,
)
IN_THE_COPY: Final = Step(
    "See whether the record is in a copy: run it with log_dir set to where the copy is. Batches with the same offsets "
    "and the same CRC hold the same bytes, so a diff of these lists says where replicas differ.",
    run.DUMP,
    run.BATCHES,
    run.DIFF,
)
GROUPS_BEYOND: Final = Step(
    "Find the consumer groups that had committed beyond that place: they have processed records that are gone, and "
    "skip as many of what is written there now.",
    run.GROUPS,
)
READ_EVERYTHING: Final = Step(
    "Ask for a reconciliation: it reads everything that is retained, and finds what was lost in between.",
    run.RECONCILE,
    run.RECONCILIATIONS,
)
SALVAGE: Final = Step(
    "Salvage what the kept copy has and the cluster does not: count it first, then write it to files, which hold keys "
    "and values. A collision is a record whose key has a newer one now; undecided are those of transactions whose end "
    "the copy does not have.",
    run.SALVAGE_COUNT,
    run.SALVAGE,
)
SALVAGE_ALL: Final = Step(
    "Salvage all that the kept copy has, to files, which hold keys and values: the topic is gone or has another id, so "
    "nothing of the former one can be in the cluster, and salvage takes it only with --any-topic-id.",
    run.SALVAGE_ALL,
)
REPLAY: Final = Step(
    "Give the owners the salvaged records as a topic of their own, in order, with the same partitions, keys and "
    "timestamps; it is read back and compared at the end.",
    run.REPLAY,
)
RESCUE: Final = Step(
    "Or, to look around in it, serve the kept copy from a throwaway broker, the canary's own lab (it needs Java 17): "
    "start it, make an empty topic that expires nothing, put the kept segments in place of its own, start it again. "
    "Never point a broker of the real cluster at a copy that others may need.",
    run.RESCUE_UP,
    run.RESCUE_TOPIC,
    run.RESCUE_FILL,
)
READ_THE_RESCUED: Final = Step(
    "Read the missing range from it, and stop it at the end; with --isolation-level read_committed aborted records are "
    "left out, and so is what lies behind a transaction whose end the copy does not have.",
    run.RESCUE_READ,
    run.RESCUE_DOWN,
)
WRITE_AGAIN: Final = Step(
    "Let the owners write the missing records again, with their own producer: they get new offsets, behind what was "
    "written since, so consumers see them late and out of order. Only the owners know whether that is right."
)
REJOIN: Final = Step(
    "Only when the copies are safe and read: let the former leader start. Wait until it is in the ISR again, then give "
    "the leadership back.",
    run.DESCRIBE,
    run.ELECT_PREFERRED,
)
RESET_GROUPS: Final = Step(
    "Put groups back that stand beyond the cut: stop their members, look at the plan, then execute it.",
    run.RESET_PLAN,
    run.RESET,
)
TELL_OWNERS: Final = Step(
    "The owners of every exposed topic: which partitions and offsets, acknowledged between when and when, and whether "
    "a copy exists. The owners of the consumers: what they have read there may be void."
)
CLOSE_LOST: Final = Step(
    "Acknowledge the incident while you work on it. Resolve it as lost when it is dealt with: the page names the loss "
    "for ever. If it is proven false, resolve it as false and send us the export.",
    run.ACKNOWLEDGE,
    run.RESOLVE_LOST,
    run.RESOLVE_FALSE,
)
CLOSE: Final = Step(
    "Acknowledge the incident while you work on it; resolve it with a reason (lost, planned or false) when it is over.",
    run.ACKNOWLEDGE,
    run.RESOLVE_FALSE,
)
EXPORT: Final = Step(
    "Kafka's developers or your vendor: the history around it, which `canary check` and Jepsen's checker read, with "
    "the brokers' versions and logs of that time.",
    run.EXPORT,
)
AFTER_BLINDNESS: Final = Step(
    "When the canary judges again, let it look at the time that it missed: what was acknowledged meanwhile is judged "
    "late, not never, as long as it is retained.",
    run.RECONCILE,
    run.RECONCILIATIONS,
)
NOT_WATCHED: Final = Step(
    "Those who rely on it: since when nothing was watched. Until it works again, silence is not health: put off risky "
    "changes of the cluster (upgrades, reassignments, restarts)."
)
