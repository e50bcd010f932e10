"""What of a topic's configuration the simulation obeys."""

from dataclasses import dataclass, field

from simulation.kafka.log import LogSettings

DEFAULTS = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "delete.retention.ms": "86400000",
    "flush.messages": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}
RECORD_BYTES = 80
"""About what a record takes on a disk besides key and value."""


@dataclass(slots=True)
class TopicSettings:
    """What of a topic's configuration the simulation obeys; one object for all its partitions, changed in place."""

    log: LogSettings = field(default_factory=LogSettings)
    min_isr: int = 1
    unclean: bool = False
    retention_s: float = -1.0
    retention_bytes: int = -1
    append_time: bool = False

    def read(self, config: dict[str, str], segment_records: int) -> None:
        """Take everything from a configuration in Kafka's names, which may raise ValueError."""
        self.min_isr = int(config["min.insync.replicas"])
        self.unclean = config["unclean.leader.election.enable"] == "true"
        kept = "delete" in config["cleanup.policy"]
        self.retention_s = int(config["retention.ms"]) / 1000 if kept else -1.0
        self.retention_bytes = int(config["retention.bytes"]) if kept else -1
        self.append_time = config["message.timestamp.type"] == "LogAppendTime"
        self.log.segment_records = max(1, min(segment_records, int(config["segment.bytes"]) // RECORD_BYTES))
        self.log.segment_s = int(config["segment.ms"]) / 1000
        self.log.fsync = config["flush.messages"] == "1"
