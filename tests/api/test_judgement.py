"""What the page may say: over every combination of what was found, what became of it, and what is seen now."""

from __future__ import annotations

import itertools
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

from api.judgement.durability import durability, lost_writes
from api.judgement.safety import RULES, judge, overall
from api.knowledge.slowness import SlowBroker
from api.knowledge.views import read_views
from api.knowledge.writing import Written
from api.state import Knowledge
from storage.store.values import View, ViolationGroup
from tests.api.serving import NOW_NS, lost, view

if TYPE_CHECKING:
    from collections.abc import Iterator

    from api.judgement.safety import Judgement
    from api.knowledge.views import ClusterView
    from storage.store import Store
    from tests.api.serving import Client

DAY_NS: Final = 86_400 * 10**9
FOUND: Final = 1_767_225_600 * 10**9  # 2026-01-01
FATES: Final[dict[str, dict[str, Any] | None]] = {
    "never": None,
    "open": {"state": "open", "reason": None},
    "acknowledged": {"state": "acknowledged", "reason": None},
    "in a window": {"state": "acknowledged", "reason": "planned"},
    "lost": {"state": "resolved", "reason": "lost"},
    "planned": {"state": "resolved", "reason": "planned"},
}
"""What becomes of a violation; of false alarms the store tells the page as little as of what never was."""
KINDS: Final = (
    {"kind": "lost-write", "severity": "critical", "mode": "idempotent", "records": 500},
    {"kind": "lost-write", "severity": "warning", "mode": "plain", "records": 3},
    {"kind": "truncation", "severity": "critical", "mode": "idempotent", "records": 1},
    {"kind": "duplicate", "severity": "critical", "mode": "idempotent", "records": 1},
)
ASIDE: Final = (
    None,
    {"kind": "under-replicated", "severity": "warning", "mode": None, "records": 1},
    {"kind": "blind", "severity": "critical", "mode": None, "records": 1},
    {"kind": "memory-lost", "severity": "warning", "mode": None, "records": 1},
)
SIGHT: Final = {
    "live": view(),
    "late": view(more=[["canary_unseen_oldest_seconds", ["t", "0", "rc"], 80.0]]),
    "waiting": view(waiting_for="the topic"),
    "without acks": view(acked=0),
    "unread": view(seen=0),
    "silent": view(),
    "none": None,
}


def cluster(sight: str) -> ClusterView:
    content = SIGHT[sight]
    at_ns = NOW_NS - (60 * 10**9 if sight == "silent" else 0)
    rows = [] if content is None else [View("prod", "canary-0", at_ns, content)]
    return read_views(rows, NOW_NS, ["prod"])["prod"]


def groups_of(place: dict[str, Any], fate: str, name: str = "prod") -> list[ViolationGroup]:
    became = FATES[fate]
    return [] if became is None else [ViolationGroup(cluster=name, first_ns=FOUND, last_ns=FOUND, **place, **became)]


def knowledge(*rows: ViolationGroup) -> Knowledge:
    return Knowledge(NOW_NS, {}, (), (), rows)


def every_combination() -> Iterator[tuple[dict[str, str], dict[str, Any] | None, str, tuple[ViolationGroup, ...]]]:
    for *few, kind in ((*KINDS[:2], KINDS[2]), (*KINDS[:2], KINDS[3])):
        for fates in itertools.product(FATES, repeat=3):
            places = [*zip((*few, kind), fates, strict=True)]
            rows = [row for place, fate in places for row in groups_of(place, fate)]
            named = {f"{place['kind']} {place['mode']}": fate for place, fate in places}
            for aside in ASIDE:
                beside = groups_of(aside, "open") if aside else []
                for sight in SIGHT:
                    yield named, aside, sight, (*rows, *beside)


def test_nothing_is_said_that_is_not_so_whatever_was_found_and_whatever_is_seen() -> None:
    views = {sight: cluster(sight) for sight in SIGHT}
    tried = 0
    for named, aside, sight, rows in every_combination():
        tried += 1
        judgement = judge(views[sight], knowledge(*rows))
        said = judgement.sentence
        told = (named, aside, sight, said)
        losses = [row for row in rows if row.kind in {"lost-write", "truncation"} or row.reason == "lost"]
        unresolved = [row for row in rows if row.severity == "critical" and row.state != "resolved"]
        promises = [row for row in unresolved if row.kind != "blind"]
        sees = sight in {"live", "late"} and aside not in ASIDE[2:]
        assert (judgement.level == "broken") == bool(promises), told
        assert (judgement.level == "unknown") == (not promises and not sees), told
        assert judgement.healthy == (sees and not promises), told
        assert "prod" in said, told
        if losses:
            assert "kept every write" not in said, told
            assert "lost nothing" not in said, told
            assert not judgement.kept, told
            assert "prod" in judgement.losses, told
            assert ("500 acknowledged writes" in said) == any(r.records == 500 for r in rows) or promises, told
            assert "lost" in said or promises, told
        else:
            assert ("kept every write" in said) == (judgement.level == "safe"), told
            assert ("lost nothing" in said) == (judgement.level == "watch"), told
            assert judgement.losses == "", told
        if "nothing since" in said:
            assert sees, told
            assert {row.state for row in losses} == {"resolved"}, told
        assert judgement.kept == (judgement.healthy and not losses and not any(r.kind == "duplicate" for r in rows)), (
            told
        )
        if sees and not promises and not aside and sight == "live" and all(r.state == "resolved" for r in rows):
            assert judgement.level == "safe", told
    assert tried == 2 * len(FATES) ** 3 * len(ASIDE) * len(SIGHT)


def test_a_loss_that_was_resolved_is_named_for_ever() -> None:
    place = KINDS[0]
    said = judge(cluster("live"), knowledge(*groups_of(place, "lost"))).sentence
    assert said == "prod lost 500 acknowledged writes on 2026-01-01, resolved; nothing since."
    said = judge(cluster("late"), knowledge(*groups_of(place, "planned"))).sentence
    assert said == (
        "prod lost 500 acknowledged writes on 2026-01-01, planned; nothing since; "
        "an acknowledged probe has waited 80 s to be read."
    )
    said = judge(cluster("silent"), knowledge(*groups_of(place, "lost"))).sentence
    assert said == (
        "The canary of prod has not reported for 60 s. prod lost 500 acknowledged writes on 2026-01-01, resolved."
    )
    (row,) = groups_of(place, "lost")
    later = replace(row, kind="truncation", records=1, last_ns=FOUND + 3 * DAY_NS)
    said = judge(cluster("live"), knowledge(row, later)).sentence
    assert said == (
        "prod lost 500 acknowledged writes between 2026-01-01 and 2026-01-04 (with truncation), resolved; "
        "nothing since."
    )


def test_what_other_topics_lost_is_named_like_what_probes_lost(client: Client, store: Store) -> None:
    store.violations.record("prod", [lost(1, kind="offset-regression")])
    store.incidents.resolve(store.incidents.page().items[0].id, "planned", NOW_NS)
    said = client.get("/api/v1/clusters/prod/summary").json()["sentence"]
    assert said.startswith("prod lost data (offset-regression) on ")


def test_what_acks_of_one_lost_is_no_alarm_and_is_not_hidden() -> None:
    said = judge(cluster("live"), knowledge(*groups_of(KINDS[1], "open")))
    shadow = frozenset({("prod", "shadow"), ("prod", "maintenance")})  # no alert fires: the page tells it all the same
    assert judge(cluster("live"), replace(knowledge(*groups_of(KINDS[1], "open")), quiet=shadow)) == said
    assert (said.level, said.sentence) == (
        "watch",
        "prod lost 3 acknowledged writes with acks=1 on 2026-01-01, not resolved; 3 warnings are open.",
    )


def test_what_is_open_comes_first_and_what_was_before_is_not_forgotten() -> None:
    rows = (*groups_of(KINDS[0], "lost"), *groups_of(KINDS[3], "acknowledged"))
    said = judge(cluster("silent"), knowledge(*rows)).sentence
    assert said == (
        "prod has 1 critical violation not resolved: Duplicate write; an operator has acknowledged that. "
        "The canary of prod has not reported for 60 s. prod lost 500 acknowledged writes on 2026-01-01, resolved."
    )


def judged(name: str, sight: str, *rows: ViolationGroup) -> Judgement:
    named = replace(cluster(sight), name=name)
    return judge(named, knowledge(*(replace(row, cluster=name) for row in rows)))


def test_the_answer_for_all_is_the_worst_and_names_every_loss() -> None:
    good, lossy = judged("a", "live"), judged("b", "live", *groups_of(KINDS[0], "lost"))
    late, broken = judged("c", "late"), judged("d", "live", *groups_of(KINDS[0], "open"))
    assert overall([good, good]).sentence == "All 2 clusters have kept every write that they acknowledged."
    assert overall([good, lossy]).sentence == lossy.sentence
    assert overall([late, lossy]).sentence == f"{late.sentence} {lossy.sentence}"
    assert overall([good, late, lossy, broken]).sentence == f"{broken.sentence} {lossy.sentence}"
    assert overall([broken] * 5).sentence == f"{' '.join([broken.sentence] * 3)} The same is true of 2 more."
    assert [overall([good, one]).kept for one in (good, late, lossy, broken)] == [True, True, False, False]
    assert overall([]).level == "unknown"


def test_every_rule_says_something_of_some_cluster() -> None:
    silent = set(range(len(RULES)))
    views = {sight: cluster(sight) for sight in SIGHT}
    short = view(
        partitions=[{"topic": "t", "partition": 0, "leader": -1}],
        more=[
            ["canary_partition_under_min_isr", ["t", "0"], 1],
            ["canary_unacknowledged_seconds", ["t", "0", "1"], 60],
        ],
        troubles=[["its auditor ends again and again", False]],
        told_ns=NOW_NS,
    )
    views["unwritable"] = read_views([View("prod", "canary-0", NOW_NS, view())], NOW_NS)["prod"]
    views["unwritable"].writes = Written(takes=False, why="database is locked")
    views["slow"] = read_views([View("prod", "canary-0", NOW_NS, view())], NOW_NS)["prod"]
    views["slow"].slow = [SlowBroker("2", 2.5, 0.05)]
    views["short"] = read_views([View("prod", "canary-0", NOW_NS, short)], NOW_NS)["prod"]
    rows = [row for place in (*KINDS, *ASIDE[1:]) for row in groups_of(place or {}, "open")]
    for number, (_, rule) in enumerate(RULES):
        if any(rule(one, rows) for one in views.values()):
            silent.discard(number)
    assert silent == set()


@pytest.mark.parametrize(("reason", "ever"), [("lost", 2), ("planned", 2), ("false", 0)])
def test_only_a_false_alarm_leaves_what_was_ever_lost_and_the_bound(
    client: Client, store: Store, reason: Any, ever: int
) -> None:
    before = client.get("/api/v1/clusters/prod/summary").json()["loss_rate_upper_95"]
    store.violations.record("prod", [lost(1), lost(2)])
    store.violations.record(
        "prod", [replace(lost(2), by="reconcile"), replace(lost(1), severity="critical", by="reconcile")]
    )
    (incident,) = store.incidents.page().items
    store.incidents.resolve(incident.id, reason, time.time_ns())
    assert lost_writes("prod", store.violations.groups()) == ever
    page = client.get("/").text
    assert f"{ever} lost in 300 acknowledged probes" in page
    assert ("Every promise that was checked was kept" in page) == (not ever)
    assert ("has kept every write" in page) == (not ever)
    assert ("lost 2 acknowledged writes on" in page) == bool(ever)
    bound = client.get("/api/v1/clusters/prod/summary").json()["loss_rate_upper_95"]
    assert (bound > before) == bool(ever)
    assert durability(cluster("live"), store.violations.groups()).upper_95 == pytest.approx(bound)


def test_a_violation_that_became_worse_is_one_lost_write(store: Store) -> None:
    store.violations.record("prod", [lost(1, severity="warning")])
    store.violations.record("prod", [lost(1)])
    assert sum(row.total for row in store.violations.counts()) == 2  # under each severity, for ever
    assert lost_writes("prod", store.violations.groups()) == 1


def test_a_loss_outlives_retention_and_a_no_is_never_beside_kept_promises(client: Client, store: Store) -> None:
    store.violations.record("prod", [lost(1), replace(lost(2), partition=2, kind="duplicate")])
    for incident in store.incidents.page().items:
        store.incidents.acknowledge(incident.id)
    page = client.get("/").text
    assert "<strong>No.</strong>" in page
    assert "Every promise that was checked was kept" not in page
    for incident in store.incidents.page().items:
        store.incidents.resolve(incident.id, "lost" if incident.kind == "lost-write" else "planned", NOW_NS)
    far = NOW_NS + 1000 * DAY_NS
    store.retention.purge("prod", far)
    assert {row.kind for row in store.violations.page().items} == {"lost-write", "duplicate"}
    assert "prod lost 1 acknowledged write on" in client.get("/").text


def test_a_promise_that_was_broken_is_never_called_kept_once_retention_has_passed(client: Client, store: Store) -> None:
    store.violations.record("prod", [replace(lost(1), kind="duplicate")])
    store.incidents.resolve(store.incidents.page().items[0].id, "planned", NOW_NS)
    for _ in range(2):
        assert "Every promise that was checked was kept" not in client.get("/").text
        store.retention.purge("prod", NOW_NS + 1000 * DAY_NS)


def test_what_is_unknown_is_said_before_what_was_lost(client: Client, store: Store) -> None:
    store.violations.record("prod", [replace(lost(1), kind="blind", partition=None, offset=None, identity=None)])
    summary = client.get("/api/v1/clusters/prod/summary").json()
    assert summary["sentence"] == "Nothing is known of prod now: we cannot look."
    assert summary["healthy"] is False
