"""Every part of a runner is looked after: what ends is started again, or the process ends and says why."""

from __future__ import annotations

import importlib
import pkgutil
import threading
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import orjson
import pytest

import canary
from canary import facts as f
from canary.anomalies.online import Tracker
from canary.errors import FAILED, UserError
from canary.lab.state import free_ports
from canary.probing.base import Writer
from canary.probing.readers.reread import RereadWorker
from canary.processes import run
from canary.runner.cluster import cluster
from canary.runner.cluster.cluster import ClusterRunner
from canary.runner.publishing import shipper as shipping
from canary.runner.publishing.flusher import Flusher
from canary.runner.publishing.inbox import FactQueue
from canary.runner.publishing.shipper import Shipper
from canary.runner.publishing.troubles import Trouble
from canary.runner.supervision import supervisor as supervising
from canary.runner.supervision.lease import TAKEN
from canary.runner.supervision.supervisor import PARTS, Supervisor
from canary.settings import load
from canary.threads import system
from canary.threads.backoff import Pauses
from canary.threads.ports import SteadyClock
from canary.threads.worker import Worker, in_background
from canary.watching.elections.asking import WireWatcher
from canary.watching.sampler import Watcher
from storage.ledger import Ledger, LedgerError
from storage.ledger.files import Disk
from storage.store import Store
from storage.store.repositories.leases import runner_lease
from storage.store.values import Lease, ViolationFilter
from tests.support import stores
from tests.support.contexts import context
from tests.support.disk import small_disk
from tests.support.waiting import in_time, joined, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from canary.runner.publishing.judge import Judge
    from canary.settings import Settings


def subclasses(of: type) -> set[type]:
    found: set[type] = set(of.__subclasses__())
    return found.union(*map(subclasses, found))


def test_every_thread_of_a_runner_is_in_the_table() -> None:
    for module in pkgutil.walk_packages(canary.__path__, "canary."):
        importlib.import_module(module.name)
    elsewhere = "canary.processes."  # a thread of the API
    ours = {part for part in subclasses(Worker) if part.__module__.startswith("canary.")}
    ours = {part for part in ours if not part.__module__.startswith(elsewhere)}
    whole = {ClusterRunner, Supervisor, WireWatcher}  # the last is a base
    writers = subclasses(Writer)
    assert ours - whole - writers == set(PARTS)
    assert len(writers) > 4
    assert [part.__name__ for part, rule in PARTS.items() if not rule.again] == ["Judge"]


@pytest.fixture
def flusher(monkeypatch: pytest.MonkeyPatch) -> Flusher:
    """One that never comes to its work: it stands for any part that is started again."""
    part = Flusher(context())
    monkeypatch.setattr(part, "flush", lambda: 1 / 0)
    return part


def ended(part: Worker) -> None:
    until(lambda: not part.alive, 30, f"{part.name} has ended")


def judge(blocked: str | None = None, failing: str | None = None) -> Judge:
    return cast("Judge", SimpleNamespace(blocked=blocked, failing=failing, directory="/ledger"))


def test_a_part_that_ends_is_started_again_and_said_to_fail_when_it_does_so_again_and_again(flusher: Flusher) -> None:
    at = [0.0]
    given_up = list[str]()
    supervisor = Supervisor(FactQueue(), given_up.append)
    supervisor._pauses = Pauses(lambda: at[0])
    supervisor.begin(flusher)
    ended(flusher)
    first = flusher._threads[0]
    supervisor.look()
    assert flusher._threads[0] is not first
    assert supervisor.troubles(judge()) == {"ledger /ledger": None, "queue": None, "flusher": None}
    ended(flusher)
    second = flusher._threads[0]
    supervisor.look()
    assert flusher._threads[0] is second, "not before the pause is over"
    at[0] = 1.0
    supervisor.look()
    assert flusher._threads[0] is not second
    words = "its flusher ends again and again (ZeroDivisionError('division by zero'))"
    assert supervisor.troubles(judge())["flusher"] == Trouble(words, blind=True)
    ended(flusher)
    supervisor.leave(flusher)
    third = flusher._threads[0]
    at[0] = 10.0
    supervisor.look()
    assert flusher._threads[0] is third
    assert given_up == []


def test_readers_that_ended_are_started_again_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    rereads = RereadWorker(cast("Any", None), cast("Any", None), cast("Any", None), SteadyClock())
    take, breaks = rereads._queue.take, iter([True])
    monkeypatch.setattr(rereads._queue, "take", lambda timeout: 1 / 0 if next(breaks, False) else take(timeout))
    supervisor = Supervisor(FactQueue(), print)
    supervisor.begin(rereads)
    ended(rereads)
    broken, whole = sorted(rereads._threads, key=threading.Thread.is_alive)
    supervisor.look()
    assert rereads.alive
    assert whole in rereads._threads
    assert broken not in rereads._threads
    in_time(rereads.stop(60))


def test_a_ledger_that_cannot_be_written_and_a_queue_that_stays_full_are_troubles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inbox = FactQueue(pause_at=1)
    supervisor = Supervisor(inbox, print)
    inbox.put([f.Tick(1)])
    assert supervisor.troubles(judge())["queue"] is None, "a burst is none"
    monkeypatch.setattr(supervising, "CROWDED_S", 0.0)
    queue = supervisor.troubles(judge())["queue"]
    assert queue is not None
    assert queue.blind
    full, files = (f"the ledger /ledger {how}" for how in ("cannot be written: No space left", "fails: Too many files"))
    assert supervisor.troubles(judge(failing=files)) == {"ledger /ledger": Trouble(files, blind=False), "queue": queue}
    troubles = supervisor.troubles(judge(full, failing=files))
    assert troubles == {
        "ledger /ledger": Trouble(full, blind=True),
        "queue": None,
    }


def test_a_probe_log_that_cannot_be_written_is_a_trouble_until_it_can(tmp_path: Path) -> None:
    """What was shipped is all that the night reconciles."""
    with Ledger(tmp_path / "ledger") as ledger:
        ledger.append([f.Tick(1)])
        sealed = ledger.seal(b"")
        judge_ = SimpleNamespace(sealed=(sealed,), drop=ledger.drop)
        (tmp_path / "file").touch()
        shipper = Shipper(context(probe_log=f"{tmp_path}/file/log"), cast("Any", judge_))
        supervisor = Supervisor(FactQueue(), print)
        supervisor._parts.append(shipper)
        assert supervisor.troubles(judge())["shipper"] is None
        assert shipper.ship() == 0
        trouble = supervisor.troubles(judge())["shipper"]
        assert trouble is not None
        assert not trouble.blind
        assert "cannot be written: Not a directory" in trouble.words
        (tmp_path / "file").unlink()
        assert shipper.ship() == 1
        assert supervisor.troubles(judge())["shipper"] is None


def test_whatever_the_disk_answers_the_shipper_tries_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError(5, "Input/output error")

    with Ledger(tmp_path / "ledger") as ledger:
        ledger.append([f.Tick(1)])
        judge_ = SimpleNamespace(sealed=(ledger.seal(b""),), drop=ledger.drop)
        shipper = Shipper(context(probe_log=f"{tmp_path}/log"), cast("Any", judge_))
        with monkeypatch.context() as patched:
            patched.setattr(shipping, "ship_segment", broken)
            assert shipper.ship() == 0
        assert shipper.failing == "[Errno 5] Input/output error"
        assert shipper.ship() == 1
        assert shipper.failing is None


def test_a_watcher_that_hangs_is_named_and_a_process_that_was_paused_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    asks, at = threading.Event(), [100.0]
    monkeypatch.setattr(Watcher, "run", lambda _self: asks.wait(60))
    watcher = Watcher({}, ["t"], FactQueue(), SteadyClock())
    supervisor = Supervisor(FactQueue(), print)
    monkeypatch.setattr(system, "monotonic", lambda: at[0])
    supervisor.look()
    supervisor.begin(watcher)
    try:

        def looked(seconds: float, times: int = 1) -> Trouble | None:
            for _ in range(times):
                at[0] += seconds
                supervisor.look()
            return supervisor.troubles(judge())["watcher"]

        assert looked(1, times=27) is None
        assert looked(3600) is None, "it was paused with everything else"
        trouble = looked(1, times=2)
        assert trouble is not None
        assert trouble.blind
        assert trouble.words.startswith("its watcher has asked the cluster nothing for more than 30 s: what is newer")
        watcher.woken.set()
        watcher.wait(0)
        assert looked(1) is None
    finally:
        asks.set()


def test_a_supervisor_that_ends_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    given_up = list[str]()
    supervisor = Supervisor(FactQueue(), given_up.append)
    monkeypatch.setattr(supervisor, "look", lambda: 1 / 0)
    supervisor.start()
    ended(supervisor)
    assert given_up == ["its supervisor ended: ZeroDivisionError('division by zero')"]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A cluster that does not answer, which is enough for ledger, judge and store."""
    (port,) = free_ports(1)
    config = tmp_path / "canary.yaml"
    config.write_text(
        f"clusters: [{{name: prod, kafka: {{bootstrap.servers: '127.0.0.1:{port}'}}}}]\n"
        f"store: {{url: 'sqlite:///{tmp_path}/store.db'}}\nledger: {{directory: {tmp_path}/ledger}}\n"
        f"probe_log: {{url: {tmp_path}/probe-log}}\nrunner: {{name: canary-0}}\n"
    )
    return load(config, {})


@pytest.fixture
def stopping() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_a_judge_that_ends_ends_the_process_with_a_message_while_its_cluster_does_not_even_answer(
    settings: Settings, stopping: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    fold, folded = Tracker.fold, list[object]()

    def fold_twice(tracker: Tracker, facts: Any) -> None:
        folded.append(facts)
        if len(folded) > 2:
            raise MemoryError
        fold(tracker, facts)

    monkeypatch.setattr(Tracker, "fold", fold_twice)
    patience = threading.Timer(60, stopping.set)
    patience.start()
    try:
        with pytest.raises(UserError, match=r"^cluster prod: .*its judge ended: MemoryError\(\)") as raised:
            run.run(settings, stopping)
    finally:
        patience.cancel()
    assert raised.value.exit_status == FAILED
    assert not stopping.is_set(), "by itself"


def test_a_runner_that_fails_ends_the_others_of_its_process(
    settings: Settings, stopping: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first,) = settings.clusters
    both = settings.model_copy(update={"clusters": [first, first.model_copy(update={"name": "other"})]})
    monkeypatch.setattr(cluster, "claim", lambda one, _: 1 / 0 if one.cluster.name == "other" else "holder")
    patience = threading.Timer(60, stopping.set)
    patience.start()
    try:
        with pytest.raises(UserError, match="cluster-other failed: ZeroDivisionError"):
            run.run(both, stopping)
    finally:
        patience.cancel()
    assert not stopping.is_set()


def test_a_cluster_whose_ledger_cannot_be_opened_is_begun_again_while_others_run(
    settings: Settings, stopping: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first,) = settings.clusters
    both = settings.model_copy(update={"clusters": [first, first.model_copy(update={"name": "other"})]})
    refused = list[Path]()

    def scarce(directory: Path, **more: Any) -> Ledger:
        if directory.parent.name == "other" and len(refused) < 2:
            refused.append(directory)
            raise LedgerError(f"the ledger's directory {directory} cannot be used: Too many open files")
        return Ledger(directory, **more)

    monkeypatch.setattr("canary.runner.cluster.cluster.Ledger", scarce)
    process = in_background(lambda: run.run(both, stopping), "process")
    with Store.connect(settings.store.url.get_secret_value(), timeout=10) as store:
        store.upgrade()
        until(lambda: {view.cluster for view in store.views.all()} == {"prod", "other"}, 30, "both are looked at")
    stopping.set()
    joined(process)
    assert len(refused) == 2


def test_a_file_shows_a_liveness_probe_that_every_judge_turns(
    settings: Settings, stopping: threading.Event, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive, answers, append = tmp_path / "alive", threading.Event(), Disk.append
    answers.set()

    def waits(disk: Disk, descriptor: int, data: bytes) -> None:
        answers.wait()
        append(disk, descriptor, data)

    monkeypatch.setattr(Disk, "append", waits)
    monkeypatch.setattr(run, "_STILL_S", 1.0)
    watched = settings.model_copy(update={"runner": settings.runner.model_copy(update={"alive_file": alive})})
    process = in_background(lambda: run.run(watched, stopping), "process")

    def touched() -> int:
        return alive.stat().st_mtime_ns if alive.exists() else 0

    until(touched, 30, "the file is there")
    answers.clear()  # the disk hangs, and with it the judge
    until(lambda: time.time_ns() - touched() > 2 * 10**9, 30, "the file grows old")
    old = touched()
    answers.set()
    until(lambda: touched() > old, 30, "it is touched again")
    stopping.set()
    joined(process)


def test_a_stop_while_the_ledger_cannot_be_written_says_how_much_was_never_durable(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.connect(settings.store.url.get_secret_value(), timeout=10) as store:
        stores.upgrade(store)
        runner = ClusterRunner(settings, settings.clusters[0], store)
        monkeypatch.setattr("storage.ledger.files.Disk.append", fails)
        runner.start()
        until(lambda: open_blindness(store), 30, "it is said")
        (row,) = open_blindness(store)
        assert str(settings.ledger.directory) in row.summary
        runner.stop(60)
    assert runner.status == FAILED
    assert runner.message is not None
    assert "facts were never made durable" in runner.message
    assert "No space left on device" in runner.message


def test_a_runner_whose_lease_is_taken_ends_though_its_cluster_does_not_answer(settings: Settings) -> None:
    """Else it would show its blindness in the place of what its successor sees, for as long as it is cut off."""
    lease = runner_lease("prod", "canary-0")
    with Store.connect(settings.store.url.get_secret_value(), timeout=10) as store:
        stores.upgrade(store)
        runner = ClusterRunner(settings, settings.clusters[0], store)
        runner.start()
        try:
            until(store.views.all, 30, "it shows what it knows")
            until(lambda: take_over(store, lease), 30, "its lease is taken")
            until(lambda: not runner.alive, 30, "it ends")
        finally:
            runner.stop(60)
    assert runner.status == TAKEN
    assert "another live runner is called canary-0" in (runner.message or "")


def take_over(store: Store, lease: str) -> bool:
    """Take a lease over from whoever has it. Returns whether nobody renewed it in between."""
    held = store.leases.acquire(lease, "successor")
    return not isinstance(held, Lease) and isinstance(store.leases.take_over(lease, "successor", held.counter), Lease)


def test_a_start_on_a_full_disk_says_so_and_goes_on_when_there_is_room(settings: Settings, tmp_path: Path) -> None:
    with small_disk(tmp_path / "small") as disk:
        full = settings.ledger.model_copy(update={"directory": disk.path / "ledger"})
        settings = settings.model_copy(update={"ledger": full})
        disk.fill()
        with Store.connect(settings.store.url.get_secret_value(), timeout=10) as store:
            stores.upgrade(store)
            runner = ClusterRunner(settings, settings.clusters[0], store)
            runner.start()
            until(lambda: open_blindness(store) or not runner.alive, 30, "it is said")
            assert [str(disk.path / "ledger") in row.summary for row in open_blindness(store)] == [True]
            disk.empty()
            until(lambda: not open_blindness(store) or not runner.alive, 30, "it is over")
            runner.stop(60)
    assert (runner.status, runner.failure) == (None, None)


def test_a_disk_that_hangs_stops_the_heartbeat_and_a_full_queue_is_said_until_it_is_not(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, hangs, append = threading.Event(), threading.Event(), Disk.append
    answers.set()

    def waits(disk: Disk, descriptor: int, data: bytes) -> None:
        if not answers.is_set():
            hangs.set()
        answers.wait()
        append(disk, descriptor, data)

    monkeypatch.setattr(Disk, "append", waits)
    monkeypatch.setattr(cluster, "FactQueue", partial(FactQueue, pause_at=2))
    monkeypatch.setattr(supervising, "CROWDED_S", 0.0)
    with Store.connect(settings.store.url.get_secret_value(), timeout=10) as store:
        stores.upgrade(store)

        def shown() -> tuple[int, int]:
            """When the judge came on, and when the process spoke, as the store has it."""
            (row,) = store.views.all()
            return row.at_ns, orjson.loads(row.view)["told_ns"]

        def spoken() -> int:
            """Wait until the process has spoken twice more; return when the judge came on, as it says then."""
            for _ in range(2):
                before = shown()[1]
                until(lambda before=before: shown()[1] > before, 30, "the process speaks on")  # type: ignore[misc]
            return shown()[0]

        runner = ClusterRunner(settings, settings.clusters[0], store)
        runner.start()
        try:
            until(store.views.all, 30, "something is shown")
            answers.clear()
            runner._inbox.put([f.Tick(1), f.Tick(2)])
            until(lambda: open_blindness(store), 30, "a full queue is said")
            in_time(hangs.wait(60), "what is waited for")
            judged_ns = spoken()
            assert spoken() == judged_ns, "and its judge has not come on"
            answers.set()
            until(lambda: not open_blindness(store), 30, "it is over")
            until(lambda: shown()[0] > judged_ns, 30, "the judge has come on")
            hangs.clear()
            answers.clear()
            in_time(hangs.wait(60), "what is waited for")
            runner.stop(60)
        finally:
            answers.set()
            runner.stop(60)
    assert runner.status == FAILED
    assert runner.message is not None
    assert runner.message.endswith("its judge hangs")


def fails(*_: object) -> None:
    raise OSError(28, "No space left on device")


def open_blindness(store: Store) -> list[Any]:
    return list(store.violations.page(ViolationFilter(kind="blind", state="open"), None, 10).items)
