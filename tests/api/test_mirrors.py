"""Mirrored topics, from what a runner stored to REST and /metrics."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from canary.anomalies.mirrormaker.facts import Checkpoint, PartitionRound, Round, Row
from canary.anomalies.mirrormaker.mirror import Link, Mirror
from canary.metrics.published import Published, dumps
from canary.metrics.watched.mirrors import MirrorsSeen
from canary.probe.identity import Identity

if TYPE_CHECKING:
    from storage.store import Store
    from tests.api.serving import Client

S = 10**9


def seen() -> MirrorsSeen:
    """What a runner knows of a mirror that is 20 s behind, and of one that it may not read."""
    at_ns = time.time_ns()
    known, hidden = (Mirror(Link("dc1", topic, f"dc1.{topic}", 60.0)) for topic in ("probes", "secret"))
    rows = [Row(10 + n, Identity(7, 0, 0, n), at_ns - (30 - 5 * n) * S) for n in range(4)]
    copied = tuple(row._replace(offset=row.offset - 10) for row in rows[:2])
    news = PartitionRound(tuple(rows), copied, source_complete=True, target_complete=True)
    known.fold(Round(at_ns, {0: news}, (Checkpoint("billing", 0, 11, 0),)))
    hidden.unanswered("secret in dc1: TOPIC_AUTHORIZATION_FAILED")
    return MirrorsSeen((known.view(at_ns), hidden.view(at_ns)))


def shown(store: Store, mirrors: MirrorsSeen) -> None:
    now_ns = time.time_ns()
    series = tuple(mirrors.measurements())
    published = Published(now_ns=now_ns, told_ns=now_ns, mirrors=mirrors, measurements=series)
    store.views.save("dc2", "canary-0", now_ns, dumps(published))


def test_a_mirror_is_shown_with_what_it_lacks_and_one_that_is_not_seen_as_unknown(client: Client, store: Store) -> None:
    shown(store, seen())
    known, hidden = client.get("/api/v1/mirrors", cluster="dc2").json()["items"]
    assert (known["source"], known["topic"], known["mirrored"]) == ("dc1", "probes", "dc1.probes")
    assert (known["recovery_point_seconds"], known["recovery_point_objective_seconds"]) == (20.0, 60.0)
    assert (known["waiting"], known["missing"], known["unknown"], known["counts"]["copied"]) == (2, 0, None, 2)
    assert known["partitions"] == [
        {"partition": 0, "behind_seconds": 20.0, "waiting": 2, "missing": 0, "unknown": None}
    ]
    (failover,) = known["failovers"]
    assert (failover["group"], failover["skips"], failover["rereads"]) == ("billing", 0, 1)
    assert (hidden["recovery_point_seconds"], hidden["newest_copied"]) == (None, None)
    assert "TOPIC_AUTHORIZATION_FAILED" in hidden["unknown"]
    text = client.get("/metrics").text
    link = 'cluster="dc2"'
    for line in (
        f'canary_mirror_recovery_point_seconds{{{link},source="dc1",topic="probes"}} 20',
        f'canary_mirror_unknown{{{link},source="dc1",topic="probes"}} 0',
        f'canary_mirror_unknown{{{link},source="dc1",topic="secret"}} 1',
        f'canary_mirror_records_total{{{link},outcome="copied",source="dc1",topic="probes"}} 2',
        f'canary_mirror_failover_rereads{{{link},group="billing",source="dc1",topic="probes"}} 1',
    ):
        assert f"\n{line}" in text, line
    assert 'canary_mirror_recovery_point_seconds{cluster="dc2",source="dc1",topic="secret"}' not in text


def test_a_mirror_that_nobody_looks_at_any_more_is_unknown(client: Client, store: Store) -> None:
    mirrors = seen()
    shown(store, mirrors.aged(mirrors.mirrors[0].at_ns + 90 * S, 60.0))
    (known, _) = client.get("/api/v1/mirrors").json()["items"]
    assert (known["unknown"], known["recovery_point_seconds"]) == ("not looked at for 90 s", None)
    assert known["partitions"][0]["behind_seconds"] is known["failovers"][0]["skips"] is None
    text = client.get("/metrics").text
    assert "\ncanary_mirror_recovery_point_seconds{" not in text
    assert 'canary_mirror_unknown{cluster="dc2",source="dc1",topic="probes"} 1' in text


def test_the_clusters_page_has_a_line_for_each_mirror(client: Client, store: Store) -> None:
    shown(store, seen())
    page = client.get("/clusters/dc2").text
    assert "Mirror <code>dc1.probes</code> of dc1: 20 s behind.</p>" in page
    assert "Mirror <code>dc1.secret</code> of dc1: not known (secret in dc1: TOPIC_AUTHORIZATION_FAILED).</p>" in page


def test_a_cluster_whose_mirrors_nobody_watches_is_said(client: Client, store: Store) -> None:
    now_ns = time.time_ns()
    store.views.save("dc2", "canary-0", now_ns, dumps(Published(now_ns=now_ns, told_ns=now_ns)))
    body = client.get("/api/v1/mirrors").json()
    assert body["items"] == []
    assert "dc2" in {one["cluster"] for one in body["unknown"]}
