"""Every mode at once under faults of brokers, coordinators and the controller: no false alarm, nobody stuck."""

from __future__ import annotations

import itertools
import random
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest
import structlog
from confluent_kafka import ConsumerGroupTopicPartitions, ElectionType, KafkaException
from confluent_kafka.admin import AdminClient

from canary.lab import NodeProperties
from canary.lab.state import CONTROLLER
from tests.support.labs import Watched
from tests.support.process import START_S, Canary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from canary.lab import Lab

log = structlog.get_logger(__name__)

pytestmark = [pytest.mark.kafka, pytest.mark.quick]

MODES: dict[str, dict[str, object]] = {
    "idempotent": {},
    "transactional": {"timeout": "5s", "abandon_every": "30s"},
    "relay": {"timeout": "5s"},
    "group": {"rebalance_every": "7s"},
    "fencing": {"interval": "10s", "timeout": "5s"},
}
REBALANCED = MODES | {"relay": {"timeout": "5s", "rebalance_every": "20s"}}
WRITING = ("idempotent", "transactional", "relay", "fencing")
EACH_S = 15.0
"""A fault begins each so many seconds; in the short form, as soon as what is written goes on after the one before."""
FIRST = 6
"""How many faults the short form has: each kind at each kind of place."""


def kill(lab: Lab, node: int) -> None:
    lab.kill(node)
    time.sleep(5)  # the outage itself
    lab.restart(node, timeout=START_S)


def freeze(lab: Lab, node: int) -> None:
    lab.pause(node)
    time.sleep(10)
    lab.resume(node)


def restart(lab: Lab, node: int) -> None:
    lab.restart(node, timeout=START_S)


def move(lab: Lab, _node: int) -> None:
    """Give every partition back to its preferred leader: the faults before have moved them elsewhere."""
    admin = AdminClient({"bootstrap.servers": lab.bootstrap, "log_level": 0})
    try:
        admin.elect_leaders(ElectionType.PREFERRED).result(20)
    except (
        KafkaException,
        TimeoutError,
    ) as error:  # asked of a controller that has just come back: the next fault comes anyway
        log.info("leaders_not_moved", error=str(error))


def coordinator_of_transactions(lab: Lab) -> int:
    return lab.leader("__transaction_state", 0) or lab.brokers[0]


def coordinator_of_groups(lab: Lab) -> int:
    return lab.leader("__consumer_offsets", 0) or lab.brokers[0]


def controller(_lab: Lab) -> int:
    return CONTROLLER


Fault = tuple["Callable[[Lab, int], None]", "Callable[[Lab], int]"]


def faults(seed: int) -> Iterator[Fault]:
    """Yield every kind of fault at every kind of place once, then any of them."""
    yield from (
        (kill, coordinator_of_transactions),
        (move, controller),
        (freeze, coordinator_of_groups),
        (kill, controller),
        (restart, lambda lab: lab.leader("modes", 0) or lab.brokers[0]),
        (freeze, controller),
    )
    dice = random.Random(seed)  # noqa: S311  # moments, no secrets
    hows = (kill, freeze, restart, move)
    wheres: tuple[Callable[[Lab], int], ...] = (
        coordinator_of_transactions,
        coordinator_of_groups,
        controller,
        lambda lab: dice.choice(lab.brokers),
        lambda lab: dice.choice(lab.brokers),
    )
    while True:
        yield dice.choice(hows), dice.choice(wheres)


def live_through_faults(
    lab: Lab, directory: Path, count: int, seed: int, modes: dict[str, dict[str, object]], *, each_s: float
) -> None:
    settings = {"clusters": [{
        "name": "t",
        "kafka": {"bootstrap.servers": lab.bootstrap},
        "topic": {"name": "modes"},
        "modes": modes,
    }]}  # fmt: skip
    with Canary(directory, lab.bootstrap, "modes", settings=settings) as canary:
        canary.until_probing()
        canary.until(lambda: acked(canary, "fencing") > 0, START_S, "every mode writes")
        for how, where in itertools.islice(faults(seed), count):
            began = time.monotonic()
            how(lab, where(lab))
            go_on(canary, ("idempotent", "transactional", "relay"))
            time.sleep(max(each_s - (time.monotonic() - began), 0))
        lab.mend()
        stood = committed(lab)
        go_on(canary, WRITING)
        canary.until(lambda: committed(lab) > stood, 60, "the group goes on")
        canary.until_all_seen(120)
        canary.until_no_doubt()
        assert [said for said in canary.broken_promises() if not said.startswith("info ")] == []
        assert canary.stop(40) == [0, 0]
    assert "Traceback" not in canary.output(), canary.output().partition("Traceback")[2][:3000]
    resolved(directory)


def go_on(canary: Canary, modes: tuple[str, ...]) -> None:
    """Wait until more is acknowledged of each mode."""
    before = {mode: acked(canary, mode) for mode in modes}
    for mode, stood in before.items():
        canary.until(lambda mode=mode, stood=stood: acked(canary, mode) > stood, 120, f"{mode} goes on")  # type: ignore[misc]


def acked(canary: Canary, mode: str) -> float:
    return canary.metric("canary_probes_acked_total", mode=mode)


def committed(lab: Lab) -> int:
    """Return the sum of the offsets that the group has committed."""
    admin = AdminClient({"bootstrap.servers": lab.bootstrap, "log_level": 0})
    try:
        valid = admin.list_consumer_groups(request_timeout=10).result(11).valid
        group = next((one.group_id for one in valid if one.group_id.startswith("durability-canary-group-")), None)
        if group is None:  # its coordinator does not answer yet
            return 0
        asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)], request_timeout=10)[group]
        return sum(max(place.offset, 0) for place in asked.result(11).topic_partitions)
    except KafkaException as error:
        log.info("group_offsets_not_told", error=str(error))
        return 0


def resolved(directory: Path) -> None:
    """Every probe and every transaction has an outcome in the probe log, and what was promised was seen committed."""

    def table(name: str) -> list[dict[str, Any]]:
        return list(ds.dataset(directory / "probe-log" / name).to_table().to_pylist())

    outcomes: dict[tuple[int, ...], set[str]] = {}
    for row in table("transactions"):
        key = (row["producer_id"], row["generation"], row["transaction_id"])
        outcomes.setdefault(key, set()).add(row["outcome"])
    assert set().union(*outcomes.values()) <= {"committed", "aborted", "indeterminate"}
    assert sum("committed" in one for one in outcomes.values()) > 20
    read = {identity(row) for row in table("polls") if row["isolation"] == "read_committed"}
    rows = table("probes")
    assert {row["mode"] for row in rows} >= set(WRITING)
    assert {row["outcome"] for row in rows} <= {"acked", "failed", "indeterminate"}
    last_s = max(row["sent_at"] for row in rows).timestamp()
    promised = {
        identity(row)
        for row in rows
        if row["outcome"] == "acked"
        and row["sent_at"].timestamp() < last_s - 10  # a stop does not wait for the last of them
        and (
            row["transaction_id"] is None
            or "committed" in outcomes.get((row["producer_id"], row["generation"], row["transaction_id"]), ())
        )
    }
    known = {identity(row) for row in rows if row["outcome"] != "indeterminate"}
    transactions = Counter(min(one, key=("committed", "aborted", "indeterminate").index) for one in outcomes.values())
    everything = {identity(row) for row in rows}
    log.info(
        "resolved",
        probes=len(everything),
        promised=len(promised),
        indeterminate=len(everything - known),
        transactions=dict(transactions),
    )
    assert len(promised) > 300
    assert promised - read == set()


def identity(row: dict[str, Any]) -> tuple[int, ...]:
    return row["producer_id"], row["generation"], row["partition"], row["sequence"]


@pytest.mark.timeout(2400)
def test_all_modes_under_faults(lab: Lab, tmp_path: Path, *, long: bool) -> None:
    live_through_faults(
        lab, tmp_path, 40 if long else FIRST, 3, REBALANCED if long else MODES, each_s=EACH_S if long else 0.0
    )
    transactions = ds.dataset(tmp_path / "probe-log" / "transactions").to_table().to_pylist()
    met = any("rebalance" in (row["error"] or "") for row in transactions)
    assert met or not long, "no rebalance met a transaction of the relay"


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_all_modes_under_faults_on_kafka_3_9(tmp_path: Path, *, long: bool) -> None:
    safe = {"min.insync.replicas": 2}
    with Watched(
        tmp_path / "lab", version="3.9.1", profile="quick", properties=NodeProperties(safe), die_with_parent=True
    ) as lab:
        live_through_faults(lab, tmp_path / "canary", 40 if long else 3, 11, REBALANCED, each_s=EACH_S if long else 0.0)
