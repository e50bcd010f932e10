"""What a runner says of itself beside what it measures: its share, its troubles, and when its certificates expire."""

from __future__ import annotations

import contextlib
import dataclasses
import sqlite3
import threading
import time
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from canary import facts as f
from canary.anomalies.online import Tracker
from canary.anomalies.online.state import Probed
from canary.anomalies.policy import AGAIN_NS
from canary.anomalies.topology_change import TopologyChange
from canary.anomalies.violation import Violation, reported
from canary.metrics import Measurement, Published, measured
from canary.runner.publishing import flusher as flush
from canary.runner.publishing.flusher import Flusher
from canary.runner.publishing.troubles import Trouble, blindness
from canary.runner.publishing.unended import left_open
from canary.threads.ports import SteadyClock
from storage.store import Store, StoreError
from storage.store.values import TopologyFilter, ViolationFilter
from tests.support import stores
from tests.support.contexts import context
from tests.support.waiting import in_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


S = 10**9


def test_a_view_tells_the_share_and_when_certificates_expire(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def expiries(properties: object) -> dict[str, float]:
        asked.append(properties)
        return {"client": 1234.0}

    monkeypatch.setattr(flush, "expiries", expiries)
    judged_ns = time.time_ns() - 3 * 10**9
    shown = Published(now_ns=1, judged_ns=judged_ns, measurements=(Measurement("canary_leader_epoch", ("t", "0"), 3),))
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=5) as store:
        stores.upgrade(store)
        kafka = {"bootstrap.servers": "127.0.0.1:1", "ssl.ca.location": "ca.pem"}
        shared = context(store, "prod", "canary-1", shard="1/3", kafka=kafka, reconcile="0 3 * * *")
        flusher = Flusher(shared, latest=lambda: shown)
        assert flusher.flush()
        assert flusher.flush()
        (row,) = store.views.all()
    told = orjson.loads(row.view)
    assert told["shard"] == [1, 3]
    assert (told["night_s"], told["night_asked"]) == (86400, True)
    assert told["measurements"] == [
        ["canary_leader_epoch", ["t", "0"], 3],
        ["canary_certificate_expiry_timestamp_seconds", ["client"], 1234.0],
    ]
    assert asked == [{"bootstrap.servers": "127.0.0.1:1", "ssl.ca.location": "ca.pem"}], (
        "files are not read anew with every view"
    )
    assert row.at_ns == judged_ns, "the heartbeat is the judge's"
    assert time.time_ns() - told["told_ns"] < 60 * 10**9


def test_no_view_hides_what_was_forgotten_before_that_is_durable(tmp_path: Path) -> None:
    shown = Published(now_ns=1, judged_ns=time.time_ns(), ordinal=7)
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=5) as store:
        stores.upgrade(store)
        flusher = Flusher(context(store, "prod", "canary-1"), latest=lambda: shown)
        flusher.withheld = 7
        assert flusher.flush()
        assert store.views.all() == []
        shown = dataclasses.replace(shown, ordinal=8)
        assert flusher.flush()
        assert len(store.views.all()) == 1


@pytest.mark.parametrize("set_s", [-3600, 90])
def test_the_heartbeat_is_of_now_though_the_system_s_clock_was_set_since_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_s: int
) -> None:
    """Or the machine was suspended: what the canary goes by began before that, and never steps."""
    clock = SteadyClock()
    monkeypatch.setattr(clock, "_offset", clock._offset - set_s * 10**9)
    shown = Published(now_ns=1, judged_ns=clock.now_ns())
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=5) as store:
        stores.upgrade(store)
        assert Flusher(context(store, "prod", "canary-1", clock=clock), latest=lambda: shown).flush()
        (row,) = store.views.all()
    for at_ns in (row.at_ns, orjson.loads(row.view)["told_ns"]):
        assert abs(time.time_ns() - at_ns) < 60 * 10**9


@pytest.mark.parametrize(("set_s", "state"), [(0, "acknowledged"), (7200, "open")])
def test_what_parts_find_that_judge_themselves_is_filed_by_the_machine_s_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, set_s: int, state: str
) -> None:
    """A planned window of the last hour does not cover what happens two hours later."""
    clock, now_ns = SteadyClock(), time.time_ns()
    wall_ns = clock.now_ns() + set_s * 10**9
    monkeypatch.setattr("canary.threads.system.wall_ns", lambda: wall_ns)
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=5) as store:
        stores.upgrade(store)
        store.maintenance.plan("prod", now_ns - 3600 * S, now_ns + 3600 * S, "upgrade", "ann")
        flusher = Flusher(context(store, "prod", "canary-1", clock=clock))
        stuck = Violation(kind="group-stuck", severity="warning", topic="t", at_ns=now_ns, by="watch", summary="stuck")
        tracker = Tracker()

        def judge(*facts: f.Fact) -> None:
            tracker.fold(facts)
            found = tracker.drain()
            flusher.report(found.violations, found.ended)

        judge(f.RunnerStarted(now_ns, "canary-1", "1", clock_ahead_ns=set_s * S), *reported("group-watcher", [stuck]))
        flusher.troubles = lambda: {"ledger": Trouble("it cannot be written", blind=True)}
        assert flusher.flush()
        found = {row.kind: row for row in store.violations.page().items}
        assert {row.state for row in found.values()} == {state}
        assert all(abs(row.first_seen_ns - wall_ns) < 60 * S for row in found.values())
        judge(*reported("group-watcher", [], [stuck]))
        flusher.troubles = dict
        assert flusher.flush()
        assert {row.state for row in store.violations.page().items} == {"resolved"}


@dataclass
class Watching:
    """A tracker that sees two partitions without a leader, or with one; its flusher, and what the store has open."""

    store: Store
    tracker: Tracker = field(default_factory=Tracker)
    now_ns: int = 1_000 * S
    sample: int = 0
    leaders: list[int] = field(default_factory=lambda: [-1, -1])
    flusher: Flusher = field(init=False)

    def begin(self, tracker: Tracker, **others: Any) -> None:
        """Begin another process, with what is remembered."""
        self.tracker = tracker
        clock: Any = SimpleNamespace(now_ns=lambda: self.now_ns)
        cluster = context(self.store, "prod", "canary-0", clock=clock, **others)
        self.flusher = Flusher(cluster, lambda: measured(self.tracker.state))
        tracker.state.probed = {"t": Probed(["idempotent"], [0, 1])}
        known = {one.key("prod") for one in tracker.conditions()}
        tracker.adopt(one for one in left_open(cluster) if one.key("prod") not in known)
        self.fold(f.RunnerStarted(self.now_ns, "canary-0", "1"))

    def fold(self, *facts: f.Fact) -> None:
        self.tracker.fold(facts)
        findings = self.tracker.drain()
        self.flusher.violations(findings.violations)
        self.flusher.ended(findings.ended)

    def rounds(self, n: int) -> None:
        for _ in range(n):
            self.now_ns += S
            self.sample += 1
            at = self.now_ns, self.sample
            seen = [f.PartitionSeen(*at, "t", p, leader, "1,2", "1,2") for p, leader in enumerate(self.leaders)]
            self.fold(f.WatchAsked(*at), f.TopicSeen(*at, "t", "id", 2), *seen, f.TopologySeen(*at, "probe"))
            assert self.flusher.flush()

    @property
    def open(self) -> set[tuple[str, int | None]]:
        found = self.store.violations.page(ViolationFilter(cluster="prod", state="open")).items
        return {(one.kind, one.partition) for one in found}

    @property
    def resolved(self) -> set[int | None]:
        found = self.store.violations.page(ViolationFilter(cluster="prod", state="resolved")).items
        return {one.partition for one in found}


LEFT_S = 61
"""For so long an outage that is over stays open here: its log answers nothing, so it is never known to be whole."""


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[Watching]:
    """Both partitions have no leader; this is reported; and another cluster has a condition of the same kind."""
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=5) as store:
        stores.upgrade(store)
        watching = Watching(store)
        watching.begin(Tracker())
        watching.rounds(10)
        assert watching.open == {("offline-partition", 0), ("offline-partition", 1)}
        here = watching.tracker.conditions()
        assert {one.kind for one in here} == {"offline-partition"}
        store.violations.record("other", here)
        loss = dataclasses.replace(here[0], kind="lost-write", summary="lost")
        unclean = dataclasses.replace(here[0], kind="unclean-election", offset=7, summary="proven")
        elsewhere = dataclasses.replace(here[0], kind="another-cluster", summary="each start looks for itself")
        store.violations.record("prod", [loss, unclean, elsewhere])
        yield watching
        assert len(store.violations.page(ViolationFilter(cluster="other", state="open")).items) == 2


PROVEN = {("lost-write", 0), ("unclean-election", 0), ("another-cluster", 0)}
"""What no flusher ends: what is proven, and what every start looks for itself."""


def test_conditions_that_were_forgotten_end_when_they_are_seen_to_be_over_and_those_that_hold_stay(
    watching: Watching,
) -> None:
    watching.leaders[1] = 1
    watching.begin(Tracker())
    for _ in range(LEFT_S - 1):
        watching.rounds(1)
        assert watching.open == PROVEN | {("offline-partition", 0), ("offline-partition", 1)}
    watching.rounds(3)
    assert watching.open == PROVEN | {("offline-partition", 0)}
    assert watching.resolved == {1}


def test_nothing_that_was_forgotten_ends_while_the_cluster_does_not_answer(watching: Watching) -> None:
    watching.begin(Tracker())
    for _ in range(2 * LEFT_S):
        watching.now_ns += S
        assert watching.flusher.flush()
    assert watching.open == PROVEN | {("offline-partition", 0), ("offline-partition", 1)}


def test_conditions_that_are_remembered_stay_while_they_hold(watching: Watching) -> None:
    watching.begin(Tracker.load(watching.tracker.dump()))
    watching.rounds(1)
    assert watching.open == PROVEN | {("offline-partition", 0), ("offline-partition", 1)}
    watching.leaders[1] = 1
    watching.rounds(62)  # its log answers nothing here, so it is never known to be whole
    assert watching.open == PROVEN | {("offline-partition", 0)}


def test_a_condition_that_was_not_reported_yet_is_not_one_that_is_remembered(watching: Watching) -> None:
    """Else nothing ends what an earlier process has reported of it."""
    watching.begin(Tracker())
    watching.sample += 1
    at = watching.now_ns, watching.sample
    seen = f.PartitionSeen(*at, "t", 0, -1, "1,2", "1,2")
    watching.fold(f.WatchAsked(*at), f.TopicSeen(*at, "t", "id", 2), seen, f.TopologySeen(*at, "probe"))
    watching.leaders = [1, 1]
    watching.begin(watching.tracker)
    watching.rounds(LEFT_S + 2)
    assert watching.open == PROVEN


@pytest.mark.parametrize("sharing", ["a shard", "another runner"])
def test_conditions_that_another_runner_may_have_reported_are_not_ended(watching: Watching, sharing: str) -> None:
    if sharing == "another runner":
        watching.store.views.save("prod", "canary-1", watching.now_ns, b"{}")
    watching.leaders = [1, 1]
    watching.begin(Tracker(), **({"shard": "0/2"} if sharing == "a shard" else {}))
    watching.rounds(LEFT_S + 2)
    assert watching.open == PROVEN | {("offline-partition", 0), ("offline-partition", 1)}


@pytest.mark.parametrize(("cluster", "since_s"), [("prod", 601), ("other", 0)])
def test_neither_a_runner_of_long_ago_nor_one_of_another_cluster_keeps_them_open(
    watching: Watching, cluster: str, since_s: int
) -> None:
    watching.store.views.save(cluster, "canary-1", watching.now_ns - since_s * S, b"{}")
    watching.leaders = [1, 1]
    watching.begin(Tracker())
    watching.rounds(LEFT_S + 2)
    assert watching.open == PROVEN


def test_a_condition_that_is_reported_before_the_store_answers_is_not_ended(
    watching: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching.begin(Tracker())
    with monkeypatch.context() as away:
        away.setattr(watching.flusher, "flush", lambda: True)
        watching.rounds(10)
    watching.rounds(LEFT_S + 2)
    assert watching.open == PROVEN | {("offline-partition", 0), ("offline-partition", 1)}
    assert watching.resolved == set()


LEDGER, AUDITOR = Trouble("the ledger /l cannot be written: No space", blind=True), Trouble("its auditor", blind=False)


def flushed(flusher: Flusher, parts: dict[str, Trouble | None]) -> dict[str, Any]:
    """Flush once, and return what is shown then."""
    flusher.troubles = lambda: parts
    assert flusher.flush()
    (row,) = flusher._store.views.all()
    told: dict[str, Any] = orjson.loads(row.view)
    return told


def blind(store: Store, state: str) -> list[str]:
    return [row.summary for row in store.violations.page(ViolationFilter(kind="blind", state=state)).items]


def flusher_of(store: Store) -> Flusher:
    shown = Published(now_ns=1, judged_ns=1)
    return Flusher(context(store, "prod", "canary-0"), latest=lambda: shown)


def test_what_keeps_a_runner_from_judging_is_shown_and_said_once_and_taken_back(tmp_path: Path) -> None:
    said = "runner canary-0 cannot judge: the ledger /l cannot be written: No space"
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=5) as store:
        stores.upgrade(store)
        flusher = flusher_of(store)
        told = flushed(flusher, {"ledger /l": None, "auditor": None})
        assert told["measurements"] == [
            ["canary_part_failing", ["ledger /l"], 0],
            ["canary_part_failing", ["auditor"], 0],
        ]
        assert told["troubles"] == []
        told = flushed(flusher, {"ledger /l": None, "auditor": AUDITOR})
        assert told["measurements"][1] == ["canary_part_failing", ["auditor"], 1]
        assert told["troubles"] == [["its auditor", False]]
        assert blind(store, "open") == [], "nothing is lost without an auditor"
        for _ in range(2):
            told = flushed(flusher, {"ledger /l": LEDGER, "auditor": AUDITOR})
        assert told["troubles"] == [[LEDGER.words, True], ["its auditor", False]]
        assert blind(store, "open") == [said]
        flushed(flusher, {"ledger /l": None})
        assert (blind(store, "open"), blind(store, "resolved")) == ([], [said])
        flushed(flusher, {"ledger /l": LEDGER})
        assert (blind(store, "open"), blind(store, "resolved")) == ([said], [said])
        assert flusher._blind is not None
        flusher._blind = dataclasses.replace(flusher._blind, at_ns=(begun_ns := flusher._blind.at_ns) - AGAIN_NS)
        flushed(flusher, {"ledger /l": LEDGER})
        (row,) = store.violations.page(ViolationFilter(kind="blind", state="open")).items
        assert row.last_seen_ns > row.first_seen_ns == begun_ns, "what holds on is said again, so it outlasts a window"
        assert sum(row.total for row in store.violations.counts() if row.kind == "blind") == 2


def test_what_a_predecessor_could_not_take_back_is_ended_and_what_others_said_is_not(tmp_path: Path) -> None:
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=5) as store:
        stores.upgrade(store)
        store.violations.record(
            "prod", [blindness("canary-00", {"queue": LEDGER}, 7), blindness("canary-0", {"queue": LEDGER}, 8)]
        )
        store.violations.record("other", [blindness("canary-0", {"queue": LEDGER}, 9)])
        refused = blindness("canary-0", {}, 10)
        store.violations.record("prod", [dataclasses.replace(refused, topic_id="", summary="refused")])
        flusher = flusher_of(store)
        flusher.violations([blindness("canary-0", {"x": LEDGER}, 6)])  # kept by the ledger, not delivered
        flusher.replayed()
        flushed(flusher, {"flusher": LEDGER})
        left = store.violations.page(ViolationFilter(kind="blind", state="open")).items
        assert sorted(row.first_seen_ns for row in left)[:3] == [7, 9, 10]
        assert len(left) == 4, "and its own"


@pytest.mark.parametrize(("interval_s", "away"), [(3600.0, 0), (0.2, 2)])
def test_a_violation_is_written_at_once_and_if_the_store_was_away_with_the_next_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interval_s: float, away: int
) -> None:
    monkeypatch.setattr(flush, "_INTERVAL_S", interval_s)
    shown = Published(now_ns=1, judged_ns=time.time_ns())
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=5) as store:
        stores.upgrade(store)
        flusher = Flusher(context(store, "prod", "canary-0"), latest=lambda: shown)
        viewed, recorded, refusals = threading.Event(), threading.Event(), iter(range(away))
        record, save = store.violations.record, store.views.save

        def recording(cluster: str, found: Any) -> int:
            if next(refusals, None) is not None:
                raise StoreError("away")
            number = record(cluster, found)
            recorded.set()
            return number

        def saving(*args: Any) -> None:
            save(*args)
            viewed.set()

        monkeypatch.setattr(store.violations, "record", recording)
        monkeypatch.setattr(store.views, "save", saving)
        flusher.start()
        in_time(viewed.wait(60), "what is waited for")
        for number in range(2):
            recorded.clear()
            flusher.violations([blindness("canary-0", {"ledger": Trouble("it is full", blind=True)}, number)])
            in_time(recorded.wait(60), "what is waited for")
        in_time(flusher.stop(60))


@dataclass
class Filing:
    """A flusher that files a loss a view; and its database, which fails over to an older copy of itself."""

    path: Path
    store: Store
    forgotten: list[f.MemoryLost] = field(default_factory=list)
    shown: Published = field(default_factory=lambda: Published(now_ns=1, judged_ns=1))

    def __post_init__(self) -> None:
        self.flusher = Flusher(context(self.store, "prod", "canary-0"), latest=lambda: self.shown)
        self.flusher.forgotten = self.forgotten.append

    def view(self, *lost: int, ended: int | None = None) -> None:
        """Judge on, find losses at offsets, end one, and flush."""
        ordinal = self.shown.ordinal + 1
        self.shown = dataclasses.replace(self.shown, now_ns=ordinal, judged_ns=ordinal, ordinal=ordinal)
        self.flusher.violations(map(loss_at, lost))
        self.flusher.ended([] if ended is None else [loss_at(ended)])
        self.flusher.changed([TopologyChange(ordinal, "partition", "t", 0, ordinal % 2, "1,2", "1,2")])
        assert self.flusher.flush()

    def copy(self, name: str) -> None:
        with contextlib.closing(sqlite3.connect(self.path)) as store, contextlib.closing(sqlite3.connect(name)) as copy:
            store.backup(copy)

    def fail_over(self, name: str) -> None:
        with contextlib.closing(sqlite3.connect(name)) as copy, contextlib.closing(sqlite3.connect(self.path)) as store:
            copy.backup(store)

    @property
    def filed(self) -> dict[int | None, str]:
        return {one.offset: one.state for one in self.store.violations.page(ViolationFilter(cluster="prod")).items}

    @property
    def changes(self) -> int:
        return len(self.store.topology.spans(TopologyFilter(cluster="prod")).items)


def loss_at(offset: int) -> Violation:
    return Violation(
        kind="lost-write",
        severity="critical",
        topic="t",
        topic_id="id",
        partition=0,
        offset=offset,
        at_ns=9,
        by="online",
        summary="lost",
    )


@pytest.fixture
def filing(tmp_path: Path) -> Iterator[Filing]:
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=5) as store:
        stores.upgrade(store)
        yield Filing(tmp_path / "store.db", store)


def test_what_a_database_forgets_that_fails_over_is_filed_again(filing: Filing, tmp_path: Path) -> None:
    filing.view(1)
    filing.copy(copy := str(tmp_path / "copy"))
    filing.view(2)
    filing.view(3, ended=1)
    filing.view(ended=2)
    before = filing.filed, filing.changes
    assert before[0] == {1: "resolved", 2: "resolved", 3: "open"}
    for _ in range(2):
        filing.fail_over(copy)
        assert filing.filed == {1: "open"}
        filing.view()
        assert (filing.filed, filing.changes - 1) == before, "and nobody is told: nothing is forgotten"
        before = filing.filed, filing.changes
    assert filing.forgotten == []


def test_what_nobody_has_any_more_is_said_to_be_forgotten(
    filing: Filing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flush, "_FILED_KEPT", 4)
    filing.view(1)
    filing.copy(copy := str(tmp_path / "copy"))
    for offset in (2, 3, 4):
        filing.view(offset)  # with its change, two to keep
    filing.fail_over(copy)
    filing.view()
    assert filing.filed == {1: "open", 3: "open", 4: "open"}
    (lost,) = filing.forgotten
    assert lost.from_ns == 1
    assert "was put back or wiped while the canary ran" in lost.reason
    filing.view(5)
    assert len(filing.forgotten) == 1


def test_a_view_whose_saving_was_not_confirmed_is_no_sign_that_the_store_was_put_back(
    filing: Filing, monkeypatch: pytest.MonkeyPatch
) -> None:
    filing.view(1)
    save = type(filing.store.views).save

    def unconfirmed(*arguments: Any) -> None:
        save(*arguments)
        raise StoreError("the connection is gone")

    with monkeypatch.context() as patched:
        patched.setattr(type(filing.store.views), "save", unconfirmed)
        with pytest.raises(AssertionError):
            filing.view(2)
    recorded: list[object] = []
    monkeypatch.setattr(type(filing.store.violations), "record", lambda *them: recorded.append(them))
    filing.view()
    assert (recorded, filing.forgotten) == ([], [])
