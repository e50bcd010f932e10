"""A cluster that never answers: its series are there at 0, and its view says what it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canary.runner.cluster import connection
from canary.runner.cluster.cluster import ClusterRunner
from canary.runner.cluster.memory import probed
from canary.settings import load
from canary.settings.clusters import ClusterSettings
from storage.store import Store
from tests.support import stores
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from canary.settings import Settings

ALL = "modes: {idempotent: {}, plain: {}, group: {}}"


def settings(directory: Path, more: str) -> Settings:
    config = directory / "canary.yaml"
    config.write_text(
        "clusters: [{name: t, kafka: {bootstrap.servers: '127.0.0.1:1'}, topic: {name: t, partitions: 4}, "
        f"{more}}}]\nledger: {{directory: {directory}/ledger}}\nprobe_log: {{url: {directory}/probe-log}}\n"
    )
    return load(config, {})


def test_a_cluster_that_never_answered_has_series_at_0_and_says_what_it_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def no_answer(*_: object) -> str:
        asked.append(1)
        raise connection.NoAnswerError("the cluster does not answer", "_TRANSPORT")

    monkeypatch.setattr(connection, "cluster_id", no_answer)
    monkeypatch.setattr(connection, "_PATIENCE_S", 0.01)
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=60) as store:
        stores.upgrade(store)
        configured = settings(tmp_path, ALL)
        runner = ClusterRunner(configured, configured.clusters[0], store)
        runner.start()
        try:
            until(lambda: runner.published is not None and runner.published.waiting_for, 30, "it is said")
            assert runner.published is not None
            assert "_TRANSPORT: the cluster does not answer" in (runner.published.waiting_for or "")
            acked = {m.labels: m.value for m in runner.published.series() if m.name == "canary_probes_acked_total"}
            main = {("t", str(p), "idempotent"): 0 for p in range(4)}
            assert acked == main | {("t-plain", str(p), "plain"): 0 for p in range(4)}
            asked.clear()
            until(lambda: len(asked) > 3, 30, "it is asked again and again")
        finally:
            runner.stop(15)


def test_a_runner_awaits_its_own_share_of_the_partitions(tmp_path: Path) -> None:
    (cluster,) = settings(tmp_path, "shard: 1/2").clusters
    assert {topic: one.partitions for topic, one in probed(cluster).items()} == {"t": [1, 3]}


def test_a_mode_that_reads_another_one_s_topic_is_not_awaited_more_often_than_that_one_writes() -> None:
    """A relay or a group has nothing to do while its input is written once in two minutes."""
    modes = {"idempotent": {"interval": "2m"}, "relay": {}, "group": {}}
    cluster = ClusterSettings(name="c", topic={"name": "t"}, modes=modes)  # type: ignore[arg-type, call-arg]
    found = probed(cluster)
    assert found["t"].intervals == {"idempotent": 120.0, "group": 120.0}
    assert (found["t"].modes, found["t"].committing) == (["idempotent"], ["group"])
    assert found["t-relay"].intervals == {"relay": 120.0}
