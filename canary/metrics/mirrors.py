"""What a runner publishes of topics that are mirrored from other clusters: views, and the series made of them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Self

from canary.anomalies.mirrormaker.mirror import MirrorView
from canary.metrics.metric import Measurement


@dataclass(frozen=True, slots=True)
class MirrorsSeen:
    """The mirrored topics that are watched."""

    mirrors: tuple[MirrorView, ...] = ()

    def aged(self, now_ns: int, most_s: float) -> Self:
        """Return the same, with nothing known of what is older than ``most_s``: nobody looks any more."""
        return replace(self, mirrors=tuple(one.aged(now_ns, most_s) for one in self.mirrors))

    def measurements(self) -> Iterator[Measurement]:
        """Yield the series; what is not known has none."""
        for one in self.mirrors:
            link = (one.source, one.topic)
            yield Measurement("canary_mirror_unknown", link, int(one.unknown is not None))
            yield Measurement("canary_mirror_recovery_point_objective_seconds", link, one.bound_s)
            yield Measurement("canary_mirror_waiting_probes", link, one.waiting)
            yield Measurement("canary_mirror_missing_probes", link, one.missing)
            if one.recovery_point_s is not None:
                yield Measurement("canary_mirror_recovery_point_seconds", link, one.recovery_point_s)
            if one.copied_ns is not None:
                yield Measurement("canary_mirror_last_probe_timestamp_seconds", link, one.copied_ns / 1e9)
            for outcome, count in one.counts.items():
                yield Measurement("canary_mirror_records_total", (*link, outcome), count)
            yield Measurement("canary_mirror_translation_unknown", link, int(one.translation_unknown is not None))
            for group in sorted({each.group for each in one.failovers}):
                known = [each for each in one.failovers if each.group == group and each.unknown is None]
                if known:
                    skips, rereads = sum(each.skips or 0 for each in known), sum(each.rereads or 0 for each in known)
                    yield Measurement("canary_mirror_failover_skips", (*link, group), skips)
                    yield Measurement("canary_mirror_failover_rereads", (*link, group), rereads)
