"""MirrorMaker 2 between two clusters: paused, reset forward, killed and reset back; and while it is well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.labs import Watched
from tests.support.mirror_maker import MirrorMaker
from tests.support.process import Canary

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from canary.lab import Lab

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture(name="other")
def _other(tmp_path: Path) -> Iterator[Lab]:
    """The cluster to which is copied."""
    with Watched(tmp_path / "other", brokers=1, heap="192m", die_with_parent=True) as other:
        yield other


class Mirrored(Canary):
    """A canary of both clusters."""

    def mirror(self) -> dict[str, Any]:
        (found,) = self.get("/api/v1/mirrors", cluster="dc2").json()["items"]
        return dict(found)

    def said(self, kind: str) -> list[dict[str, Any]]:
        return [self.get(f"/api/v1/violations/{one['id']}").json() for one in self.violations(kind)]

    def until_level(self) -> None:
        """Wait until it is not behind: what was written in the last moments is on its way."""
        self.until(lambda: (self.mirror()["recovery_point_seconds"] or 9) < 2, 60, "the mirror keeps up")


def test_a_pause_is_told_in_seconds_a_skip_as_a_gap_a_reset_back_as_copies_and_nothing_while_all_is_well(
    lab: Lab, other: Lab, tmp_path: Path
) -> None:
    source = {
        "name": "dc1",
        "kafka": {"bootstrap.servers": lab.bootstrap},
        "topic": {"name": "probes", "partitions": 1},
        "modes": {"idempotent": {"interval": "50ms"}, "group": {"rebalance_every": "1h"}},
    }
    target = {
        "name": "dc2",
        "kafka": {"bootstrap.servers": other.bootstrap},
        "topic": {"name": "others", "partitions": 1, "replication_factor": 1},
        "modes": {"idempotent": {"interval": "1s"}},
        "replicated_from": [{"cluster": "dc1", "recovery_point": "5s"}],
    }
    maker = MirrorMaker(tmp_path, "probes", ("dc1", lab.bootstrap), ("dc2", other.bootstrap))
    settings = {"clusters": [source, target]}
    with maker, Mirrored(tmp_path / "canary", lab.bootstrap, "probes", partitions=1, settings=settings) as canary:
        canary.until(lambda: canary.mirror()["counts"]["copied"] > 20, 60, "MirrorMaker 2 copies")
        canary.until_level()
        canary.until(
            lambda: any(one["skips"] == 0 and one["rereads"] is not None for one in canary.mirror()["failovers"]),
            60,
            "the offsets of the group are translated",
        )
        healthy = canary.mirror()
        assert (healthy["unknown"], healthy["translation_unknown"], healthy["missing"]) == (None, None, 0)

        maker.pause()
        canary.until(lambda: (canary.mirror()["recovery_point_seconds"] or 0) > 5, 30, "it is behind by seconds")
        assert canary.mirror()["waiting"] > 50
        assert canary.metric("canary_mirror_recovery_point_seconds", cluster="dc2", source="dc1", topic="probes") > 5
        maker.resume()
        canary.until_level()

        maker.stop()
        last = maker.offset(0)
        assert last is not None
        said = {kind: canary.said(kind) for kind in ("mirror-gap", "mirror-copies", "mirror-offset-skips")}
        assert said == {"mirror-gap": [], "mirror-copies": [], "mirror-offset-skips": []}
        maker.move(0, last + 7)
        maker.start()
        canary.until(lambda: canary.said("mirror-gap"), 60, "the gap is said")
        (gap,) = canary.said("mirror-gap")
        assert (gap["severity"], gap["topic"], gap["offset"], gap["count"]) == ("critical", "dc1.probes", last + 1, 7)
        assert canary.mirror()["missing"] == 7

        maker.kill()
        maker.move(0, last - 20)
        maker.start()
        canary.until(lambda: canary.said("mirror-copies"), 60, "what is there again is said")
        copies = min(canary.said("mirror-copies"), key=lambda one: int(one["offset"]))  # the gap parts two stretches
        assert (copies["severity"], copies["evidence"]["source_offsets"][0]) == ("info", last - 19)
        canary.until(lambda: canary.said("mirror-gap")[0]["state"] == "resolved", 30, "what was missing has arrived")
        canary.until_level()
        assert canary.mirror()["missing"] == 0
        assert canary.said("mirror-offset-skips") == []
