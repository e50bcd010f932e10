"""Runbooks of the canary itself: what it cannot do, and what is not known meanwhile."""

from typing import Final

from dashboards.runbooks import commands as run
from dashboards.runbooks import shared
from dashboards.runbooks.runbook import Runbook, Step

_SINCE: Final = Step(
    "See for how long each runner has judged nothing, and which parts do not work.",
    run.HEARTBEAT,
    run.FAILING,
    run.READY,
)
_LOG: Final = Step(
    "Read the end of the runner's log: the last lines name the part and the error (systemd: journalctl -u; Kubernetes: "
    "kubectl logs --previous)."
)
_NO_WIPING: Final = Step(
    "Do not delete its ledger to get it going: it holds the promises that are not in the probe log yet. A damaged part "
    "of it is set aside by itself (*.damaged)."
)
_KEEP_LEDGER: Final = Step(
    "If its disk fails, copy the ledger's directory (ledger.directory) before anything else.", run.DISKS_CANARY
)
_WORKS: Final = Step("See that it judges again: 200, without a line for the cluster.", run.READY, run.SUMMARY)

BLIND: Final = Runbook(
    title="The canary cannot look",
    kinds=("blind",),
    means=(Step("The evidence says which: refused by the cluster, not answered, or not able to judge what it sees."),),
    real=(
        shared.ON_THE_PAGES,
        _SINCE,
        Step("See whether the cluster answers others: if not, it is an outage.", run.ANSWERING, run.QUORUM),
        Step("From the canary's machine and with its settings:", run.CONFIG_CHECK, run.SMOKE),
    ),
    stop=(
        Step("Refused: renew credentials, rights (docs/acl.md) or certificate. Runners take new files by themselves."),
        Step("Not answered: brokers, DNS, firewall. Do not point the canary at another cluster under the same name."),
        Step("Cannot judge: free or repair the disk of its ledger.", run.DISKS_CANARY),
        _NO_WIPING,
    ),
    extent=(
        shared.NOT_WATCHED,
        Step("See whether other clusters are blind, too: then it is on the canary's side.", run.FAILING),
    ),
    recover=(_WORKS, shared.AFTER_BLINDNESS),
    tell=(shared.NOT_WATCHED, shared.CLOSE),
)
RUNNER: Final = Runbook(
    title="A runner does not run",
    alerts=("CanaryRunnerDown", "CanaryRunnerMissing", "CanaryShardMissing", "CanaryPartFailing"),
    means=(Step("A runner that does not judge finds nothing. What the cluster promised before is in its ledger."),),
    real=(shared.FIRES, _SINCE),
    stop=(
        _LOG,
        Step(
            "See whether the process lives, reaches store and brokers, and has disk and open files left.",
            run.CONFIG_CHECK,
            run.STORE_CHECK,
            run.DISKS_CANARY,
        ),
        Step(
            "Start it again on the same disk: it goes on where its ledger ends. Elsewhere it takes over after 15 s, "
            "and the promises that were in the old ledger only are judged when that disk is back. Exit status 4: "
            "another runner of that name lives."
        ),
        _NO_WIPING,
    ),
    extent=(
        shared.NOT_WATCHED,
        Step("See which clusters and shares of partitions are concerned.", run.SHARDS, run.PARTITIONS),
    ),
    recover=(_WORKS, shared.AFTER_BLINDNESS),
    tell=(shared.NOT_WATCHED,),
)
LEDGER: Final = Runbook(
    title="The ledger is slow, fails, or has forgotten",
    kinds=("memory-lost",),
    alerts=("CanaryLedgerErrors", "CanaryLedgerPending"),
    means=(
        Step(
            "Only what the ledger holds durably is judged. A slow disk makes the canary late; one that fails may make "
            "it forget what was promised at a time, which is named."
        ),
    ),
    real=(
        shared.FIRES,
        Step("See how many facts wait, and how many writes failed.", run.LEDGER_PENDING, run.LEDGER_ERRORS),
    ),
    stop=(
        Step("Look at that machine's disk: full, slow, or failing.", run.DISKS_CANARY, run.KERNEL),
        _KEEP_LEDGER,
        _NO_WIPING,
    ),
    extent=(Step("See from when to when memory is lost: the evidence names it.", run.FORGOTTEN), shared.NOT_WATCHED),
    recover=(
        Step("Move the ledger to a good disk: stop the runner, copy the directory, change ledger.directory, start it."),
        shared.AFTER_BLINDNESS,
        _WORKS,
    ),
    tell=(Step("Who put store or ledger back from a backup, if one did (docs/backup.md). Whoever runs the machine."),),
)
SERVING: Final = Runbook(
    title="Findings do not reach you",
    alerts=("CanaryApiDown", "CanaryVanished", "CanaryStoreDown", "CanaryStoreBehind", "CanaryNotificationsWaiting"),
    means=(
        Step(
            "Runners go on probing and remember what they find; it does not get from there to alerts, pages and "
            "webhooks, or late."
        ),
    ),
    real=(Step("See how far it works, and of which clusters there are series.", run.READY, run.SERVED, run.HEARTBEAT),),
    stop=(
        Step("The API: see whether its process lives, and whether Prometheus scrapes it (Status, Targets)."),
        Step("The store: see whether the database is up, full, locked or far away.", run.STORE_CHECK),
        Step("Notifications: see whether the receiver answers, and what the API's log says of it."),
        Step(
            "Do not put an older store in its place to be quick: it would forget what was found since (docs/backup.md)."
        ),
    ),
    extent=(Step("Meanwhile look by hand: a runner's log names each violation that it finds."), shared.NOT_WATCHED),
    recover=(
        Step("Bring it back. Runners deliver what they have found by themselves, within seconds.", run.READY),
        Step("Prove the whole way with an alarm that pages and ends by itself.", run.ALERT_TEST),
    ),
    tell=(Step("The people on call: since when an alarm would not have reached them, and what was found meanwhile."),),
)
WATCHDOG: Final = Runbook(
    title="The dead man's switch",
    alerts=("CanaryWatchdog",),
    means=(Step("The alert always fires. Only its absence means something: no alarm of Prometheus reaches you then."),),
    real=(shared.FIRES, Step("Nothing is wrong while it fires and the switch outside is silent.")),
    stop=(
        Step(
            "If the switch outside rings: see whether Prometheus lives and loads the rules (Status, Rules), whether "
            "Alertmanager lives, and whether it reaches the switch's address (receiver deadmansswitch)."
        ),
    ),
    extent=(
        Step("Meanwhile look by hand: the canary's pages do not need Prometheus.", run.READY, run.ALL_OPEN),
        Step("Receivers of notify are told of incidents all the same (docs/notifications.md)."),
    ),
    recover=(Step("Prove the whole way with an alarm that pages and ends by itself.", run.ALERT_TEST),),
    tell=(Step("The people on call: since when an alarm of Prometheus would not have reached them."),),
)
REHEARSAL: Final = Runbook(
    title="A test of the alarm",
    alerts=("CanaryAlertTest", "CanaryDrill", "CanaryDrillOverdue"),
    means=(
        Step("Nothing is wrong with the cluster. The way from Kafka to the pager is tried, or was not tried for long."),
    ),
    real=(
        shared.FIRES,
        Step("See whether other violations are open beside it: those are real.", run.ALL_OPEN, run.DRILLS),
    ),
    stop=(Step("Nothing. A drill harms only the canary's drill topic, and its alert ends by itself."),),
    extent=(Step("See what the last drills found, how long it took, and why one failed.", run.DRILLS),),
    recover=(
        Step("Overdue: drill by hand, or test the alarm alone.", run.DRILL, run.ALERT_TEST),
        Step(
            "If it was found and no page was proven: see whether the pager's receiver has the webhook "
            "/api/v1/drills/paged, and whether `canary schedule` runs (schedule.drill)."
        ),
    ),
    tell=(Step("Who started it: that the page arrived, and after how long."),),
)
CERTIFICATES: Final = Runbook(
    title="A certificate expires",
    alerts=("CanaryCertificateExpiring",),
    means=(Step("On that day the canary goes blind, or its API can no longer be reached."),),
    real=(Step("See which, and when.", run.EXPIRY, run.CERTIFICATE),),
    stop=(Step("Renew the file in place, same path, readable by the canary: key and certificate together."),),
    extent=(Step("See which other clusters and clients have a certificate of the same authority.", run.EXPIRY),),
    recover=(
        Step("Runners load a new client certificate by themselves; start the API again for its own.", run.EXPIRY),
        _WORKS,
    ),
    tell=(Step("Whoever issues certificates. If the authority's own expires: the owners of all its clients."),),
)
