"""What CONTRIBUTING promises: adding one touches so many files. Each test adds it to a copy of the tree, and counts."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.prefork import Prefork

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.dear("all programs are forked from one process, which is counted with the last of them")

ROOT = Path(__file__).parent.parent.parent
PARTS = ("canary", "api", "storage", "spark_reconcile", "canary_receipts", "dashboards", "deploy", "docs")


@dataclass(slots=True)
class Tree:
    """A copy of the product, and which of its files were edited by hand, or made by the code."""

    root: Path
    prefork: Prefork
    edited: set[str] = field(default_factory=set)
    made: set[str] = field(default_factory=set)

    def insert(self, path: str, before: str, text: str) -> None:
        """Put text in front of the only place where ``before`` stands in a file."""
        file = self.root / path
        content = file.read_text(encoding="utf-8")
        assert content.count(before) == 1, f"{path}: {before!r} stands there {content.count(before)} times"
        file.write_text(content.replace(before, text + before), encoding="utf-8")
        self.edited.add(path)

    def create(self, path: str, text: str) -> None:
        """Add a file."""
        assert not (self.root / path).exists()
        (self.root / path).write_text(text, encoding="utf-8")
        self.edited.add(path)

    def python(self, *arguments: str) -> str:
        """Return what Python prints in the copy."""
        status, printed = self.prefork.run(*arguments, folder=self.root)
        self.made |= {line for line in printed.splitlines() if (self.root / line).is_file()}
        assert status == 0, printed
        return printed

    def generate(self) -> set[str]:
        """Let the code make its files; return those that it changed."""
        return set(self.python("-m", "dashboards").split())

    def restore(self) -> None:
        """Undo what was edited and made."""
        for path in self.edited | self.made:
            if (ROOT / path).exists():
                shutil.copy2(ROOT / path, self.root / path)
            else:
                (self.root / path).unlink()
            edited = self.root / path  # what is compiled is told from its source by second and size only
            for compiled in edited.parent.glob(f"__pycache__/{edited.stem}.*"):
                compiled.unlink()

    def read(self, path: str) -> str:
        """Return what a file of the copy holds."""
        return (self.root / path).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def prefork() -> Iterator[Prefork]:
    with Prefork() as started:
        yield started


@pytest.fixture(scope="module")
def copied(prefork: Prefork, tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """Copy the tree, once: each test leaves it as it was. What is compiled comes along, as far as there is any."""
    root = tmp_path_factory.mktemp("tree")
    for part in PARTS:
        shutil.copytree(ROOT / part, root / part, ignore=shutil.ignore_patterns("screenshots"))
    return Tree(root, prefork)


@pytest.fixture
def tree(copied: Tree) -> Iterator[Tree]:
    tree = Tree(copied.root, copied.prefork)
    yield tree
    tree.restore()


def test_a_copy_makes_the_files_that_are_checked_in(tree: Tree) -> None:
    assert tree.generate() == set()
    assert not tree.edited


ANOMALY = """    Anomaly(
        name="dummy",
        title="A dummy",
        severities=("critical",),
        scopes=("online",),
        meaning="Nothing happened.",
        implies="Nothing.",
        do_first="Nothing.",
        source="a test",
        picture=(("the log", "a b !c"),),
    ),
"""


def test_an_anomaly_is_an_entry_and_its_row_in_the_design(tree: Tree) -> None:
    tree.insert("canary/anomalies/cluster_anomalies.py", '    Anomaly(\n        name="stalled",', ANOMALY)
    tree.insert("docs/design/anomalies.md", "| `stalled` |", "| `dummy` | never | critical | |\n")
    made = tree.generate()
    assert len(tree.edited) == 2
    assert {
        "docs/pictures/dummy.svg",
        "docs/runbooks/CanaryDummy.md",
        "docs/concepts.md",
        "docs/runbooks/index.md",
    } < made
    assert "alert: CanaryDummy" in tree.read("deploy/helm/kafka-durability-canary/files/rules.yml")
    assert '"CanaryDummy"' in tree.read("api/pages/runbooks.json")
    assert not made & tree.edited


NIGHTLY = """DUMMY: Final = NightlyAnomaly(
    "dummy", "identity", "a dummy", "dummies", cases=lambda judged: judged.blind
)
"""
NIGHT = """
import sys
from dataclasses import replace
import numpy as np
from spark_reconcile.match.rules import Judgement, Verdict
from spark_reconcile.match.verdict_counts import VerdictCounts
from spark_reconcile.report.findings import violations
from spark_reconcile.report.output import Writer
from spark_reconcile.tables.bounds import Dumped, Place
from spark_reconcile.tables.columns import Probes

probes = replace(Probes.zeros(3), sequence=np.arange(3), offset=np.arange(3), modes=("plain",))
survived = np.full(3, Verdict.SURVIVED, dtype=np.uint8)
judged = replace(Judgement.zeros(3), verdict=survived, blind=np.array([False, True, True]))
counts = VerdictCounts()
counts.add(probes, judged)
Writer(f"{sys.argv[1]}/anomalies", Dumped()).judged(Place("c", "t", 0), probes, judged)
found = [(one.kind, one.summary, one.offset, one.count) for _, one in violations(sys.argv[1], 1)]
print(counts.anomalies["dummy"], *found)
"""


def test_an_anomaly_of_the_night_is_an_entry_more(tree: Tree, tmp_path: Path) -> None:
    tree.insert("canary/anomalies/cluster_anomalies.py", '    Anomaly(\n        name="stalled",', ANOMALY)
    tree.insert("spark_reconcile/match/anomalies.py", "WRITE_CYCLE: Final", NIGHTLY)
    tree.insert("spark_reconcile/match/anomalies.py", "        WRITE_CYCLE,", "        DUMMY,\n")
    (tmp_path / "out" / "anomalies").mkdir(parents=True)
    printed = tree.python("-c", NIGHT, str(tmp_path / "out"))
    assert printed.strip() == "2 ('dummy', 'dummies', 1, 2)"
    assert len(tree.edited) == 2


ALERT = """    Rule(
        name="CanaryDummy",
        expression="vector(1)",
        hold="1m",
        severity="warning",
        summary="A dummy",
        meaning="Nothing happened.",
        advice=("Do nothing.",),
    ),
"""


def test_an_alert_is_an_entry(tree: Tree) -> None:
    tree.insert("dashboards/rules/coverage.py", '    Rule(\n        name="CanaryAuditCritical",', ALERT)
    made = tree.generate()
    assert len(tree.edited) == 1
    assert made == {
        "deploy/helm/kafka-durability-canary/files/rules.yml",
        "api/pages/runbooks.json",
        "docs/conditions.md",
        "docs/runbooks/index.md",
        "docs/runbooks/CanaryDummy.md",
    }


def test_a_setting_is_a_field(tree: Tree) -> None:
    field = '    dummy: int = Field(7, ge=0, description="A dummy (count).")\n'
    tree.insert("canary/settings/model.py", "    scrub_rate: Bytes = Field(", field)
    assert tree.generate() == {"docs/configuration.md"}
    assert len(tree.edited) == 1
    assert "`CANARY_RUNNER__DUMMY`" in tree.read("docs/configuration.md")
    assert tree.python("-m", "canary.cli", "config", "show").count("dummy: 7") == 1


DUMMY_METRIC = """
from canary.anomalies.online.state import State
from canary.metrics import measured
from canary.metrics.published import dumps
from api.knowledge.views import read_views
from api.metrics.cardinality import by_topic
from api.metrics.text_format import exposition
from storage.store.values import View

stored = dumps(measured(State()))
runners = [View("prod", name, 1, stored) for name in ("canary-0", "canary-1")]
series = read_views(runners, 1)["prod"].series
print(exposition({"prod": series}, openmetrics=False))
print(exposition({"prod": by_topic(series)}, openmetrics=False))
"""


@pytest.mark.parametrize(("runners", "shown"), [("sum", 6), ("max", 3)])
def test_a_metric_is_its_entry_and_the_line_that_measures_it(tree: Tree, runners: str, shown: int) -> None:
    """From there it is published, stored, folded over runners and partitions, and rendered."""
    labels = '("cluster", "topic", "partition")'
    tree.insert(
        "canary/metrics/catalogue.py",
        '        _gauge("canary_log_end_offset"',
        f'        _gauge("canary_dummies", "Dummies.", {labels}, runners="{runners}", partitions="sum"),\n',
    )
    tree.insert(
        "canary/metrics/measuring.py",
        "    top = state.topology\n",
        '    yield from (Measurement("canary_dummies", ("t", partition), 3) for partition in ("0", "1"))\n',
    )
    lines = tree.python("-c", DUMMY_METRIC).splitlines()
    assert f'canary_dummies{{cluster="prod",partition="0",topic="t"}} {shown}.0' in lines
    assert f'canary_dummies{{cluster="prod",partition="*",topic="t"}} {2 * shown}.0' in lines
    assert "# HELP canary_dummies Dummies." in lines
    assert len(tree.edited) == 2


def test_a_workload_is_a_descriptor_and_a_worker(tree: Tree) -> None:
    tree.create(
        "canary/workloads/dummy.py",
        """
from dataclasses import dataclass

from canary.workloads.descriptor import Settings, Workload, count

@dataclass(frozen=True, slots=True, kw_only=True)
class DummySettings(Settings):
    pairs: int = count(2, "Pairs (count).", ge=1)

WORKLOAD = Workload(
    name="dummy", number=9, transactional=True, settings=DummySettings,
    summary="Writes in pairs.", does="writes in pairs", finds="halves of pairs", costs="a producer",
)
""",
    )
    tree.create(
        "canary/probing/dummy.py",
        """
from canary.probing.idempotent import IdempotentProducer

def make(wiring):
    return IdempotentProducer({"pairs": wiring.settings.pairs}, wiring)
""",
    )
    said = tree.python(
        "-c",
        """
from types import SimpleNamespace as Made
from canary.anomalies.online.scope import TRANSACTIONAL
from canary.probe.identity import Identity
from canary.probe.record import decode, encode
from canary.probing.base import Renewal
from canary.runner.cluster import wiring
from canary.settings import Settings

(cluster,) = Settings.model_validate(
    {"clusters": [{"name": "c", "topic": {"name": "probes"}, "modes": {"dummy": {"pairs": 3, "interval": "2s"}}}]}
).clusters
print(cluster.topic_of("dummy"), cluster.modes.enabled()["dummy"].pairs)
value = encode(Identity(1, 1, 0, 0), tag=b"tag1", mode="dummy", transaction_id=None, sent_at_ns=1)
print(value[11], decode(value, b"tag1").mode, "dummy" in TRANSACTIONAL)
identities = Made(mode="dummy", topic="probes-dummy", first=1, producer_id=1, renew=None)
context = Made(cluster=cluster, inbox=None, clock=None, meters=None)
writer = wiring.make(context, identities, Renewal(1, b"tag1", (0,)), None)
print(writer.name, writer._config["pairs"], writer._interval_s)
""",
    )
    assert said.splitlines() == ["probes-dummy 3", "9 dummy True", "producer-dummy 3 2.0"]
    assert tree.generate() == {"docs/configuration.md", "docs/modes.md"}
    assert "| `dummy` | writes in pairs | halves of pairs | a producer |" in tree.read("docs/modes.md")
    assert "| `pairs` | `2` | Pairs (count). |" in tree.read("docs/configuration.md")
    assert tree.edited == {"canary/workloads/dummy.py", "canary/probing/dummy.py"}


DUMMY_DRILL = """\"\"\"A dummy is forged.

Nothing happens.
\"\"\"

from canary.drills.drill import Drill, Said
from canary.drills.steps.writing import FORGED, Forge

DRILL = Drill(
    title="A dummy is forged",
    source="a test",
    steps=(Forge("copy"),),
    says=(Said("duplicate", at=FORGED),),
    uncontrolled="Nothing happens.",
)
"""


def test_a_drill_is_a_file(tree: Tree) -> None:
    tree.create("canary/drills/forged/a_dummy.py", DUMMY_DRILL)
    assert tree.generate() == {"docs/drills.md"}
    assert len(tree.edited) == 1
    assert "### a-dummy" in tree.read("docs/drills.md")
    assert "a-dummy" in tree.python("-m", "canary.cli", "drill", "list")
