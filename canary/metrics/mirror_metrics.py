"""The metrics of topics that are mirrored from other clusters."""

from functools import partial
from typing import Final

from canary.metrics.metric import Metric

_LINK: Final = ("cluster", "source", "topic")
_GROUP: Final = (*_LINK, "group")
_gauge = partial(Metric, type="gauge", labels=_LINK, runners="max", partitions="max")

MIRROR_METRICS: Final = (
    _gauge(
        "canary_mirror_recovery_point_seconds",
        help="Age of the oldest probe of the source that is not in the mirrored topic, 0 if all are; a gap that was "
        "said counts no more. Missing while it is not known.",
    ),
    _gauge("canary_mirror_recovery_point_objective_seconds", help="What that may be (recovery_point)."),
    _gauge(
        "canary_mirror_last_probe_timestamp_seconds",
        help="When the newest probe in the mirrored topic was sent in the source.",
    ),
    _gauge("canary_mirror_waiting_probes", help="Probes of the source that are not in the mirrored topic yet."),
    _gauge("canary_mirror_missing_probes", help="Probes that are missing in gaps that were said."),
    Metric(
        "canary_mirror_records_total",
        "counter",
        "Records of the mirrored topic: copied, late (behind later ones), again, before (the first that is known), "
        "foreign (no probe of the source), corrupt; and probes of the source that were not judged: unjudged, "
        "withdrawn (the source lost them).",
        (*_LINK, "outcome"),
    ),
    _gauge(
        "canary_mirror_unknown",
        help="1 while it is not known what the mirrored topic lacks: no answer, a refusal, no topic, or no new probe "
        "in the source.",
    ),
    _gauge(
        "canary_mirror_failover_skips",
        help="Probes that the group has not committed and would not be given after a failover to its translated "
        "offsets.",
        labels=_GROUP,
    ),
    _gauge(
        "canary_mirror_failover_rereads",
        help="Records of the mirrored topic that the group would be given again after such a failover.",
        labels=_GROUP,
    ),
    _gauge(
        "canary_mirror_translation_unknown",
        help="1 while nothing is known of translated offsets: MirrorMaker 2 writes no checkpoints, or they are not "
        "read.",
    ),
)
