"""HDFS and YARN on loopback: Hadoop's own daemons, from jars of Maven Central beside those that Spark has."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

import httpx
import psutil

from canary.lab.jars import cache
from canary.lab.jars.pinned_jars import listed
from canary.lab.state import free_ports
from tests.support.executors import is_executor
from tests.support.families import kill
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PINNED: Final = Path(__file__).with_name("hadoop-3.4.1.txt")
"""The servers and what they lack; Spark has Hadoop's client of the same version. Users never fetch these."""
_DAEMONS: Final = (
    "org.apache.hadoop.hdfs.server.namenode.NameNode",
    "org.apache.hadoop.hdfs.server.datanode.DataNode",
    "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager",
    "org.apache.hadoop.yarn.server.nodemanager.NodeManager",
)
_START_S: Final = 90.0


@dataclass(frozen=True, slots=True)
class Hadoop:
    """``conf``: HADOOP_CONF_DIR. ``http``: the NameNode's WebHDFS, by its user. ``containers``: their logs."""

    conf: Path
    http: str
    containers: Path
    node_manager: int

    def executors(self) -> dict[str, psutil.Process]:
        """Return the JVMs of Spark's executors that run now, by container."""
        found = {}
        for process in psutil.Process(self.node_manager).children(recursive=True):
            if is_executor(process):
                with suppress(psutil.Error):  # it has ended
                    found[Path(process.cwd()).name] = process
        return found


@contextmanager
def hadoop(folder: Path) -> Iterator[Hadoop]:
    """Run NameNode, DataNode, ResourceManager and NodeManager (8 GiB) in an empty folder, until the block ends."""
    import pyspark  # noqa: PLC0415  # only here

    java = cache.java()
    servers = cache._fetch(_PINNED.stem, lambda: listed(_PINNED.read_text()), "Hadoop's servers", None, None)
    conf = folder / "conf"
    conf.mkdir()
    ports = _configured(conf, folder)
    command = [
        java,
        *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-Djava.net.preferIPv4Stack=true"),
        *("-Dorg.apache.logging.log4j.level=INFO", "--add-opens=java.base/java.lang=ALL-UNNAMED"),
        *("-cp", f"{conf}:{servers}/*:{Path(pyspark.__file__).parent}/jars/*"),
    ]
    environment = os.environ | {"JAVA_HOME": str(Path(java).parents[1]), "HADOOP_CONF_DIR": str(conf)}
    started: list[subprocess.Popen[bytes]] = []

    def start(*words: str) -> subprocess.Popen[bytes]:
        with (folder / f"{words[0].rsplit('.', 1)[-1]}{len(words)}.log").open("wb") as log:
            process = subprocess.Popen(
                [*command, *words], env=environment, stdout=log, stderr=log, cwd=folder, start_new_session=True
            )
        started.append(process)
        return process

    try:
        assert start(_DAEMONS[0], "-format", "-nonInteractive").wait(3 * _START_S) == 0
        daemons = [start(name) for name in _DAEMONS]

        def ready() -> bool:
            assert all(one.poll() is None for one in daemons), f"a daemon ended: see {folder}/*.log"
            nodes = f"http://127.0.0.1:{ports['rm_http']}/ws/v1/cluster/nodes?states=RUNNING"
            state = f"http://127.0.0.1:{ports['nn_http']}/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
            live = httpx.get(state, timeout=_START_S).json()["beans"]
            running = httpx.get(nodes, timeout=_START_S).json()["nodes"]
            return bool(live and live[0]["NumLiveDataNodes"] and running)

        until(ready, _START_S, "Hadoop has a node for data and a node for containers")
        user = psutil.Process().username()
        yield Hadoop(conf, f"webhdfs://{user}@127.0.0.1:{ports['nn_http']}", folder / "containers", daemons[-1].pid)
    finally:
        for process in started:
            kill(process)  # containers, too, which have sessions of their own


def _configured(conf: Path, folder: Path) -> Mapping[str, int]:
    """Write Hadoop's settings; return the ports by name."""
    names = ("nn", "nn_http", "rm", "rm_scheduler", "rm_tracker", "rm_admin", "rm_http")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    address = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
    settings = {
        "core-site": {"fs.defaultFS": f"hdfs://{address['nn']}", "hadoop.tmp.dir": str(folder / "tmp")},
        "hdfs-site": {
            "dfs.replication": "1",
            "dfs.client.block.write.locateFollowingBlock.initial.delay.ms": "10",  # not 400 for each file
            "dfs.namenode.http-address": address["nn_http"],
            "dfs.datanode.hostname": "127.0.0.1",
            "dfs.datanode.address": "127.0.0.1:0",
            "dfs.datanode.http.address": "127.0.0.1:0",
            "dfs.datanode.ipc.address": "127.0.0.1:0",
        },
        "yarn-site": {
            "yarn.resourcemanager.address": address["rm"],
            "yarn.resourcemanager.scheduler.address": address["rm_scheduler"],
            "yarn.resourcemanager.resource-tracker.address": address["rm_tracker"],
            "yarn.resourcemanager.admin.address": address["rm_admin"],
            "yarn.resourcemanager.webapp.address": address["rm_http"],
            "yarn.resourcemanager.scheduler.class": (
                "org.apache.hadoop.yarn.server.resourcemanager.scheduler.fifo.FifoScheduler"
            ),
            "yarn.scheduler.minimum-allocation-mb": "128",
            "yarn.nodemanager.address": "127.0.0.1:0",
            "yarn.nodemanager.localizer.address": "127.0.0.1:0",
            "yarn.nodemanager.webapp.address": "127.0.0.1:0",
            "yarn.nodemanager.resource.memory-mb": "8192",
            "yarn.nodemanager.resource.cpu-vcores": "4",
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.local-dirs": f"{folder}/local",
            "yarn.nodemanager.log-dirs": f"{folder}/containers",
            # a full disk of this machine is not what is tested
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
        },
    }
    for file, properties in settings.items():
        lines = (
            f"<property><name>{name}</name><value>{escape(value)}</value></property>"
            for name, value in properties.items()
        )
        (conf / f"{file}.xml").write_text(f"<configuration>{''.join(lines)}</configuration>")
    return ports
