"""What the lab's processes are configured with: server.properties, logging, JVM flags.

Two profiles differ in patience only; the semantics are untouched (FIELD-NOTES "Running brokers fast and
deterministically").

calm: a broker is fenced after 15 s of silence and leaves the ISR after 10 s; leadership moves only when it has to. A
    machine that stalls for some seconds changes nothing in the cluster.
quick: 3 s and 2 s: for trying out what expels a broker. (A killed broker comes back only once its session is over.)
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from canary.lab.state import CONTROLLER, Profile, State

JVM_FLAGS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
)
"""Quick to start and small: short-lived test brokers never earn back what the optimizing compiler costs."""

_SESSION: Final[dict[Profile, dict[str, str]]] = {
    "calm": {"broker.session.timeout.ms": "15000", "broker.heartbeat.interval.ms": "2000"},
    "quick": {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"},
}
_REBALANCE: Final[dict[Profile, dict[str, str]]] = {"calm": {"auto.leader.rebalance.enable": "false"}, "quick": {}}
_REPLICAS: Final[dict[Profile, dict[str, str]]] = {
    "calm": {"replica.lag.time.max.ms": "10000"},
    "quick": {"replica.lag.time.max.ms": "2000", "replica.fetch.wait.max.ms": "100"},
}

_ZOOKEEPER: Final[dict[Profile, dict[str, str]]] = {
    "calm": {"zookeeper.session.timeout.ms": "15000"},
    "quick": {"zookeeper.session.timeout.ms": "3000"},
}

EVENT_LOGGERS: Final = (
    "org.apache.kafka.controller.ReplicationControlManager",
    "org.apache.kafka.controller.ClusterControlManager",
    "kafka.cluster.Partition",
)
"""Kafka's loggers of fencing and of in-sync replicas; see canary.lab.events."""


def server_properties(lab: State, node: int, data: Path) -> dict[str, str]:
    """Return the properties of a lab's broker, controller or ZooKeeper with this data directory; overrides win.

    In an override of a single broker {port} stands for the port that the broker would listen at.
    """
    controller = node >= CONTROLLER
    if controller and lab.zookeeper:
        return {**_zookeeper(lab.private_port(node), data), **lab.controller_properties}
    shared = _of_zookeepers_broker(lab, node) if lab.zookeeper else _of_a_quorums_node(lab, node)
    listener = "CONTROLLER" if controller else "PLAINTEXT"
    shared |= {"listeners": f"{listener}://127.0.0.1:{lab.private_port(node)}", "log.dirs": str(data)}
    if lab.proxied:
        shared["advertised.listeners"] = f"{listener}://127.0.0.1:{lab.ports[node]}"
    if controller:
        return {**shared, **_REBALANCE[lab.profile], **lab.controller_properties}
    brokers = len(lab.brokers)
    replicas = str(min(3, brokers))
    return {
        **shared,
        "inter.broker.listener.name": "PLAINTEXT",
        **_REPLICAS[lab.profile],
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "false",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "log.cleaner.dedupe.buffer.size": str(8 << 20),  # 128 MiB by default, half of the heap here
        "offsets.topic.num.partitions": "3",
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.num.partitions": "3",
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": str(min(2, brokers)),
        **lab.broker_properties,
        **{
            name: value.replace("{port}", str(lab.private_port(node)))
            for name, value in lab.overrides.get(node, {}).items()
        },
    }


def _of_a_quorums_node(lab: State, node: int) -> dict[str, str]:
    return {
        "process.roles": "controller" if node >= CONTROLLER else "broker",
        "node.id": str(node),
        "controller.quorum.voters": ",".join(f"{one}@127.0.0.1:{lab.ports[one]}" for one in lab.controllers),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        **_SESSION[lab.profile],
    }


def _of_zookeepers_broker(lab: State, node: int) -> dict[str, str]:
    return {
        "broker.id": str(node),
        "zookeeper.connect": f"127.0.0.1:{lab.ports[CONTROLLER]}",
        "zookeeper.connection.timeout.ms": "60000",  # both are starting
        **_ZOOKEEPER[lab.profile],
        **_REBALANCE[lab.profile],
    }


def _zookeeper(port: int, data: Path) -> dict[str, str]:
    return {
        "clientPort": str(port),
        "clientPortAddress": "127.0.0.1",
        "dataDir": str(data),
        "tickTime": "500",
        "maxSessionTimeout": "60000",
        "admin.enableServer": "false",  # it would want a web server's jars
        "4lw.commands.whitelist": "dump",  # see canary.wire.broker_view
    }


def render(properties: Mapping[str, str]) -> str:
    """Return the text of a .properties file."""
    return "".join(f"{key}={value}\n" for key, value in properties.items())


def logging_files(directory: Path) -> dict[str, str]:
    """Return name and text of the logging configurations.

    Warnings go to server.log, and lines of EVENT_LOGGERS to events.log; neither can fill a disk.
    """
    new, old = [], []
    for name, path in (("server", directory / "server.log"), ("events", directory / "events.log")):
        new.append(
            f"appender.{name}.type=RollingFile\nappender.{name}.name={name}\nappender.{name}.fileName={path}\n"
            f"appender.{name}.filePattern={path}.%i\n"
            f"appender.{name}.layout.type=PatternLayout\nappender.{name}.layout.pattern=%d %p %m (%c)%n\n"
            f"appender.{name}.policies.type=Policies\nappender.{name}.policies.size.type=SizeBasedTriggeringPolicy\n"
            f"appender.{name}.policies.size.size=10MB\n"
            f"appender.{name}.strategy.type=DefaultRolloverStrategy\nappender.{name}.strategy.max=2\n"
        )
        old.append(
            f"log4j.appender.{name}=org.apache.log4j.RollingFileAppender\nlog4j.appender.{name}.File={path}\n"
            f"log4j.appender.{name}.MaxFileSize=10MB\nlog4j.appender.{name}.MaxBackupIndex=2\n"
            f"log4j.appender.{name}.layout=org.apache.log4j.PatternLayout\n"
            f"log4j.appender.{name}.layout.ConversionPattern=%d %p %m (%c)%n\n"
        )
    for number, logger in enumerate(EVENT_LOGGERS):
        new.append(
            f"logger.{number}.name={logger}\nlogger.{number}.level=INFO\n"
            f"logger.{number}.appenderRef.events.ref=events\n"
        )
        old.append(f"log4j.logger.{logger}=INFO, events\n")
    return {
        "log4j2.properties": "rootLogger.level=WARN\nrootLogger.appenderRef.server.ref=server\n"
        "rootLogger.appenderRef.server.level=WARN\n" + "".join(new),
        "log4j.properties": "log4j.rootLogger=WARN, server\nlog4j.appender.server.Threshold=WARN\n" + "".join(old),
    }


def logging_flags(directory: Path) -> tuple[str, ...]:
    """Return the JVM flags that choose those files, for log4j 2 (Kafka 4) and log4j 1 (Kafka 3) alike."""
    return (
        f"-Dlog4j2.configurationFile=file:{directory / 'log4j2.properties'}",
        f"-Dlog4j.configuration=file:{directory / 'log4j.properties'}",
        "-Dlog4j2.disable.jmx=true",
    )
