"""Kafka's own command line tools, as scripts of the names that its distribution has: the lab's jars lack them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from canary.lab.jars import cache, classes
from canary.lab.jars.pinned_jars import listed

_PINNED: Final = Path(__file__).with_name("tools-4.1.0.txt")
"""What the tools need beside the jars of a broker. Users never fetch it."""
_MAIN: Final = {
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-dump-log": "kafka.tools.DumpLogSegments",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}
"""The class that each script of Kafka 4.1 starts."""
_JVM: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData -Xmx128m"


def install(folder: Path) -> Path:
    """Write the scripts, and one for ``canary``, into a folder, which belongs into the PATH; return it.

    $CLASSPATH names what else a tool is to find, as with Kafka's own scripts.
    """
    lib, java = cache.fetch(), cache.java()
    tools = cache._fetch(_PINNED.stem, lambda: listed(_PINNED.read_text()), "Kafka's tools", None, None)
    start = (
        f"exec {java} {_JVM} {' '.join(classes.flags(lib, java))} -cp '{lib}/*:{tools}/*'${{CLASSPATH:+:$CLASSPATH}}"
    )
    folder.mkdir()
    for name, main in _MAIN.items():
        _write(folder / f"{name}.sh", f'{start} {main} "$@"')
    _write(folder / "canary", f'exec {sys.executable} -m canary.cli "$@"')
    return folder


def _write(script: Path, line: str) -> None:
    script.write_text(f"#!/bin/sh\n{line}\n")
    script.chmod(0o755)
