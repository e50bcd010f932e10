"""Who rings when a part of a cluster is slow or away: real brokers, a real Prometheus, and a table of what rang.

Four brokers, of which 3 and 4 stand in one rack. Each scenario begins with no alert firing, lasts until everything that
must ring has rung and a while longer, is healed, and ends when nothing rings any more.
"""

from __future__ import annotations

import re
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import httpx
import yaml
from confluent_kafka import ElectionType

from canary.drills.rig.rig import NotInTimeError, Rig, StoppedError
from canary.drills.stage import PROBES, TRANSACTIONS, Stage, Topic
from canary.drills.steps.brokers import Roll, Start, Stop
from canary.drills.steps.canary import until_probing
from canary.drills.steps.network import Faults, Heal
from canary.drills.steps.operating import Configure
from canary.drills.steps.step import Step
from canary.lab import Cut, Delay, LabError, NodeProperties
from canary.lab.jars.pinned_jars import DEFAULT_VERSION
from canary.lab.state import free_ports
from canary.threads.worker import in_background
from canary.workloads.transactional import TransactionalSettings
from dashboards.__main__ import GENERATED, ROOT
from tests.support.labs import Watched
from tests.support.prometheus import program, prometheus, running, until_ready

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from threading import Event


_BROKERS: Final = (1, 2, 3, 4)
_RACKS: Final = {1: "a", 2: "b", 3: "c", 4: "c"}
_PROPERTIES: Final = NodeProperties(
    {"min.insync.replicas": 2, "transaction.state.log.num.partitions": 12},  # so that each broker coordinates some
    single={broker: {"broker.rack": rack} for broker, rack in _RACKS.items()},
)
_REPLICAS: Final = ((1, 2, 3), (1, 3, 4), (2, 3, 4), (2, 4, 1), (3, 4, 1), (3, 1, 2), (4, 1, 2), (4, 2, 3))
_OF_TRANSACTIONS: Final = ((1, 3, 4), (3, 4, 1), (4, 1, 3), (1, 2, 3))
"""Where all three must be in sync, the last partition takes no writes without broker 2, and the others do."""
_LATE_S: Final = 1.5
_FETCHED_LATE_S: Final = _LATE_S / 2
"""An acknowledgement waits for two fetches of the follower, and those behind it on their connection for it, too."""
_MOST_S: Final = 420.0
"""How long after a fault, and after it is healed, alerts are waited for; divided by how much they are shortened."""
_AFTER_S: Final = 90.0
"""So much longer it is seen what else rings; shortened, too."""
_SHIPPED_S: Final = 200.0
"""How long it is listened after what must ring nothing: longer than the rules' holds."""
_SHIPPED, _SHORTENED = "shipped", "shortened"
_ELECTED_S: Final = 60.0
_LOOK_S: Final = 0.5
_NAMED: Final = ("topic", "partition", "broker", "rack", "of")
_DURATION: Final = re.compile(r"(\d+)(m|s|h)\b")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600}
_SILENT_S: Final = "> 60"
"""From when on a partition, a broker or a rack takes no writes (dashboards.rules.writes)."""
_PAGE: Final = "docs/partial-outage.md"


@dataclass(frozen=True, slots=True)
class Steps(Step):
    """Some steps, one after the other."""

    steps: tuple[Step, ...]

    def take(self, rig: Rig) -> None:
        """Take each."""
        for step in self.steps:
            step.take(rig)

    def __str__(self) -> str:
        """Say each."""
        return "; ".join(map(str, self.steps))


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is done, and what must ring: names with the labels that they must have. No other page may.

    What nothing heals must ring nothing, by the rules as they are shipped: it is about their windows and holds.
    """

    title: str
    harm: Step
    heal: Step | None = None
    rings: tuple[str, ...] = ()


def _delayed(*faults: Delay | Cut) -> Faults:
    return Faults(faults)


_SCENARIOS: Final = (
    Scenario(
        "broker 2 is slow to its clients",
        _delayed(Delay("client", 2, _LATE_S)),
        Heal(),
        ("CanaryLeaderSlow broker=2 rack=b",),
    ),
    Scenario(
        "broker 3 is slow to commit",
        _delayed(*(Delay("client", 3, _LATE_S, api=api) for api in ("EndTxn", "OffsetCommit"))),
        Heal(),
        ("CanaryCoordinatorSlow broker=3 rack=c",),
    ),
    Scenario(
        "broker 4 follows slowly",
        _delayed(*(Delay(4, leader, _FETCHED_LATE_S, api="Fetch") for leader in (1, 2, 3))),
        Heal(),
        ("CanaryClusterSlow",),
    ),
    Scenario(
        "all brokers are slow to take writes",
        _delayed(Delay("client", "any", _LATE_S, api="Produce")),
        Heal(),
        ("CanaryClusterSlow",),
    ),
    Scenario(
        "one partition has too few replicas in sync",
        Steps((Configure({"min.insync.replicas": "3"}, TRANSACTIONS), Stop((2,)))),
        Steps((Start((2,)), Configure({"min.insync.replicas": "2"}, TRANSACTIONS))),
        (f"CanaryPartitionUnwritable topic={TRANSACTIONS} partition=3 broker=1 rack=a",),
    ),
    Scenario(
        "clients do not reach broker 2",
        _delayed(Cut("client", 2)),
        Heal(),
        ("CanaryLeaderUnwritable broker=2 rack=b", "CanaryBrokerUnreachable broker=2 rack=b"),
    ),
    Scenario(
        "clients do not reach rack c",
        _delayed(Cut("client", 3), Cut("client", 4)),
        Heal(),
        (
            "CanaryRackUnwritable rack=c",
            "CanaryLeaderUnwritable broker=3 rack=c",
            "CanaryLeaderUnwritable broker=4 rack=c",
        ),
    ),
    Scenario("rolling restart of all brokers", Roll(_BROKERS, partitions=tuple(range(len(_REPLICAS))))),
)


@dataclass(slots=True)
class Rung:
    """An alert while it was seen to ring: when it began and ended (s since the epoch), and whether it was held back."""

    severity: str
    began: float
    ended: float = 0.0
    held_back: bool = False


class Ear:
    """Listens to Prometheus, and asks Alertmanager what it holds back."""

    def __init__(self, prometheus: str, alertmanager: str) -> None:
        self.rung: dict[str, Rung] = {}
        self.pace = _SHORTENED
        self._prometheus, self._alertmanager = prometheus, alertmanager

    def listen(self) -> set[str]:
        """Return what rings now by the rules of ``pace``, and remember it."""
        answer = httpx.get(f"{self._prometheus}/api/v1/alerts", timeout=30).json()["data"]["alerts"]
        now = time.time()
        ringing = {
            _name(one["labels"]): one["labels"]
            for one in answer
            if one["state"] == "firing" and one["labels"]["pace"] == self.pace and one["labels"]["severity"] != "none"
        }
        for name, labels in ringing.items():
            self.rung.setdefault(name, Rung(labels["severity"], now)).ended = 0.0
        for name, rung in self.rung.items():
            if name not in ringing and not rung.ended:
                rung.ended = now
        for one in httpx.get(f"{self._alertmanager}/api/v2/alerts", timeout=30).json():
            if one["status"]["inhibitedBy"] and (name := _name(one["labels"])) in self.rung:
                self.rung[name].held_back = True
        return set(ringing)


def _name(labels: Mapping[str, str]) -> str:
    return " ".join([labels["alertname"], *(f"{one}={labels[one]}" for one in _NAMED if labels.get(one))])


def rang(
    directory: Path, stopping: Event, tell: Callable[[str], None], *, shorten: int, only: str, write: bool
) -> list[str]:
    """Do every scenario; return what is wrong. ``write``: the table, as a page of the documentation.

    ``only`` is a pattern in the titles of those that are played.
    """
    wrong: list[str] = []
    rows: list[str] = []
    with (
        Watched(directory / "lab", len(_BROKERS), properties=_PROPERTIES, proxied=True, die_with_parent=True) as lab,
        ExitStack() as stack,
    ):
        rig = Rig(
            kafka={"bootstrap.servers": lab.bootstrap},
            stopping=stopping,
            tell=tell,
            lab=lab,
            stage=_stage(shorten),
            directory=directory,
        )
        stack.callback(rig.canary.kill)
        rig.canary.start()
        try:
            until_probing(rig)
            ear = stack.enter_context(_monitored(directory, rig.canary.port, shorten))
            for scenario in (one for one in _SCENARIOS if re.search(only, one.title)):
                wrong += _played(rig, ear, scenario, shorten, rows)
            if any(found := rig.canary.stop()):
                wrong.append(f"the canary ended with {found}")
        except (LabError, StoppedError) as error:
            wrong.append(f"{type(error).__name__}: {error}; {rig.canary.ended() or 'the canary runs'}")
    page = _page(rows, shorten)
    tell(page)
    if write:
        (ROOT / _PAGE).write_text(page, encoding="utf-8")
    return wrong


def _stage(shorten: int) -> Stage:
    return Stage(
        topics={PROBES: Topic(_REPLICAS), TRANSACTIONS: Topic(_OF_TRANSACTIONS)},
        modes={
            "idempotent": {"interval": "100ms"},
            "transactional": {
                "interval": "200ms",
                "abandon_every": "1h",
                "timeout": f"{TransactionalSettings().timeout / shorten:g}s",
            },
            "group": {"rebalance_every": "1h"},
        },
    )


@contextmanager
def _monitored(directory: Path, canary_port: int, shorten: int) -> Iterator[Ear]:
    """Run Prometheus with the rules, and Alertmanager with the file of the repository."""
    (port,) = free_ports(1)
    config = yaml.safe_load((ROOT / "deploy/prometheus.yml").read_text(encoding="utf-8"))
    config["global"] = dict.fromkeys(("scrape_interval", "evaluation_interval"), f"{15 // shorten}s")
    config["scrape_configs"][0].pop("scrape_timeout")  # no longer than an interval
    config["rule_files"] = [str(directory / f"{pace}.yml") for pace in (_SHIPPED, _SHORTENED)]
    config["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"] = [f"127.0.0.1:{port}"]
    for pace, times in ((_SHIPPED, 1), (_SHORTENED, shorten)):
        (directory / f"{pace}.yml").write_text(yaml.safe_dump(shortened(times, pace)), encoding="utf-8")
    with (
        running(
            program("ALERTMANAGER", "prometheus-alertmanager"),
            f"--config.file={ROOT / 'deploy/alertmanager.yml'}",
            f"--storage.path={directory}/alertmanager",
            f"--web.listen-address=127.0.0.1:{port}",
            "--cluster.listen-address=",
            log=directory / "alertmanager.log",
        ),
        prometheus(directory, config, canary_port) as address,
    ):
        until_ready(f"http://127.0.0.1:{port}", directory)
        yield Ear(address, f"http://127.0.0.1:{port}")


def shortened(times: int, pace: str) -> dict[str, Any]:
    """Return the rules about the canary and the cluster's availability; windows, holds and waits so many times shorter.

    Those of violations stay out: they tell of what is lost, and are as fast as they can be.
    """
    content: dict[str, Any] = yaml.safe_load((ROOT / GENERATED / "rules.yml").read_text(encoding="utf-8"))
    content["groups"] = [
        group | {"name": pace} for group in content["groups"] if group["name"] == "kafka-durability-canary-blind"
    ]
    for rule in content["groups"][0]["rules"]:
        rule["labels"]["pace"] = pace
        for hold in rule.keys() & {"for", "keep_firing_for"}:
            rule[hold] = _divided(rule[hold], times)
        rule["expr"] = re.sub(r"\[(\w+)\]", lambda found: f"[{_divided(found[1], times)}]", rule["expr"])
        rule["expr"] = rule["expr"].replace(_SILENT_S, f"> {60 / times:g}")
    return content


def _divided(duration: str, times: int) -> str:
    return f"{sum(int(n) * _SECONDS[unit] for n, unit in _DURATION.findall(duration)) // times}s"


def _played(rig: Rig, ear: Ear, scenario: Scenario, shorten: int, rows: list[str]) -> list[str]:
    """Play one; return what is wrong, and add what rang to the table."""
    most_s, after_s = _MOST_S / shorten, _AFTER_S / shorten
    ear.pace = _SHORTENED if scenario.heal else _SHIPPED
    wrong: list[str] = []
    rig.admin.elect_leaders(ElectionType.PREFERRED).result(_ELECTED_S)
    try:
        rig.until(lambda: not ear.listen(), most_s, "nothing rings before")
    except NotInTimeError as error:
        wrong.append(f"{scenario.title}: {error}: {sorted(ear.listen())}")
    ear.rung.clear()
    began = rig.note(f"{scenario.title}: {scenario.harm}", done=True)
    taking = in_background(partial(scenario.harm.take, rig), "harm")
    while taking.is_alive():
        _hear(rig, ear, _LOOK_S)
    try:
        rig.until(lambda: set(scenario.rings) <= _named(ear.listen()), most_s, "everything rings that must")
    except NotInTimeError as error:
        wrong.append(f"{scenario.title}: {error}: {sorted(ear.listen())}")
    _hear(rig, ear, after_s if scenario.heal else _SHIPPED_S)
    healed = rig.note("healed", done=True)
    if scenario.heal is not None:
        scenario.heal.take(rig)
        rig.until(lambda: not ear.listen(), most_s, "nothing rings any more")
    for name, one in sorted(ear.rung.items(), key=lambda rung: rung[1].began):
        rig.note(f"{name}: {one}")
        pages = "page" if one.severity == "critical" else "ticket"
        kept = f"{pages}, held back" if one.held_back else pages
        ended = f"{one.ended - healed:.0f} s" if one.ended >= healed else "before"
        rows.append(f"| {scenario.title} | {name} | {kept} | {one.began - began:.0f} s | {ended} |")
        if one.severity == "critical" and not one.held_back and not _named({name}) & set(scenario.rings):
            wrong.append(f"{scenario.title}: {name} paged")
        if not scenario.rings:
            wrong.append(f"{scenario.title}: {name} rang")
    if not ear.rung:
        rows.append(f"| {scenario.title} | nothing | | | |")
    return wrong


def _named(ringing: set[str]) -> set[str]:
    """Return names without what a group's or a transaction's commits are told apart by."""
    return {name.partition(" of=")[0] for name in ringing}


def _hear(rig: Rig, ear: Ear, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        ear.listen()
        if rig.stopping.wait(_LOOK_S):
            raise StoppedError


def _page(rows: Sequence[str], shorten: int) -> str:
    pace = (
        "with the rules, windows and holds as they are shipped"
        if shorten == 1
        else f"with windows, holds and scrapes {shorten} times shorter than they are shipped, so that times are, too"
    )
    command = f"python -m tests.soak partial{'' if shorten == 1 else f' --shorten {shorten}'} --write"
    head = (
        "# What rings in a partial outage",
        "",
        "What rang, how long after the fault, and how long after it was healed it ended. It was measured on",
        f"{time.strftime('%Y-%m-%d')} by `{command}` on this project's lab,",
        f"{pace}. Four brokers of Kafka {DEFAULT_VERSION}, of",
        f"which 3 and 4 are in rack c; {len(_REPLICAS)} partitions of ten writes a second; transactions, a group.",
        f"What is slow is {_LATE_S:g} s late, a follower's fetches {_FETCHED_LATE_S:g} s: that is not shortened.",
        "Alerts that come and go ring on for a while after their cause has ended (`keep_firing_for`).",
        '"Held back": Alertmanager notifies of the alert within which it is (`deploy/alertmanager.yml`).',
        "A rolling restart must ring nothing, by the rules as they are shipped.",
        "",
        "| what happened | what rang | | after the fault | ended after the end |",
        "|---|---|---|---|---|",
    )
    return "\n".join([*head, *rows, ""])
