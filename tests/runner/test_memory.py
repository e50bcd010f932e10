"""What a start remembers when bits of the ledger have rotted, its end is gone, or store and ledger were put back."""

from __future__ import annotations

import contextlib
import errno
import random
import re
import shutil
import sqlite3
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from canary import facts as f
from canary.anomalies.online import Tracker
from canary.anomalies.online.state import Probed
from canary.metrics import measured
from canary.metrics.published import dumps
from canary.runner.cluster import connection, memory
from canary.runner.cluster.cluster import ClusterRunner
from canary.runner.cluster.identities import Identities
from canary.runner.cluster.workloads import answered
from canary.runner.publishing import snapshot
from canary.runner.publishing.flusher import Flusher
from canary.runner.supervision import lease
from canary.settings import Settings, load
from canary.threads.ports import SteadyClock
from storage.ledger import Ledger
from storage.ledger.files import Disk
from storage.ledger.segment import segment_number, segment_paths
from storage.store import Store, StoreError
from storage.store.values import ViolationFilter
from tests.support import stores
from tests.support.contexts import context
from tests.support.disk import disk_with
from tests.support.seeds import cases
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

HOME = "a" * 32
TOPIC = "probes"
END_NS = 10**9


def written(directory: Path) -> Tracker:
    """Leave a ledger as a runner does that was killed: a segment that is kept for safety, and the one it wrote to."""
    tracker = Tracker()
    with Ledger(directory) as ledger:

        def take(*facts: f.Fact) -> None:
            ledger.append(facts)
            tracker.fold(facts)

        take(f.RunnerStarted(1, "r", "1", HOME), f.GenerationBegan(2, TOPIC, "idempotent", 7, 1))
        for sequence in range(4):
            if sequence % 2 == 0:
                ledger.seal(snapshot.seal(tracker, tracker.drain().violations))
            take(f.Sent(10 + sequence, TOPIC, 0, 7, 1, sequence, "idempotent"))
            take(f.Acked(20 + sequence, TOPIC, 0, 7, 1, sequence, sequence))
        for path in ledger.sealed():
            ledger.drop(path)
        assert len(segment_paths(directory)) == 2
    return tracker


def recalled(directory: Path, shown: bytes | None) -> tuple[bytes, f.MemoryLost | None]:
    """Return the state that a start begins with, and what it says that it has forgotten."""
    with Ledger(directory, disk=disk_with(fsync=lambda _: None)) as ledger:
        recovery = ledger.recover()
        tracker = snapshot.unseal(recovery.state).tracker
        for batch in recovery.facts:
            tracker.fold(batch)
    return tracker.dump(), memory.memory_lost(tracker.state, recovery.damage, shown, HOME, END_NS)


def alterations(path: Path, *, long: bool) -> Iterator[tuple[str, bytes]]:
    """Yield what may become of a file: each bit flipped, cut at each byte; or some, and all that lead a frame."""
    content = path.read_bytes()
    leading = {at for found in re.finditer(b"^|KDCF", content) for at in range(found.start(), found.start() + 24)}
    for at in range(len(content)):
        if not long and at not in leading and at % 211:
            continue
        for bit in range(8) if long else [at % 8]:
            rotten = bytearray(content)
            rotten[at] ^= 1 << bit
            yield f"{path.name}: byte {at}, bit {bit}", bytes(rotten)
        yield f"{path.name}: cut to {at}", content[:at]


@pytest.mark.dear("hundreds of bytes of a ledger rot, each alone")
def test_whatever_rots_or_is_cut_off_is_recalled_or_said_to_be_forgotten(tmp_path: Path, *, long: bool) -> None:
    tracker = written(tmp_path / "ledger")
    full, shown = tracker.dump(), dumps(measured(tracker.state))
    files = {path.name: path.read_bytes() for path in segment_paths(tmp_path / "ledger")}
    assert recalled(tmp_path / "ledger", shown) == (full, None)
    directory = tmp_path / "rotten"
    directory.mkdir()
    whole, said = 0, 0
    for path in segment_paths(tmp_path / "ledger"):
        for what, content in alterations(path, long=long):
            for file in directory.iterdir():
                file.unlink()
            for name, original in files.items():
                (directory / name).write_bytes(content if name == path.name else original)
            state, lost = recalled(directory, shown)
            assert state == full or lost is not None, what
            whole += lost is None
            said += lost is not None
    assert min(whole, said) > 50


def test_one_rotten_bit_in_the_last_snapshot_costs_nothing(tmp_path: Path) -> None:
    full = written(tmp_path).dump()
    last = segment_paths(tmp_path)[-1]
    content = bytearray(last.read_bytes())
    content[200] ^= 4
    last.write_bytes(content)
    assert recalled(tmp_path, None) == (full, None)


def test_what_is_forgotten_is_said_with_its_time(tmp_path: Path) -> None:
    tracker = written(tmp_path)
    shown = dumps(measured(tracker.state))
    _, last = segment_paths(tmp_path)
    frames = last.read_bytes()
    last.write_bytes(frames[: frames.rindex(b"KDCF")])  # a whole number of frames
    _, lost = recalled(tmp_path, shown)
    assert lost == f.MemoryLost(
        END_NS, 22, "the ledger tells of 9 facts, and 10 had been judged: it was cut off or put back"
    )
    shutil.rmtree(tmp_path)
    _, lost = recalled(tmp_path, shown)
    assert lost == f.MemoryLost(
        END_NS, 1, "the ledger is empty, and had not been: it was wiped, or its disk is another one"
    )
    assert recalled(tmp_path, None)[1] is None, "a first start has nothing to forget"


def test_a_ledger_of_another_installation_says_so(tmp_path: Path) -> None:
    state = written(tmp_path).state
    assert memory.memory_lost(state, None, None, HOME, END_NS) is None
    other = memory.memory_lost(state, None, None, "b" * 32, END_NS)
    assert other is not None
    assert other.reason == "the ledger belongs to another installation than the store"


@dataclass
class Run:
    """A flusher beside its ledger and its store, without a cluster."""

    directory: Path
    store: Store
    tracker: Tracker = field(default_factory=Tracker)

    def __post_init__(self) -> None:
        self.flusher = Flusher(context(self.store), lambda: measured(self.tracker.state))

    def take(self, ledger: Ledger, *facts: f.Fact, flushed: bool = True) -> None:
        ledger.append(facts)
        self.tracker.fold(facts)
        self.flusher.violations(self.tracker.drain().violations)
        assert not flushed or self.flusher.flush()

    def seal(self, ledger: Ledger) -> None:
        undelivered, unended = self.flusher.undelivered(), self.flusher.unended()
        ledger.seal(snapshot.seal(self.tracker, undelivered, unended, self.flusher.shown))

    def recalled(self) -> tuple[memory.Memory, Flusher]:
        asked: Any = SimpleNamespace(ask=lambda question, _: question())
        with Ledger(self.directory) as ledger:
            recalled = memory.recall(context(self.store), asked, ledger)
        assert recalled is not None
        return recalled


REFUSED = f.ClientError(3 * END_NS, "tail", "SASL_AUTHENTICATION_FAILED", "no")
"""Something that is reported at once."""


@pytest.mark.parametrize("wiped", [False, True])
def test_what_the_store_has_open_is_known_after_a_start_with_a_ledger_and_without(
    tmp_path: Path, *, wiped: bool
) -> None:
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=60) as store:
        stores.upgrade(store)
        with Ledger(tmp_path / "ledger") as ledger:
            run = Run(tmp_path / "ledger", store)
            run.take(ledger, f.RunnerStarted(END_NS, "r", "1", store.identities.installation(None)), REFUSED)
            run.seal(ledger)
        (one,) = run.tracker.conditions()
        directory = tmp_path / ("none" if wiped else "ledger")
        known = Run(directory, store).recalled()[0].tracker.conditions()
        assert [(had.key("c"), had.summary) for had in known] == [(one.key("c"), one.summary)]


@pytest.mark.parametrize("wiped", [False, True])
def test_a_store_that_was_put_back_lacks_what_had_been_delivered_and_that_is_said(
    tmp_path: Path, *, wiped: bool
) -> None:
    url, backup = f"sqlite:///{tmp_path}/store.db", tmp_path / "backup.db"
    with Store.connect(url, timeout=60) as store, Ledger(tmp_path / "ledger") as ledger:
        stores.upgrade(store)
        run = Run(tmp_path / "ledger", store)
        home = store.identities.installation(None)
        run.take(ledger, f.RunnerStarted(END_NS, "r", "1", home), f.Tick(2 * END_NS))
        with (
            contextlib.closing(sqlite3.connect(tmp_path / "store.db")) as a,
            contextlib.closing(sqlite3.connect(backup)) as b,
        ):
            a.backup(b)
        run.take(ledger, REFUSED, f.Tick(4 * END_NS))
        run.seal(ledger)
        run.take(ledger, f.Tick(5 * END_NS))
    with Store.connect(url, timeout=60) as store:
        assert Run(tmp_path / "ledger", store).recalled()[0].lost is None
    for name in ("store.db", "store.db-wal", "store.db-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    if not wiped:
        backup.rename(tmp_path / "store.db")
    with Store.connect(url, timeout=60) as store:
        store.upgrade()
        remembered, flusher = Run(tmp_path / "ledger", store).recalled()
    assert flusher.shown == 4
    assert remembered.tracker.conditions() != []
    assert remembered.lost is not None
    told = 0 if wiped else 2
    assert remembered.lost.reason == (
        f"the store tells of {told} facts, and had been shown 4: it was put back or wiped, and what was reported since "
        "is forgotten there"
    )
    assert remembered.lost.from_ns == (1 if wiped else 2) * END_NS


def test_a_ledger_that_was_put_back_gives_no_number_of_a_segment_again(tmp_path: Path) -> None:
    directory, backup = tmp_path / "ledger", tmp_path / "backup"
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=60) as store:
        stores.upgrade(store)
        with Ledger(directory) as ledger:
            run = Run(directory, store)
            run.take(ledger, f.Tick(END_NS))
            shutil.copytree(directory, backup)
            run.take(ledger, f.Tick(2 * END_NS))
        shutil.rmtree(directory)
        backup.rename(directory)
        asked: Any = SimpleNamespace(ask=lambda question, _: question())
        with Ledger(directory) as ledger:
            recalled = memory.recall(context(store), asked, ledger)
            assert recalled is not None
            remembered, _ = recalled
            assert remembered.lost is not None
            ledger.append([f.Tick(3 * END_NS)])
        assert segment_number(segment_paths(directory)[-1]) > remembered.began_ns // END_NS


def test_what_is_delivered_and_not_yet_followed_by_a_view_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store put back to that moment has the last view, and lacks what was delivered after it."""

    def away(*_: object) -> None:
        raise StoreError("away")

    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=60) as store, Ledger(tmp_path / "ledger") as ledger:
        stores.upgrade(store)
        run = Run(tmp_path / "ledger", store)
        run.take(ledger, f.Tick(2 * END_NS))
        with monkeypatch.context() as patched:
            patched.setattr(type(store.views), "save", away)
            run.take(ledger, REFUSED, flushed=False)
            assert not run.flusher.flush()
            (said,) = run.flusher.undelivered()
            run.flusher.ended([said])
            assert not run.flusher.flush()
        assert [one.kind for one in run.flusher.undelivered()] == ["blind"]
        assert run.flusher.unended() == [said]
        assert run.flusher.shown == 1
        run.flusher.violations([said])  # it holds again
        assert run.flusher.unended() == []
        assert run.flusher.flush()
        assert run.flusher.undelivered() == run.flusher.unended() == []
        assert run.flusher.shown == 2
        run.flusher.ended([said])
        assert run.flusher.flush()
        assert run.flusher.unended() == [], "the view after it tells that it ended"


def test_what_a_former_process_probed_is_closed_by_the_next_start_and_not_by_the_replay(tmp_path: Path) -> None:
    """A topic is renamed. The ledger holds a former start, at which three of its probes were unread; it read two."""
    former = Tracker()
    former.state.probed = {"former": Probed(["idempotent"], [0])}
    sent = [f.Sent(i, "former", 0, 7, 1, i, "idempotent") for i in range(3)]
    acked = [f.Acked(i, "former", 0, 7, 1, i, i) for i in range(3)]
    put = [f.Positioned(2, one, one, "former", 0, 0, "start") for one in ("read_committed", "read_uncommitted")]
    former.fold([f.RunnerStarted(1, "r", "1"), f.GenerationBegan(1, "former", "idempotent", 7, 1), *put])
    former.fold([*sent, *acked])
    polled = [f.Polled(4, "read_committed", "read_committed", "former", 0, i, 7, 1, i) for i in range(2)]
    asked: Any = SimpleNamespace(ask=lambda question, _: question())
    with Ledger(tmp_path / "ledger") as ledger:
        ledger.seal(snapshot.seal(former, []))
        ledger.append([f.RunnerStarted(3, "r", "1"), *polled])
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=60) as store, Ledger(tmp_path / "ledger") as ledger:
        stores.upgrade(store)
        recalled = memory.recall(context(store), asked, ledger)
    assert recalled is not None
    remembered, _ = recalled
    state = remembered.tracker.state
    assert "former" not in state.probed
    assert state.meters["former", 0].unverified == {}
    remembered.tracker.fold([f.RunnerStarted(5, "r", "1")])
    assert state.meters["former", 0].unverified == {"idempotent": 1}


def of(directory: Path) -> Settings:
    """A cluster that nobody asks."""
    config = directory / "canary.yaml"
    config.write_text(
        f"clusters: [{{name: c, kafka: {{bootstrap.servers: '127.0.0.1:1'}}}}]\nledger: {{directory: {directory}}}\n"
        f"runner: {{name: r}}\nprobe_log: {{url: {directory}/probe-log}}\n"
    )
    return load(config, {})


def test_nothing_is_known_of_a_partition_because_a_process_before_had_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever goes on from that would take for a jump what a start did that is forgotten."""
    settings, tracker = of(tmp_path), Tracker()
    tracker.fold(
        [
            f.RunnerStarted(1, "r", "1", HOME),
            f.WatchAsked(2, 1),
            f.ClusterSeen(2, 1, "cluster", "1"),
            f.TopicSeen(2, 1, TOPIC, "id", 1),
            f.Listed(2, 1, TOPIC, 0, 0, 10, 10, 0),
        ]
    )
    share = settings.clusters[0].share
    assert answered(measured(tracker.state), TOPIC, share) == (0,)
    with Ledger(tmp_path / "c" / "r") as ledger:
        ledger.seal(snapshot.seal(tracker, []))
    refused, append, seen = [OSError(errno.ENOSPC, "full")] * 2, Disk.append, list[tuple[int, ...]]()

    def full(disk: Disk, descriptor: int, data: bytes) -> None:
        if refused:
            raise refused.pop()
        append(disk, descriptor, data)

    def probes(runner: ClusterRunner, *_: object) -> bool:
        assert runner.published is not None
        seen.append(answered(runner.published, TOPIC, share))
        return False

    monkeypatch.setattr(Disk, "append", full)
    monkeypatch.setattr(connection, "cluster_id", lambda *_: "cluster")
    monkeypatch.setattr(ClusterRunner, "_probe_one", probes)
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=60) as store:
        stores.upgrade(store)
        runner = ClusterRunner(settings, settings.clusters[0], store)
        runner.start()
        until(lambda: seen or not runner.alive, 60, "probing begins")
        runner.stop(60)
    assert seen == [()]


def test_what_is_forgotten_is_said_though_the_last_that_is_known_is_that_nothing_is_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another cluster answered behind the address, and the facts since the snapshot are gone."""

    def no_answer(*_: object) -> str:
        raise connection.NoAnswerError("no answer", "_TRANSPORT")

    monkeypatch.setattr(connection, "cluster_id", no_answer)
    settings = of(tmp_path)
    tracker = Tracker()
    tracker.state.stopped = "another cluster answers"
    with Ledger(tmp_path / "c" / "r") as ledger:
        ledger.seal(snapshot.seal(tracker, []))
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=60) as store:
        stores.upgrade(store)
        store.views.save("c", "r", 1, b'{"ordinal": 7}')
        runner = ClusterRunner(settings, settings.clusters[0], store)
        runner.start()
        try:
            until(lambda: store.violations.page(ViolationFilter(kind="memory-lost")).items, 60, "it is said")
        finally:
            runner.stop(60)


def test_a_start_says_how_far_the_machines_clock_was_set_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while it waited for its store: nothing was sent by then, and no step of the clock is to be remembered."""

    class Late(SteadyClock):
        def now_ns(self) -> int:
            return super().now_ns() - 3600 * 10**9

    def no_answer(*_: object) -> str:
        raise connection.NoAnswerError("no answer", "_TRANSPORT")

    monkeypatch.setattr(connection, "cluster_id", no_answer)
    settings = of(tmp_path)
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=60) as store:
        stores.upgrade(store)
        runner = ClusterRunner(settings, settings.clusters[0], store, Late())
        runner.start()
        until(store.views.all, 60, "something is shown")
        runner.stop(60)
    with Ledger(tmp_path / "c" / "r") as ledger:
        state = snapshot.unseal(ledger.recover().state)[0].state
    assert abs(state.clock_ahead_ns - 3600 * 10**9) < 10**9
    assert [back_ns for _, back_ns, _ in state.clock_steps] == [0]


def test_a_holder_that_rotted_is_no_predecessor_and_no_traceback(tmp_path: Path) -> None:
    (tmp_path / "holder").write_bytes(b"\xff\xfe\x00")
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=0) as store:
        stores.upgrade(store)
        holder = lease.claim(context(store), tmp_path)
    assert (tmp_path / "holder").read_text().split()[0] == holder


# identities


class World:
    """A store and a ledger, copies of them, and every identity that was ever begun with any."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.now = directory / "now"
        self.now.mkdir(parents=True)
        self.copies: list[Path] = []
        self.begun: list[tuple[int, int]] = []
        self.names: list[int] = []

    def copy(self, source: Path) -> Path:
        target = self.directory / f"copy-{len(list(self.directory.iterdir()))}"
        shutil.copytree(source, target)
        return target

    def put_back(self, *what: str, source: Path) -> None:
        for name in what:
            target = self.now / name
            if (source / name).is_dir():
                shutil.rmtree(target, ignore_errors=True)
                shutil.copytree(source / name, target)
            else:
                shutil.copyfile(source / name, target)

    def restore(self, source: Path) -> None:
        """Do as docs/backup.md says when a machine is lost: the ledger is not backed up."""
        self.put_back("store.db", source=source)
        shutil.rmtree(self.now / "ledger")

    def live(self, directory: Path | None = None, renewals: int = 2) -> None:
        """Start, write under some generations, and be killed."""
        directory = directory or self.now
        inbox = Inbox()
        with (
            Store.connect(f"sqlite:///{directory}/store.db", timeout=0) as store,
            Ledger(directory / "ledger") as ledger,
        ):
            store.upgrade()
            recovery = ledger.recover()
            tracker = snapshot.unseal(recovery.state).tracker
            for batch in recovery.facts:
                tracker.fold(batch)
            installation = store.identities.installation(tracker.state.installation)
            producers = tracker.state.producers
            mine = [(key, one.generation) for key, one in producers.items() if one.mode == "plain"]
            known = (mine[0][0], max(generation for _, generation in mine)) if mine else None
            identities = Identities(context(store, inbox=inbox), (installation, "id"), TOPIC, "plain", known)
            identities.begin()
            for _ in range(renewals):
                identities.renew("another one")
                identities.stock()
            started: Any = f.RunnerStarted(1, "r", "1", installation)
            ledger.append([started, *inbox.facts[:-1]])  # the last was in the queue when it was killed
            self.names.append(identities.first)
        self.begun += [(fact.producer_id, fact.generation) for fact in inbox.facts]


class Inbox:
    def __init__(self) -> None:
        self.facts: list[f.GenerationBegan] = []

    def put(self, facts: Sequence[f.GenerationBegan]) -> None:
        self.facts += facts


ACCIDENTS: dict[str, Callable[[World, Path], object]] = {
    "the store of yesterday": lambda world, copy: world.put_back("store.db", source=copy),
    "the ledger of yesterday": lambda world, copy: world.put_back("ledger", source=copy),
    "both of yesterday": lambda world, copy: world.put_back("store.db", "ledger", source=copy),
    "the ledger wiped": lambda world, _: shutil.rmtree(world.now / "ledger"),
    "the store deleted": lambda world, _: (world.now / "store.db").unlink(),
    "the documented restore": lambda world, copy: world.restore(copy),
    "a clone beside it": lambda world, copy: [world.live(copy) for _ in range(2)],  # type: ignore[func-returns-value]
}


@pytest.mark.parametrize("accident", ACCIDENTS)
def test_no_identity_is_written_twice_after(accident: str, tmp_path: Path) -> None:
    world = World(tmp_path)
    world.live()
    yesterday = world.copy(world.now)
    world.live()
    ACCIDENTS[accident](world, yesterday)
    world.live()
    world.live()
    assert len(world.begun) == len(set(world.begun))
    if accident not in {"the documented restore", "both of yesterday"}:
        assert len(set(world.names)) == 1, "transactional ids and groups are called as before"


def test_no_identity_is_written_twice_whatever_happens_in_which_order(tmp_path: Path) -> None:
    for seed in cases("restores", 2):
        chance = random.Random(seed)  # noqa: S311  # tests want to be repeated
        world = World(tmp_path / str(seed))
        world.live()
        for _ in range(8):
            world.copies.append(world.copy(world.now))
            ACCIDENTS[chance.choice(list(ACCIDENTS))](world, chance.choice(world.copies))
            world.live(renewals=chance.randrange(4))
        assert len(world.begun) == len(set(world.begun))
