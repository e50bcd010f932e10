"""The commands of the runbooks, given to real brokers as a person would: in a shell, with the blanks filled in."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from api.pages.placeholders import PLACEHOLDERS, filled, fitting
from canary.lab import Lab
from dashboards.__main__ import ROOT
from dashboards.runbooks import RUNBOOKS, commands
from tests.support.kafka_tools import install
from tests.support.stalls import python_path
from tests.support.waiting import in_time, until

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from dashboards.runbooks.runbook import Command

pytestmark = [pytest.mark.kafka, pytest.mark.quick]

TRIED: Final = list(dict.fromkeys(one for book in RUNBOOKS for one in book.commands() if one.runnable))
COMMAND_S: Final = 120.0
"""A stall of the machine included."""
PATIENCE_S: Final = 60.0


def first_of_each_program(tried: Iterable[Command]) -> list[Command]:
    """Return one command for each of Kafka's and the shell's programs, in the order of the runbooks."""
    first: dict[str, Command] = {}
    for command in tried:
        if command.where != "canary":  # the broker that serves what was kept takes a while
            first.setdefault(command.text.split()[0], command)
    return list(first.values())


@pytest.fixture
def torn(lab: Lab) -> dict[str, str]:
    """Brokers one of which is dead, with one topic that only it had, and two transactions that are open; the blanks."""
    client: dict[str, Any] = {"bootstrap.servers": lab.bootstrap, "log_level": 0}
    replicas = {"orders": [1, 2, 3], "alone": [3], "pair": [1, 3], "thin": [1, 2]}
    topics = [NewTopic(name, 1, replica_assignment=[ids]) for name, ids in replicas.items()]
    admin = AdminClient(client)
    for made in admin.create_topics(topics).values():
        made.result(PATIENCE_S)
    plain = Producer(client | {"enable.idempotence": True})
    for number in range(50):
        plain.produce("orders", f"value {number}", key=f"key {number % 7}")
    in_time(plain.flush(PATIENCE_S) == 0, "all acknowledgements")
    for transactional_id, topic in (("payments", "orders"), ("refunds", "thin")):
        hanging = Producer(client | {"transactional.id": transactional_id, "transaction.timeout.ms": 900_000})
        hanging.init_transactions(PATIENCE_S)
        hanging.begin_transaction()
        hanging.produce(topic, "of a transaction that does not end")
        in_time(hanging.flush(PATIENCE_S) == 0, "all acknowledgements")
    group = Consumer(client | {"group.id": "billing", "enable.auto.commit": False})
    group.commit(offsets=[TopicPartition("orders", 0, 40)], asynchronous=False)
    group.close()
    lab.kill(3)
    until(lambda: lab.partition("orders", 0).isr == {1, 2}, PATIENCE_S, "broker 3 leaves the ISR")
    until(lambda: lab.partition("alone", 0).leader is None, PATIENCE_S, "a partition is offline")
    names = {"topic": "orders", "group": "billing", "transactional_id": "refunds", "cluster": "lab"}
    numbers = {"partition": "0", "offset": "50", "broker": "1"}
    return names | numbers | {"log_dir": str(lab.directory / "broker-3" / "data")}


@pytest.fixture
def environment(lab: Lab, tmp_path: Path, *, long: bool) -> Iterator[dict[str, str]]:
    """What a person has in the shell; what was set for all brokers is taken back."""
    own = {
        "PATH": f"{install(tmp_path / 'bin')}:{os.environ['PATH']}",
        "PYTHONPATH": python_path(ROOT),
        "BOOTSTRAP": ",".join(f"127.0.0.1:{lab.port(broker)}" for broker in (1, 2)),
    }
    yield os.environ | own
    if not long:
        return
    taken_back = commands.UNCLEAN_OFF.text.replace("--add-config", "--delete-config").replace("=false", "")
    subprocess.run(["bash", "-c", taken_back], env=os.environ | own, check=False, timeout=COMMAND_S)
    Lab.attach(tmp_path / "keep" / "lab").stop(hard=True)


def test_the_commands_do_what_the_runbooks_say(
    torn: dict[str, str],
    environment: dict[str, str],
    tmp_path: Path,
    *,
    long: bool,
) -> None:
    """The short form has one command of each program."""
    keep = tmp_path / "keep"
    keep.mkdir()
    values = fitting(torn | {"keep": str(keep)})
    assert set(PLACEHOLDERS) - set(values) == {"violation", "incident"}
    chosen = TRIED if long else first_of_each_program(TRIED)
    assert len(chosen) > 15
    failed = [said for command in chosen if (said := _tried(command, values, environment, tmp_path))]
    assert not failed, "\n\n".join(failed)


def _tried(command: Command, values: dict[str, str], environment: dict[str, str], folder: Path) -> str:
    """Return what is wrong with the outcome of a command, "" if nothing is."""
    text = filled(command.text, values)
    ran = subprocess.run(
        ["bash", "-o", "pipefail", "-c", text],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_S,
    )
    if ran.returncode == 0 and filled(command.shows, values) in ran.stdout:
        return ""
    return f"{text}\nended with {ran.returncode}, without {command.shows!r}:\n{ran.stdout[-1500:]}{ran.stderr[-1500:]}"
