"""What parts report that judge by themselves survives kill -9, and conditions end after it, but not before they do."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from canary.anomalies.groups.rounds import Groups
from canary.anomalies.groups.sample import Commit, Log, Round, Told
from canary.anomalies.online import Findings
from canary.facts import ClusterMet, WatchFailed
from canary.facts.gathering import gathered
from canary.metrics.watched.watched import Watched
from canary.runner.cluster import connection, memory
from canary.runner.publishing.judge import Judge
from canary.runner.publishing.troubles import Trouble
from canary.runner.watching.applications import Applications
from canary.threads import system
from canary.watching.groups import group_watcher
from canary.watching.groups.group_watcher import GroupWatcher
from storage.ledger import Ledger
from storage.store import Store, StoreError
from tests.support import stores
from tests.support.contexts import context
from tests.support.heard import Heard

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

S = 10**9
PLACE = ("orders", 0)
PATIENCE_S = 10.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=60) as store:
        stores.upgrade(store)
        yield store


@dataclass
class Clock:
    """Time as the test has it."""

    ns: int = 10**18

    def now_ns(self) -> int:
        return self.ns


@dataclass
class Process:
    """One process of a runner that watches groups: its parts work when they are told to, and it never stops in order.

    Its cluster has one group, which commits in one partition, and answers at once.
    """

    directory: Path
    store: Store
    clock: Clock
    monkeypatch: pytest.MonkeyPatch
    groups: tuple[str, ...] = ("app-*",)
    facts: int = field(init=False)

    def __post_init__(self) -> None:
        watch = {"groups": list(self.groups), "group_stuck_after": f"{PATIENCE_S:.0f}s"}
        here = self.context = context(self.store, clock=self.clock, watch=watch)
        asked: Any = SimpleNamespace(ask=lambda question, _: question())
        self.ledger = Ledger(self.directory)
        recalled = memory.recall(here, asked, self.ledger)
        assert recalled is not None
        remembered, self.flusher = recalled
        self.facts = remembered.facts
        queue: system.Queue[Findings] = system.new_queue()
        self.judge = Judge(here, self.ledger, remembered.tracker, findings=queue, flusher=self.flusher)
        self.watcher = GroupWatcher(
            {}, self.groups, "canary", known := Groups(PATIENCE_S, 50), here.inbox, self.clock, 5.0
        )
        self.applications = Applications(here)
        self.applications._known = known
        self.flusher.watched = lambda: Watched(groups=self.watcher.latest) if self.groups else Watched()

    def look(self, committed: int, end: int, seconds: float = 5.0) -> None:
        """Let the watcher look, after some time, and the judge take what it reports."""
        self.clock.ns += round(seconds * S)
        told = Told(members=1, commits={PLACE: Commit(committed, 1)})
        answers = SimpleNamespace(
            round=Round(self.clock.ns, {"app-1": told}, {PLACE: Log(0, end, end)}, {"orders": "id"}),
            refused=None,
            left_out=0,
        )
        questions = SimpleNamespace(ask=lambda _places: answers)
        self.monkeypatch.setattr(group_watcher, "Questions", lambda *_: questions)
        self.watcher._look(None)
        self.judged()

    def judged(self) -> None:
        """Let the judge take what is in the inbox."""
        facts = gathered(self.context.inbox.gather(0.0, 1000))
        assert not facts or self.judge._judge(facts)

    def stuck(self) -> None:
        """Let the group be stuck, and be reported."""
        for end in range(10, 50, 10):
            self.look(5, end)

    def kill(self, **settings: Any) -> Process:
        """End it without a word, and begin the next one."""
        self.ledger.close()
        self.clock.ns += 3 * S
        return replace(self, **settings)

    @contextlib.contextmanager
    def away(self) -> Iterator[None]:
        """Let the store take nothing meanwhile."""

        def away(*_: object) -> None:
            raise StoreError("away")

        with self.monkeypatch.context() as patched:
            for name in ("record", "end"):
                patched.setattr(type(self.store.violations), name, away)
            yield
            assert not self.flusher.flush()


@pytest.fixture
def process(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> Process:
    clock = Clock()
    monkeypatch.setattr("canary.threads.system.wall_ns", clock.now_ns)
    return Process(tmp_path / "ledger", store, clock, monkeypatch)


def said(store: Store) -> list[tuple[str, str]]:
    return sorted((row.kind, row.state) for row in store.violations.page().items)


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize("delivered", [False, True])
def test_a_reset_that_is_found_while_the_store_is_away_survives_a_kill(
    process: Process, store: Store, *, sealed: bool, delivered: bool
) -> None:
    """With a snapshot in between or without; and it is no other one if the store has got it."""
    with process.away():
        for committed in (50, 50, 7, 7):
            process.look(committed, 100)
        if sealed:
            process.judge._seal()
    if delivered:
        assert process.flusher.flush()
    after = process.kill()
    assert said(store) == [("group-reset", "open")] * delivered
    assert after.facts == 1, "the ledger has it, or its snapshot"
    assert after.flusher.flush()
    (row,) = store.violations.page().items
    assert (row.kind, row.state, row.topic, row.offset) == ("group-reset", "open", "orders", 50)
    assert row.first_seen_ns == row.last_seen_ns
    assert sum(one.total for one in store.violations.counts()) == 1


@pytest.mark.parametrize("sealed", [False, True])
def test_the_end_of_a_condition_that_is_found_while_the_store_is_away_survives_a_kill(
    process: Process, store: Store, *, sealed: bool
) -> None:
    process.stuck()
    assert process.flusher.flush()
    assert said(store) == [("group-stuck", "open")]
    with process.away():
        process.look(40, 40)
        if sealed:
            process.judge._seal()
    after = process.kill()
    assert said(store) == [("group-stuck", "open")]
    assert after.flusher.flush()
    assert said(store) == [("group-stuck", "resolved")], "though nobody has looked since"


def killed_while_stuck(process: Process, **settings: Any) -> Process:
    """Return the process after one that has found a group stuck while the store was away."""
    with process.away():
        process.stuck()
    assert said(process.store) == []
    return process.kill(**settings)


def test_a_start_does_not_close_what_its_replay_opens_before_its_watcher_has_looked_for_long(
    process: Process, store: Store
) -> None:
    after = killed_while_stuck(process)
    assert after.flusher.flush()
    assert said(store) == [("group-stuck", "open")]
    long_s = 3 * PATIENCE_S + 60
    for _ in range(round(long_s / 5)):
        after.look(100, 100)
        assert after.flusher.flush()
        assert said(store) == [("group-stuck", "open")]
    after.look(100, 100)
    assert after.flusher.flush()
    assert said(store) == [("group-stuck", "resolved")]
    assert after.kill().flusher.flush()
    assert said(store) == [("group-stuck", "resolved")], "and a start after that does not open it again"


def test_what_still_holds_after_a_start_is_the_new_watcher_s(process: Process, store: Store) -> None:
    after = killed_while_stuck(process)
    for end in range(50, 400, 10):
        after.look(5, end)
        assert after.flusher.flush()
        assert said(store) == [("group-stuck", "open")]
    after.look(400, 400)
    assert after.flusher.flush()
    assert said(store) == [("group-stuck", "resolved")], "at once: it knows of it"
    assert sum(one.total for one in store.violations.counts()) == 1


def test_what_was_found_of_groups_ends_where_nobody_wants_them_watched_any_more(process: Process, store: Store) -> None:
    assert killed_while_stuck(process, groups=()).flusher.flush()
    assert said(store) == [("group-stuck", "resolved")]


def test_parts_that_are_stopped_end_what_they_have_reported_through_the_ledger(process: Process, store: Store) -> None:
    """Also while another cluster answers, for which they are stopped."""
    process.stuck()
    assert process.flusher.flush()
    process.judge._tracker.state.stopped = "another cluster answers"
    process.applications.leave()
    with process.away():
        process.judged()
    after = process.kill()
    assert after.flusher.flush()
    assert said(store) == [("group-stuck", "resolved")]


def test_looks_whose_report_may_wait_for_the_ledger_do_not_count(process: Process, store: Store) -> None:
    """Of a group that seems to be well; whether it may be stuck is asked for no other kind."""
    after = killed_while_stuck(process)
    assert after.flusher.flush()
    after.flusher.troubles = lambda: {"ledger": Trouble("its disk is full", blind=True)}
    for _ in range(100):
        after.look(100, 100)
        assert after.flusher.flush()
    after.flusher.troubles = dict
    after.look(100, 100)
    assert after.flusher.flush()
    assert said(store) == [("blind", "resolved"), ("group-stuck", "open")]


def test_another_cluster_at_the_address_is_reported_when_it_is_met_and_ends_when_the_known_one_answers(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, heard = Clock(), Heard()
    failed: list[WatchFailed] = []
    met: list[str] = []
    answers = iter(["known", "other", "other", "third", "third", "known"])

    class Inbox(Heard):
        def put(self, facts: Any, /) -> None:
            failed.extend(one for one in facts if isinstance(one, WatchFailed))
            met.extend(one.cluster_id for one in facts if isinstance(one, ClusterMet))
            heard.put([one for one in facts if not isinstance(one, WatchFailed | ClusterMet)])

    def answered(*_: object) -> str:
        clock.ns += 2 * S
        return next(answers)

    monkeypatch.setattr(connection, "cluster_id", answered)
    monkeypatch.setattr(connection, "_PATIENCE_S", 0.0)
    monkeypatch.setattr(connection.Connection, "_new_admin", lambda _: SimpleNamespace(cluster_id=lambda _: "known"))
    asked = connection.Connection(context(store, inbox=Inbox(), clock=clock))
    assert asked.known_cluster() == "known"
    assert met == ["known"], "before any other client"
    assert asked.known_cluster() == "known"
    assert [one.evidence["found"] for one in heard.said] == ["other", "other", "third", "third"]
    assert [one.key("c") for one in heard.over] == [one.key("c") for one in heard.said[:2]], "at a start, and now"
    assert len(failed) == 4
