"""Brokers that lie to clients, first one and then all: no single answer is believed over the records themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from canary.lab import Lie
from canary.lab.proxy.lies import LIES
from canary.runner.cluster.cluster import ClusterRunner
from canary.settings import load
from storage.store import Store
from storage.store.values import ViolationFilter
from tests.support import labs, stores
from tests.support.process import START_S
from tests.support.waiting import in_time, until

if TYPE_CHECKING:
    from pathlib import Path

    from canary.lab.proxy.faults import Party

pytestmark = [pytest.mark.kafka, pytest.mark.slow]  # its own brokers, and twenty lies one after another

TOPIC: Final = "lied-about"
LASTS_NS: Final = 10**9
ONE_ONLY: Final = frozenset({"nothing fetched"})
"""Nothing tells it from a loss where all brokers say so."""
EACH: Final = frozenset({"partition missing", "old leaders", "end too low", "epoch of an end too old"})
"""Brokers that contradict each other are more than brokers that all lie: these are told by one, too."""
MODES: Final = "{idempotent: {interval: 200ms}, transactional: {interval: 500ms}, relay: {interval: 500ms}}"


class Lied:
    """A runner on brokers that lie, and what it says."""

    def __init__(self, runner: ClusterRunner, store: Store, lab: labs.Watched) -> None:
        self.runner, self.store, self.lab = runner, store, lab

    def acked(self) -> int:
        shown = self.runner.published
        return 0 if shown is None else sum(one.acked for one in shown.partitions)

    def judged_ns(self) -> int:
        return 0 if self.runner.published is None else self.runner.published.judged_ns

    def goes_on(self, what: str) -> None:
        before = self.acked()
        until(lambda: self.acked() > before + 5, 60, f"it goes on {what}")

    def critical(self) -> set[str]:
        return {one.kind for one in self.store.violations.page(ViolationFilter(severity="critical"), None, 500).items}

    def lie(self, who: Party, lie: str) -> None:
        self.lab.nemesis(Lie("client", who, TOPIC, lie))
        began_ns = self.judged_ns()
        until(lambda: self.judged_ns() > began_ns + LASTS_NS, 60, "facts are judged meanwhile")
        self.lab.heal()


def test_no_lie_of_brokers_is_a_loss(tmp_path: Path) -> None:
    labs.discard()
    config = tmp_path / "canary.yaml"
    with (
        labs.Watched(tmp_path / "lab", properties=labs.SHARED, proxied=True, die_with_parent=True) as lab,
        Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=60) as store,
    ):
        config.write_text(
            f"clusters: [{{name: t, kafka: {{bootstrap.servers: '{lab.bootstrap}'}}, topic: {{name: {TOPIC}}}, "
            f"modes: {MODES}}}]\n"
            f"ledger: {{directory: {tmp_path}/ledger}}\nprobe_log: {{url: {tmp_path}/probe-log}}\n"
        )
        stores.upgrade(store)
        settings = load(config, {})
        runner = ClusterRunner(settings, settings.clusters[0], store)
        lied = Lied(runner, store, lab)
        runner.start()
        in_time(runner.probing.wait(START_S), "probes are acknowledged")
        for lie in [one for one in LIES if one != "other cluster id"]:
            parties: tuple[Party, ...] = (1,) if lie in ONE_ONLY else (1, "any") if lie in EACH else ("any",)
            for who in parties:
                lied.lie(who, lie)
                assert lied.critical() == set(), f"{lie}, by {who}"
        lied.goes_on("after all of them")
        lied.lie("any", "other cluster id")
        lied.goes_on("when the address leads there again")
        runner.stop(60)
        assert lied.critical() <= {"another-cluster"}
