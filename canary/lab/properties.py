"""What the lab's processes are configured with: server.properties, logging, JVM flags.

Two profiles differ in patience only; the semantics are untouched (FIELD-NOTES "Running brokers fast and
deterministically").

calm: a broker is fenced after 15 s of silence and leaves the ISR after 10 s; leadership moves only when it has to. A
    machine that stalls for some seconds changes nothing in the cluster.
quick: 3 s and 2 s: for trying out what expels a broker. (A killed broker comes back only once its session is over.)
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

Profile = Literal["calm", "quick"]

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

EVENT_LOGGERS: Final = (
    "org.apache.kafka.controller.ReplicationControlManager",
    "org.apache.kafka.controller.ClusterControlManager",
    "kafka.cluster.Partition",
)
"""Who says when brokers are fenced and unfenced, and what the in-sync replicas are; see canary.lab.events."""


def controller_properties(
    *, node: int, port: int, data: Path, profile: Profile = "calm", overrides: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return the properties of the one controller; overrides win."""
    return {
        "process.roles": "controller",
        "node.id": str(node),
        "controller.quorum.voters": f"{node}@127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"CONTROLLER://127.0.0.1:{port}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(data),
        **_SESSION[profile],
        **_REBALANCE[profile],
        **(overrides or {}),
    }


def broker_properties(
    *,
    node: int,
    port: int,
    controller: tuple[int, int],
    data: Path,
    brokers: int,
    profile: Profile = "calm",
    overrides: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the properties of one broker; overrides win.

    Args:
        node: its id.
        port: of its one listener, on 127.0.0.1.
        controller: id and port of the controller.
        data: its only log directory.
        brokers: how many brokers the lab has, which bounds the replication of internal topics.
        profile: how long a silent broker is waited for.
        overrides: further or other properties.
    """
    replicas = str(min(3, brokers))
    insync = str(min(2, brokers))
    return {
        "process.roles": "broker",
        "node.id": str(node),
        "controller.quorum.voters": f"{controller[0]}@127.0.0.1:{controller[1]}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": str(data),
        **_SESSION[profile],
        **_REPLICAS[profile],
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "false",
        "num.network.threads": "2",
        "num.io.threads": "4",
        "log.cleaner.dedupe.buffer.size": str(8 << 20),  # 128 MiB by default, half of the heap here
        "offsets.topic.num.partitions": "3",
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.num.partitions": "3",
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": insync,
        **(overrides or {}),
    }


def render(properties: Mapping[str, str]) -> str:
    """Return the text of a .properties file."""
    return "".join(f"{key}={value}\n" for key, value in properties.items())


def logging_files(directory: Path) -> dict[str, str]:
    """Return name and text of the logging configurations.

    Warnings go to server.log, and what EVENT_LOGGERS say to events.log; neither can fill a disk.
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
