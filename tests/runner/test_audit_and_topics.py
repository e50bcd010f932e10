"""The audit and the management of topics, by their commands, on real brokers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.command import canary
from tests.support.reassign import reassign
from tests.support.topics import alter, as_known
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from canary.lab import Lab

pytestmark = pytest.mark.kafka


class Command:
    """The command line with one settings file."""

    def __init__(self, directory: Path, bootstrap: str, topic: str, **watch: Any) -> None:
        self.file = directory / "canary.yaml"
        cluster = {
            "name": "t",
            "kafka": {"bootstrap.servers": bootstrap},
            "topic": {"name": topic},
            "modes": {"idempotent": {"interval": "100ms"}},
            "watch": watch,
        }
        store = {"url": f"sqlite:///{directory}/store.db"}
        self.file.write_text(json.dumps({"clusters": [cluster], "store": store}))

    def __call__(self, *words: str) -> tuple[int, Any]:
        done = canary(*words, "--json", "--config", self.file)
        return done.status, json.loads(done.out) if done.out.startswith("{") else done.err


def test_five_bad_settings_are_five_findings_and_the_lab_as_it_is_has_none(lab: Lab, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    command = Command(tmp_path, lab.bootstrap, "audited", audit=["orders", "payments", "ledger"])
    assert command("topics", "apply")[0] == 0
    admin.create_topics([NewTopic("ledger", 3, 3, config={"min.insync.replicas": "2"})])["ledger"].result(20)
    for name in ("audited", "ledger"):
        until(lambda name=name: all(as_known(lab, name)), 30, f"all brokers know {name}")  # type: ignore[misc]
    status, report = command("audit")
    assert (status, report["findings"]) == (0, []), report
    admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(20)
    unsafe = {"unclean.leader.election.enable": "true", "min.insync.replicas": "3"}
    admin.create_topics([NewTopic("payments", 1, 3, config=unsafe)])["payments"].result(20)
    alter(admin, "audited", retention_ms="60000", min_insync_replicas="1")

    def all_said() -> tuple[int, Any] | None:
        said = command("audit")
        return said if isinstance(said[1], dict) and len(said[1]["findings"]) >= 5 else None

    try:
        status, report = until(all_said, 30, "the broker that is asked knows all that is bad")
    finally:
        alter(admin, "audited", retention_ms=None, min_insync_replicas="2")
    assert status == 1
    assert sorted((one["check"], one["where"]) for one in report["findings"]) == [
        ("min-isr", "topic audited"),
        ("no-tolerance", "topic payments"),
        ("replication-factor", "topic orders"),
        ("retention", "topic audited"),
        ("unclean-election", "topic payments"),
    ]
    assert all(one["why"] and one["change"] for one in report["findings"])


def test_nobody_at_the_address_is_exit_status_3(tmp_path: Path, free_port: int) -> None:
    command = Command(tmp_path, f"127.0.0.1:{free_port}", "audited")
    for words in (("audit",), ("topics", "plan")):
        status, said = command(*words)
        assert status == 3, said


@pytest.mark.quick
def test_topics_are_planned_then_made_then_nothing_is_left_also_with_brokers_down_moved_by_hand_and_added(
    lab: Lab, tmp_path: Path
) -> None:
    command = Command(tmp_path, lab.bootstrap, "planned")

    def planned() -> list[tuple[str, list[int]]]:
        status, report = command("topics", "plan")
        assert status == 0, report
        return [(one["action"], sorted(a[0] for a in one["assignments"])) for one in report["changes"]]

    def come_to(wanted: list[tuple[str, list[int]]]) -> None:
        """Wait until that is planned: the broker that is asked may not know yet what was done just now."""
        until(lambda: planned() == wanted, 30, f"the plan is {wanted}")

    assert planned() == planned() == [("create", [1, 2, 3])]
    assert command("topics", "apply")[0] == 0
    come_to([])
    lab.kill(2)
    assert planned() == planned() == [], "a broker that died just now may be named as the controller"
    lab.wait_isr("planned", 0, {1, 3})
    assert planned() == [], "a broker that is down comes back"
    lab.restart(2)
    lab.wait_isr("planned", 0, {1, 2, 3})
    assert 2 not in {lab.leader("planned", number) for number in range(3)}, "it is not led by its preferred leader now"
    assert planned() == [], "a preferred-leader election puts that right, and is not fought"
    reassign(lab, "planned", {0: [2, 1, 3], 1: [1, 2, 3]})
    assert planned() == [], "preferred leaders that changed places by hand stay there"
    reassign(lab, "planned", {0: [3, 1, 2], 1: [3, 2, 1], 2: [3, 1, 2]})
    come_to([("add-partitions", [1, 2])])  # partitions are added, and none is moved back
    reassign(lab, "planned", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    added = lab.add_broker()
    try:
        come_to([("add-partitions", [added])])
        assert command("topics", "apply")[0] == 0
        come_to([])
        assert lab.leader("planned", 3) == added
    finally:
        admin = AdminClient({"bootstrap.servers": lab.bootstrap})
        admin.delete_topics(["planned"])["planned"].result(20)
        lab.remove_broker(added)
