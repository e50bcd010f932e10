"""What the lab's processes are configured with: server.properties, logging, JVM flags.

The timeouts are a tenth of Kafka's defaults, so that a session expires in 3 s and a follower leaves the ISR in 2 s; the
semantics are untouched (FIELD-NOTES "Running brokers fast and deterministically").
"""

from collections.abc import Mapping
from pathlib import Path

JVM_FLAGS = (
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-XX:-UsePerfData",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djava.awt.headless=true",
)
"""Quick to start and small: short-lived test brokers never earn back what the optimizing compiler costs."""

_SESSION = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}


def controller_properties(
    *, node: int, port: int, data: Path, overrides: Mapping[str, str] | None = None
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
        **_SESSION,
        **(overrides or {}),
    }


def broker_properties(
    *,
    node: int,
    port: int,
    controller: tuple[int, int],
    data: Path,
    brokers: int,
    overrides: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the properties of one broker; overrides win.

    Args:
        node: its id.
        port: of its one listener, on 127.0.0.1.
        controller: id and port of the controller.
        data: its only log directory.
        brokers: how many brokers the lab has, which bounds the replication of internal topics.
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
        **_SESSION,
        "replica.lag.time.max.ms": "2000",
        "replica.fetch.wait.max.ms": "100",
        "controlled.shutdown.enable": "false",
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
    """Return name and text of the logging configurations: warnings only, to server.log, which cannot fill a disk."""
    log = directory / "server.log"
    return {
        "log4j2.properties": (
            "rootLogger.level=WARN\nrootLogger.appenderRef.file.ref=file\n"
            f"appender.file.type=RollingFile\nappender.file.name=file\nappender.file.fileName={log}\n"
            f"appender.file.filePattern={log}.%i\n"
            "appender.file.layout.type=PatternLayout\nappender.file.layout.pattern=%d %p %m (%c)%n\n"
            "appender.file.policies.type=Policies\nappender.file.policies.size.type=SizeBasedTriggeringPolicy\n"
            "appender.file.policies.size.size=10MB\n"
            "appender.file.strategy.type=DefaultRolloverStrategy\nappender.file.strategy.max=2\n"
        ),
        "log4j.properties": (
            f"log4j.rootLogger=WARN, file\nlog4j.appender.file=org.apache.log4j.RollingFileAppender\n"
            f"log4j.appender.file.File={log}\nlog4j.appender.file.MaxFileSize=10MB\n"
            "log4j.appender.file.MaxBackupIndex=2\nlog4j.appender.file.layout=org.apache.log4j.PatternLayout\n"
            "log4j.appender.file.layout.ConversionPattern=%d %p %m (%c)%n\n"
        ),
    }


def logging_flags(directory: Path) -> tuple[str, ...]:
    """Return the JVM flags that choose those files, for log4j 2 (Kafka 4) and log4j 1 (Kafka 3) alike."""
    return (
        f"-Dlog4j2.configurationFile=file:{directory / 'log4j2.properties'}",
        f"-Dlog4j.configuration=file:{directory / 'log4j.properties'}",
        "-Dlog4j2.disable.jmx=true",
    )
