"""Spark's Kafka source: what Spark has it does not fetch, and what is fetched is what is pinned."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest

from canary.lab.jars import pinned_jars
from spark_reconcile.dump import connector
from spark_reconcile.errors import UnreachableError
from tests.spark_reconcile.test_dump import Writer, made

if TYPE_CHECKING:
    from canary.lab import Lab

SPARK = Path(pyspark.__file__).parent
NAMES = [jar.name for jar in pinned_jars.pinned_connector()]


@pytest.fixture
def spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark of our own, made of links to the installed one, on a machine that has fetched nothing."""
    home = tmp_path / "spark"
    (home / "jars").mkdir(parents=True)
    for folder, part in ((home, SPARK), (home / "jars", SPARK / "jars")):
        for one in part.iterdir():
            if one.name != "jars":
                (folder / one.name).symlink_to(one)
    monkeypatch.setenv("SPARK_HOME", str(home))
    return home


@pytest.fixture
def offline(spark_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_port: int) -> Path:
    """The same machine, with an empty cache and a Maven repository that nobody serves."""
    monkeypatch.setenv("CANARY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CANARY_MAVEN_URL", f"http://127.0.0.1:{free_port}")
    return spark_home


def test_what_spark_has_in_its_own_folder_is_not_fetched(offline: Path) -> None:
    (offline / "jars" / NAMES[-2]).touch()
    assert NAMES[-2].startswith("spark-sql-kafka-")
    assert connector.properties() == {}


@pytest.mark.usefixtures("offline")
def test_without_it_and_without_a_network_the_remedy_is_named() -> None:
    with pytest.raises(UnreachableError, match="CANARY_MAVEN_URL names another Maven repository"):
        connector.properties()


@pytest.mark.spark
def test_what_is_fetched_is_the_pinned_list_and_is_handed_to_spark(spark_home: Path) -> None:
    assert not any((spark_home / "jars").glob("*kafka*"))
    (listed,) = connector.properties().values()
    assert sorted(Path(one).name for one in listed.split(",")) == sorted(NAMES)


def test_the_pinned_list_fits_spark_and_repeats_nothing_that_spark_has() -> None:
    (sql,) = SPARK.glob("jars/spark-sql_*.jar")
    scala, version = re.fullmatch(r"spark-sql_(.+)-(\d+\.\d+)\.\d+\.jar", sql.name).groups()  # type: ignore[union-attr]
    assert any(re.fullmatch(rf"spark-sql-kafka-0-10_{scala}-{version}\.\d+\.jar", name) for name in NAMES)
    assert not {re.sub(r"-[\d.]+\.jar", "", name) for name in NAMES} & {
        re.sub(r"-[\d.]+\.jar", "", one.name) for one in SPARK.glob("jars/*.jar")
    }
    assert all(re.fullmatch(r"[0-9a-f]{128}", jar.sha512) for jar in pinned_jars.pinned_connector())


@pytest.mark.kafka
@pytest.mark.spark
def test_what_an_image_has_reads_from_kafka_without_the_internet(
    lab: Lab, spark_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free_port: int
) -> None:
    connector.install()
    assert {one.name for one in (spark_home / "jars").iterdir() if not one.is_symlink()} == set(NAMES)
    monkeypatch.setenv("CANARY_CACHE", str(tmp_path / "empty"))
    monkeypatch.setenv("CANARY_MAVEN_URL", f"http://127.0.0.1:{free_port}")
    topic = f"image-{tmp_path.name}"
    topic_id = made(lab, topic)
    (tmp_path / "canary.yaml").write_text(
        f"clusters:\n  - {{name: c, kafka: {{bootstrap.servers: '{lab.bootstrap}'}}, topic: {{name: {topic}}}}}\n"
        f"store: {{url: 'sqlite:///{tmp_path}/store.db'}}\n"
    )
    Writer(lab, topic, topic_id, "x").probes(0, 5)
    command = ("dump", "--config", tmp_path / "canary.yaml", "--out", tmp_path / "dump")
    ran = subprocess.run([sys.executable, "-m", "canary.cli", *command], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert f"{topic}, read_committed: 5 records" in ran.stdout
    assert not (tmp_path / "empty" / pinned_jars.CONNECTOR).exists()
