"""What watchers of groups, transactions and mirrors left open ends when they have looked for long enough."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from canary.anomalies.groups.rounds import GroupView
from canary.anomalies.mirrormaker.mirror import MirrorView
from canary.anomalies.policy import CONDITIONS, UNREMEMBERED
from canary.anomalies.violation import Violation
from canary.metrics.watched.groups import GroupsSeen, TransactionsSeen
from canary.metrics.watched.mirrors import MirrorsSeen
from canary.metrics.watched.watched import Watched
from canary.runner.publishing.flusher import Flusher
from canary.runner.publishing.unended import Unended, is_alone, left_open
from storage.store import Store
from tests.support import stores
from tests.support.contexts import context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

S = 10**9
WATCH: dict[str, Any] = {
    "watch": {"groups": ["app-*"], "transactions": ["orders"], "group_stuck_after": "10s", "hanging_after": "30s"},
}
SEEN: dict[str, tuple[Callable[[int, str | None], Watched], int]] = {
    "group-stuck": (lambda at_ns, why: Watched(groups=GroupsSeen(at_ns, unknown=why)), 30 + 60),
    "hanging-transaction": (lambda at_ns, why: Watched(transactions=TransactionsSeen(at_ns, unknown=why)), 30 + 60),
    "mirror-offset-skips": (
        lambda at_ns, why: Watched(mirrors=MirrorsSeen((MirrorView("far", "t", "far.t", 60.0, at_ns, unknown=why),))),
        600 + 60,
    ),
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=5) as store:
        stores.upgrade(store)
        yield store


def left(store: Store, kind: str, topic_id: str = "", **settings: Any) -> Unended:
    found = Violation(kind=kind, severity="warning", topic="orders", topic_id=topic_id, at_ns=1, by="watch", summary="")
    store.violations.record("c", [found])
    here = context(store, **settings)
    if settings:
        object.__setattr__(here.cluster, "replicated_from", ("another cluster of the settings",))
    unended = Unended(here)
    rows = unended.found()
    assert rows is not None
    assert [row.id for row in rows] == [found.key("c")]
    unended.keep(rows, {}, ())
    assert unended.found() is None, "asked once"
    return unended


def test_each_of_them_is_a_watcher_s() -> None:
    assert set(SEEN) == CONDITIONS & UNREMEMBERED


@pytest.mark.parametrize("kind", sorted(SEEN))
def test_it_ends_when_its_watcher_has_looked_for_as_long_as_it_takes_to_report_it_anew(store: Store, kind: str) -> None:
    unended, (seen, after_s) = left(store, kind, **WATCH), SEEN[kind]
    assert unended.over(Watched) == []
    assert unended.over(partial(seen, 1_000 * S, None)) == []
    for second in range(1_001, 1_000 + after_s):
        assert unended.over(partial(seen, second * S, None)) == []
        assert unended.over(partial(seen, second * S, "refused")) == [], "that counts not"
    (over,) = unended.over(partial(seen, (1_000 + after_s) * S, None))
    assert [row.id for row in store.violations.unended("c", [kind])] == [over.key("c")]


@pytest.mark.parametrize("kind", sorted(SEEN))
def test_a_time_in_which_nobody_looked_counts_little(store: Store, kind: str) -> None:
    unended, (seen, _) = left(store, kind, **WATCH), SEEN[kind]
    assert unended.over(partial(seen, 1_000 * S, None)) == []
    assert unended.over(partial(seen, 900_000 * S, None)) == []


@pytest.mark.parametrize("kind", sorted(SEEN))
def test_what_is_not_known_at_a_look_counts_nothing(store: Store, kind: str) -> None:
    unended, (seen, after_s) = left(store, kind, **WATCH), SEEN[kind]
    for second in range(1_000, 1_000 + 2 * after_s):
        assert unended.over(partial(seen, second * S, "refused")) == []


@pytest.mark.parametrize("reported", ["before the store was asked", "since"])
def test_what_this_process_has_reported_is_its_own_to_end(store: Store, reported: str) -> None:
    held = Violation(kind="group-stuck", severity="warning", topic="orders", at_ns=1, by="watch", summary="")
    store.violations.record("c", [held])
    flusher = Flusher(context(store))
    flusher.watched = lambda: pytest.fail("nothing is left to ask for")
    if reported == "since":
        flusher._find_left()
    flusher.violations([held])
    assert flusher.flush()
    row = store.violations.get(held.key("c"))
    assert row is not None
    assert row.state == "open"


@pytest.mark.parametrize("kind", sorted(SEEN))
def test_it_ends_where_nobody_wants_it_watched_any_more(store: Store, kind: str) -> None:
    assert len(left(store, kind).over(Watched)) == 1


@pytest.mark.parametrize("kind", sorted(SEEN))
def test_what_is_reported_meanwhile_is_not_ended(store: Store, kind: str) -> None:
    unended = left(store, kind)
    (over,) = unended.over(Watched)
    unended.reported(over.key("c"))
    assert unended.over(Watched) == []


@pytest.mark.parametrize(("own_s", "other_s", "heard"), [(1, 700, 0), (1, 500, 1), (660, 700, 1)])
def test_after_a_store_was_away_another_runner_was_heard_of_if_it_was_before(
    store: Store, own_s: int, other_s: int, heard: int
) -> None:
    here = context(store)
    now_ns = here.clock.now_ns()
    for runner, ago_s in (("r", own_s), ("other", other_s)):
        store.views.save("c", runner, now_ns - ago_s * S, b"{}")
    assert is_alone(here) is not bool(heard)


def test_a_tracker_is_given_what_it_can_end(store: Store) -> None:
    def of(kind: str, topic: str = "t", topic_id: str = "", offset: int | None = None) -> Violation:
        one = Violation(kind=kind, severity="critical", topic=topic, topic_id=topic_id, at_ns=7, by="watch", summary="")
        return replace(one, offset=offset)

    mine = [of("offline-partition"), of("stalled", offset=5), of("blind", "")]
    proven, suspected = of("unclean-election", offset=7), of("unclean-election")
    others = [proven, suspected, of("blind", "", "runner r since 1"), of("group-stuck"), of("lost-write")]
    store.violations.record("c", [*mine, *others])
    found = left_open(context(store))
    assert {one.key("c") for one in found} == {one.key("c") for one in mine}
    assert {one.evidence["since_ns"] for one in found} == {7}


@pytest.mark.parametrize("state", ["stuck", "unmoved", "unknown"])
def test_a_group_that_has_something_that_it_does_not_read_may_be_stuck(store: Store, state: str) -> None:
    unended = left(store, "group-stuck", "group app-1", **WATCH)

    def seen(second: int, states: dict[str, int], error: str | None = None) -> Watched:
        groups = (GroupView("app-1", states=states, error=error), GroupView("app-2", states={state: 9}))
        return Watched(groups=GroupsSeen(second * S, groups))

    for second in range(1_000, 1_200):
        assert unended.over(partial(seen, second, {"ok": 5, state: 1})) == []
        assert unended.over(partial(seen, second, {"ok": 6}, "its coordinator does not answer")) == []
    assert len(unended.over(partial(seen, 1_200, {"ok": 6}))) == 1


def test_mirrors_are_known_where_each_of_them_is(store: Store) -> None:
    unended = left(store, "mirror-offset-skips", **WATCH)
    for second in range(1_000, 2_000):
        mirrors = [MirrorView("far", "t", f"far.{why}", 60.0, second * S, unknown=why) for why in (None, "refused")]
        assert unended.over(partial(Watched, mirrors=MirrorsSeen(tuple(mirrors)))) == []
