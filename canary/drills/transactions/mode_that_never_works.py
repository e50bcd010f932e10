"""A mode never works, because the cluster cannot serve it.

The cluster's own topics, of transactions and of groups, are to have five replicas, and there are three brokers. So they
are never made, and no transaction and no group ever has a coordinator. Writes without a transaction are acknowledged
and read as ever.

Nothing is lost, and no violation is said. But what only these modes find would go unnoticed: the canary names each mode
that has not been acknowledged anything for a minute, and its page does not say that all is kept.
"""

from canary.drills.drill import Control, Drill
from canary.drills.stage import TRANSACTIONS, Stage
from canary.drills.steps.saying import UntilMetric, UntilSentence
from canary.drills.steps.waiting import Pass, UntilAcked

_SILENT = "canary_mode_silent"
_STAGE = Stage(modes={"idempotent": {"interval": "100ms"}, "transactional": {}, "group": {}})

DRILL = Drill(
    title="A mode never works, because the cluster cannot serve it",
    source="KIP-98 (transactions and groups need a coordinator)",
    stage=_STAGE.with_broker_properties(
        transaction_state_log_replication_factor="5", offsets_topic_replication_factor="5"
    ),
    steps=(
        UntilMetric(_SILENT, at_least=1, labels={"mode": "transactional"}, within_s=75),
        UntilMetric(_SILENT, at_least=1, labels={"mode": "group"}, within_s=10),
        UntilSentence("has never acknowledged a write of the mode transactional"),
        UntilSentence("has never acknowledged a commit of the mode group"),
        UntilMetric(_SILENT, at_most=0, labels={"mode": "idempotent"}, within_s=1),
        UntilAcked(20),
    ),
    says=(),
    echoes=frozenset(),
    control=Control(
        why="The topics of transactions and groups have as many replicas as there are brokers.",
        stage=_STAGE,
        steps=(
            UntilAcked(10, topic=TRANSACTIONS),
            Pass(65),
            UntilMetric(_SILENT, at_most=0, within_s=1),
            UntilSentence("has kept every write"),
            UntilAcked(10, topic=TRANSACTIONS),
        ),
        may_say=frozenset(),
    ),
)
