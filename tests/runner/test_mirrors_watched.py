"""What the runner of a cluster gives its watchers of mirrored topics: open gaps, and credentials of the source."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from canary.anomalies.mirrormaker.facts import Answer, PartitionRound, Round, Row
from canary.anomalies.mirrormaker.mirror import Link, Mirror
from canary.probe.identity import Identity
from canary.runner.cluster.connection import Connection
from canary.runner.watching.mirrors import Mirrors
from canary.settings import Settings
from storage.store import Store, StoreError
from tests.support import stores
from tests.support.contexts import context

if TYPE_CHECKING:
    from pathlib import Path

    from canary.runner.context import ClusterContext

ROWS = tuple(Row(100 + n, Identity(7, 0, 0, n), 10**18) for n in range(9))


def both(**of_the_source: str) -> ClusterContext:
    """Return what the parts of the runner of dc2 share, to which dc1 is mirrored."""
    kafka = {"bootstrap.servers": "127.0.0.1:1"}
    source = {"name": "dc1", "kafka": {**kafka, **of_the_source}, "topic": {"name": "probes"}}
    target = {"name": "dc2", "kafka": kafka, "replicated_from": [{"cluster": "dc1"}]}
    settings = Settings.model_validate({"clusters": [source, target]})
    return replace(context(), settings=settings, cluster=settings.clusters[1])


def gap(*copied: int, topic: str = "probes") -> Mirror:
    """Return what has said a gap: all that is not copied."""
    mirror = Mirror(Link("dc1", topic, f"dc1.{topic}", 60.0), confirm_s=0)
    copies = tuple(ROWS[n]._replace(offset=at) for at, n in enumerate(copied))
    mirror.fold(Round(10**18, {0: PartitionRound(ROWS, copies, source_complete=True, target_complete=True)}))
    return mirror


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)  # it does not hang on the database
def test_open_gaps_are_remembered_by_the_next_process_once_the_store_answers(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.connect(store_url, timeout=60) as store:
        stores.upgrade(store)
        said = []
        for copied, topic in (((0, 3, 5, 8), "probes"), ((0, 8), "others")):
            mirror = gap(*copied, topic=topic)
            answer = Answer(frozenset((row.offset, row.identity) for row in ROWS if row.identity), 0, frozenset())
            for question in mirror.questions(10**18):
                said += mirror.confirm(question, answer, 10**18)
        resolved, *still = [one for one in said if one.topic == "dc1.probes"]
        changed = replace(still[0], partition=1, evidence={"why": "changed"})
        store.violations.record("dc2", [*said, changed])
        store.violations.end([resolved.key("dc2")], 10**18)
        ((_, _, mirror, progress),) = Mirrors(replace(both(), store=store))._known

        def away(*_: object) -> None:
            raise StoreError("the store is away")

        assert progress.earlier is not None
        with monkeypatch.context() as patched:
            patched.setattr(type(store.violations), "unended", away)
            assert progress.earlier() is None
        found = list(progress.earlier() or ())
        assert {one.key("dc2") for one in found} == {one.key("dc2") for one in still}
        mirror.remember(found)
        copies = tuple(row._replace(offset=at) for at, row in enumerate(ROWS))
        _, over = mirror.fold(Round(10**18, {0: PartitionRound(ROWS, copies, source_complete=True)}))
        assert {one.key("dc2") for one in over} == {one.key("dc2") for one in still}


@pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
def test_gaps_that_the_ledger_has_found_again_are_remembered_though_the_store_does_not_have_them_yet(
    store_url: str,
) -> None:
    """Else such a gap would never end: it was found while the store was away, by a process that was killed."""
    with Store.connect(store_url, timeout=60) as store:
        stores.upgrade(store)
        mirror = gap(0, 3, 5, 8)
        answer = Answer(frozenset((row.offset, row.identity) for row in ROWS if row.identity), 0, frozenset())
        said = [one for question in mirror.questions(10**18) for one in mirror.confirm(question, answer, 10**18)]
        resolved, stored, coming = said
        store.violations.record("dc2", [resolved, stored])
        store.violations.end([resolved.key("dc2")], 10**18)
        others = [replace(coming, topic="dc1.others"), replace(coming, partition=1, evidence={"why": "changed"})]
        ((_, _, _, progress),) = Mirrors(replace(both(), store=store), [*said, *others])._known
        assert progress.earlier is not None
        keys = [one.key("dc2") for one in progress.earlier() or ()]
        assert keys == [stored.key("dc2"), coming.key("dc2")]


def test_credentials_of_the_source_are_renewed_too(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("old")
    connection = Connection(
        both(**{"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password_file": f"{password}"})
    )
    connection.credentials._every_s = 0.0
    assert not connection.credentials.changed()
    password.write_text("new")
    assert [connection.credentials.changed() for _ in range(3)] == [False, True, False], "two looks saw the same"
