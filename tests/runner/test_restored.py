"""Store and ledger put back, wiped or rotten, over real brokers: what is forgotten is said, and nothing false is."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from canary.drills.rig import direct
from canary.runner.cluster.cluster import ClusterRunner
from canary.settings import Settings, load
from storage.ledger.segment import segment_paths
from storage.store import Store
from storage.store.values import ViolationFilter
from tests.support.process import START_S
from tests.support.stalls import Condition, explained
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from canary.lab import Lab
    from canary.metrics.published import PartitionView
    from tests.support.postgres import Postgres

pytestmark = pytest.mark.kafka

MODES = ("idempotent", "transactional", "relay", "fencing", "group")


def live(settings: Settings, lab: Lab, meanwhile: Callable[[], None] = lambda: None) -> tuple[set[str], int]:
    """Probe, read all that is retained again, and stop; return what was said of severity above info, and what is lost.

    What the lab's events explain is left out. The second is how many times the canary said that it forgot something.
    """
    with Store.connect(settings.store.url.get_secret_value(), timeout=60) as store:
        store.upgrade()
        runner = ClusterRunner(settings, settings.clusters[0], store)
        runner.start()
        try:
            until(lambda: runner.probing.is_set() or not runner.alive, START_S, "it probes")
            before = acked(runner)
            until(lambda: acked(runner) > before + 60, 120, "more is acknowledged")
            meanwhile()
            asked_ns = runner.read_again()
            until(lambda: read_since(runner, asked_ns), 120, "everything retained is read again")
        finally:
            runner.stop(15)
        found = store.violations.page(ViolationFilter(), None, 500).items
    happened = lab.events()
    said = {
        one.kind
        for one in found
        if one.severity != "info"
        and not explained(Condition(one.kind, one.topic, one.partition, one.first_seen_ns / 1e9), happened)
    }
    return said, sum(one.kind == "memory-lost" for one in found)


def partitions(runner: ClusterRunner) -> tuple[PartitionView, ...]:
    assert runner.published is not None
    return tuple(runner.published.partitions)


def acked(runner: ClusterRunner) -> int:
    return sum(p.acked for p in partitions(runner))


def read_since(runner: ClusterRunner, asked_ns: int) -> bool:
    if all(p.scrubbed_ns > asked_ns for p in partitions(runner)):
        return True
    runner.read_again(asked_ns)
    return False


def configured(lab: Lab, folder: Path, store: str, topic: str) -> Settings:
    config = folder / "canary.yaml"
    config.write_text(
        f"clusters: [{{name: t, kafka: {{bootstrap.servers: '{lab.bootstrap}'}}, topic: {{name: {topic}}}, "
        f"modes: {{{', '.join(f'{mode}: {{}}' for mode in MODES)}}}}}]\n"
        f"store: {{url: '{store}'}}\n"
        f"ledger: {{directory: {folder}/ledger}}\nprobe_log: {{url: {folder}/probe-log}}\nrunner: {{name: r}}\n"
    )
    return load(config, {})


def no_identity_is_written_twice(lab: Lab, topic: str) -> None:
    """Read what the idempotent mode wrote; a copy of librdkafka's own would be next to the first."""
    written = list(direct.found(lab.bootstrap, topic).values())
    assert len(written) > 100
    assert len(written) == len(set(written))


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.timeout(1800)
def test_a_backup_of_postgresql_that_was_made_while_it_runs_is_put_back(
    lab: Lab, postgres: Postgres, tmp_path: Path
) -> None:
    url, topic, backup = postgres.database(), tmp_path.name, str(tmp_path / "backup")
    settings = configured(lab, tmp_path, url, topic)
    database = url.replace("+psycopg", "")
    dump = ("pg_dump", "--format=custom", f"--file={backup}", f"--dbname={database}")
    assert live(settings, lab, lambda: postgres.client(*dump)) == (set(), 0)
    assert live(settings, lab) == (set(), 0)
    postgres.client("pg_restore", "--clean", f"--dbname={database}", backup)
    assert live(settings, lab) == ({"memory-lost"}, 1), "the ledger has more than the store was told"
    shutil.rmtree(tmp_path / "ledger" / "t" / "r")
    postgres.client("pg_restore", "--clean", f"--dbname={database}", backup)
    assert live(settings, lab) == ({"memory-lost"}, 1)
    no_identity_is_written_twice(lab, topic)


@pytest.mark.timeout(1800)
def test_whatever_is_put_back_nothing_false_is_said_and_what_is_forgotten_is(lab: Lab, tmp_path: Path) -> None:
    var, yesterday = tmp_path / "var", tmp_path / "yesterday"
    var.mkdir()
    settings = configured(lab, var, f"sqlite:///{var}/store.db", tmp_path.name)
    ledger = var / "ledger" / "t" / "r"

    def store_of_yesterday() -> None:
        shutil.copyfile(yesterday / "store.db", var / "store.db")

    def both_of_yesterday() -> None:
        store_of_yesterday()
        shutil.rmtree(ledger)
        shutil.copytree(yesterday / "ledger" / "t" / "r", ledger)

    def documented_restore() -> None:
        store_of_yesterday()
        shutil.rmtree(ledger)

    def rotten_bit() -> None:
        last = segment_paths(ledger)[-1]
        content = bytearray(last.read_bytes())
        content[len(content) // 2] ^= 8
        last.write_bytes(content)

    assert live(settings, lab) == (set(), 0)
    shutil.copytree(var, yesterday)
    assert live(settings, lab) == (set(), 0)
    accidents: list[tuple[Callable[[], None], int]] = [
        (rotten_bit, 0),
        (store_of_yesterday, 1),
        ((var / "store.db").unlink, 1),
        (lambda: shutil.rmtree(ledger), 2),  # and that of before
        (documented_restore, 1),
        (both_of_yesterday, 1),
    ]
    for accident, forgotten in accidents:
        accident()
        assert live(settings, lab) == ({"memory-lost"} if forgotten else set(), forgotten), accident
    no_identity_is_written_twice(lab, tmp_path.name)
