"""The settings as a whole. Every default is the safe one, every field describes what it is and in which unit."""

import re
import socket
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, SecretStr, field_validator, model_validator

from canary.settings.clusters import ClusterSettings
from canary.settings.cron import longest_gap_s
from canary.settings.fields import Bytes, Name, Seconds, Secret, Section, problem
from canary.settings.notify.receivers import ReceiverSettings
from canary.settings.serving import ApiSettings


def _host_name() -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname()).lstrip("._-")[:100] or "canary"


class StoreSettings(Section):
    """The database that everything shown comes from."""

    url: Secret = Field(
        SecretStr("sqlite:///var/canary/store.db"),
        description="SQLAlchemy URL: sqlite:///PATH or postgresql+psycopg://USER:PASSWORD@HOST/DATABASE. May come from "
        "a file: url_file: PATH.",
    )
    timeout: Seconds = Field(
        5.0,
        gt=0,
        description="How long a command waits for the database to answer; a runner waits without end (duration).",
    )
    retention: Seconds = Field(
        400 * 86400.0,
        ge=86400,
        description="How long what is over is kept: resolved violations, reconciliations, the topology's timeline; the "
        "scheduler deletes what is older. Counters, each cluster's last good reconciliation and critical violations "
        "that a person resolved are kept for ever (duration).",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_file(cls, value: Any) -> Any:
        if isinstance(value, dict) and "url_file" in value:
            rest = {name: one for name, one in value.items() if name != "url_file"}
            if "url" in rest:
                raise problem("both url and url_file are set", "keep one of the two", "url_file")
            return rest | {"url": {"file": value["url_file"]}}
        return value

    @field_validator("url")
    @classmethod
    def _known(cls, value: SecretStr) -> SecretStr:
        scheme = urlsplit(value.get_secret_value()).scheme
        if scheme.split("+")[0] not in {"sqlite", "postgresql"}:
            raise problem(
                "the database is neither SQLite nor PostgreSQL",
                "set sqlite:///PATH or postgresql+psycopg://USER:PASSWORD@HOST/DATABASE",
            )
        return value


class LedgerSettings(Section):
    """The canary's own durable memory, on its own disk."""

    directory: Path = Field(
        Path("var/canary/ledger"), description="Directory of the ledger; on a local disk, one live runner each (path)."
    )


class ProbeLogSettings(Section):
    """What was promised, as Parquet, for Spark and the API."""

    url: str = Field(
        "var/canary/probe-log", min_length=1, description="A directory, or s3://… and the like through fsspec (URL)."
    )
    retention: Seconds = Field(
        30 * 86400.0,
        gt=0,
        description="How long probe log files are kept, and of how many days at least; longer than any probe topic's "
        "retention (duration).",
    )


class RunnerSettings(Section):
    """The process that probes."""

    name: Name = Field(
        default_factory=_host_name,
        description="Name of this runner; one live runner of a name in a cluster. Default: the host's name.",
    )
    watch_interval: Seconds = Field(
        1.0,
        gt=0,
        le=1.0,
        description="How often the cluster is asked for topic ids, leaders and offsets; at most 1s (duration).",
    )
    fsync_interval: Seconds = Field(
        0.5,
        gt=0,
        le=1.0,
        description="How long facts are gathered before they are made durable in the ledger; at most 1s (duration).",
    )
    segment_age: Seconds = Field(
        60.0,
        gt=0,
        le=60.0,
        description="How old a ledger segment grows before it is sealed and shipped to the probe log, and how often "
        "the tracker is snapshotted; at most 1m (duration).",
    )
    segment_bytes: Bytes = Field(
        64 * 2**20, ge=2**16, description="How large a ledger segment grows before it is sealed (bytes)."
    )
    alive_file: Path | None = Field(
        None,
        description="A file that is touched twice a second while every cluster is judged: a liveness probe looks at "
        "its age (path).",
    )
    scrub_rate: Bytes = Field(
        50_000,
        ge=0,
        description="What may be read in a second to look again at everything retained, for ever: 50kB are 4.3 GB a "
        "day; 0 = not at all (bytes).",
    )


class ScheduleSettings(Section):
    """What is done by the clock."""

    reconcile: str | None = Field(
        "0 3 * * *",
        description="When Spark reconciles: minute, hour, day of month, month, day of week (cron, local time; days of "
        "the week by name, like sun, are the clear ones). null or never = not at all, and no alert misses it. The "
        "default holds where `canary schedule`, which needs Spark, has led the cluster; what is set holds anywhere. "
        "Alerts use the setting of the cluster's runner: give all processes the same.",
    )

    drill: str | None = Field(
        "0 10 * * wed",
        description="When the alarm of each cluster whose mode drill is on is tried, from Kafka to the pager: five "
        "fields as of reconcile (cron, local time). null or never = not at all.",
    )

    @field_validator("reconcile", "drill")
    @classmethod
    def _cron(cls, value: str | None) -> str | None:
        if value is None or value in {"", "never"}:
            return None
        try:
            longest_gap_s(value)
        except ValueError:
            raise problem(
                f"{value!r} is no cron expression, or one that never fires",
                'write five fields in quotes, like "0 3 * * *"',
            ) from None
        return value

    @property
    def longest_gap_s(self) -> float | None:
        """The longest time between two reconciliations by the clock; None: there are none."""
        return None if self.reconcile is None else longest_gap_s(self.reconcile)

    def asked_for(self, cluster: ClusterSettings) -> bool:
        """Return whether the settings ask for nights: by a schedule of their own, or by what is done at night.

        The default schedule is no wish: it holds where there is a scheduler, which needs Spark.
        """
        wanted = "reconcile" in self.model_fields_set or cluster.digests.topics or cluster.receipts.url
        return self.reconcile is not None and bool(wanted)


class LabSettings(Section):
    """The embedded brokers, for a cluster without bootstrap.servers."""

    version: str = Field("4.1.0", pattern=r"^\d+\.\d+\.\d+$", description="Kafka's version (number).")
    directory: Path = Field(Path("var/canary/lab"), description="Where the brokers keep their data (path).")
    brokers: int = Field(3, ge=1, le=9, description="How many brokers (count).")
    heap: str = Field("256m", pattern=r"^\d+[mMgG]$", description="Heap of each broker, as in -Xmx (256m, 1g).")


class Settings(Section):
    """Everything that can be set. Made by ``load()``, which knows files, lines and the environment."""

    model_config = ConfigDict(validate_default=True)

    clusters: tuple[ClusterSettings, ...] = Field(
        default_factory=lambda: (ClusterSettings(),),  # type: ignore[call-arg]
        description="The clusters that are probed. None: one, the embedded lab.",
    )
    store: StoreSettings = Field(default_factory=StoreSettings, description="The database.")  # type: ignore[arg-type]
    ledger: LedgerSettings = Field(default_factory=LedgerSettings, description="The ledger.")  # type: ignore[arg-type]
    probe_log: ProbeLogSettings = Field(default_factory=ProbeLogSettings, description="The probe log.")  # type: ignore[arg-type]
    runner: RunnerSettings = Field(default_factory=RunnerSettings, description="The runner.")  # type: ignore[arg-type]
    api: ApiSettings = Field(default_factory=ApiSettings, description="The API.")  # type: ignore[arg-type]
    notify: tuple[ReceiverSettings, ...] = Field(
        default=(),
        description="Who is told of incidents, by the processes that serve the API. Give all of them the same.",
    )
    schedule: ScheduleSettings = Field(default_factory=ScheduleSettings, description="The schedule.")  # type: ignore[arg-type]
    lab: LabSettings = Field(default_factory=LabSettings, description="The embedded lab.")  # type: ignore[arg-type]

    @field_validator("clusters", mode="before")
    @classmethod
    def _at_least_the_lab(cls, value: object) -> object:
        return value or [{}]

    @model_validator(mode="after")
    def _receivers_are_told_apart(self) -> Self:
        clusters = {cluster.name for cluster in self.clusters}
        for at, receiver in enumerate(self.notify):
            if receiver.name in {one.name for one in self.notify[:at]}:
                raise problem(
                    f"two receivers are called {receiver.name}", "give each its own name", "notify", at, "name"
                )
            if unknown := sorted(set(receiver.clusters) - clusters):
                remedy = f"name some of {', '.join(sorted(clusters))}, or none for all"
                raise problem(f"there is no cluster {unknown[0]}", remedy, "notify", at, "clusters")
        return self

    @model_validator(mode="after")
    def _sources_are_known(self) -> Self:
        others = {cluster.name: cluster for cluster in self.clusters}
        for at, cluster in enumerate(self.clusters):
            mirrored: set[tuple[str, str]] = set()
            for number, origin in enumerate(cluster.replicated_from):
                place = ("clusters", at, "replicated_from", number)
                source = others.get(origin.cluster)
                if source is None or source is cluster:
                    known = ", ".join(sorted(others.keys() - {cluster.name})) or "none"
                    raise problem(
                        f"there is no other cluster {origin.cluster}", f"name another one: {known}", *place, "cluster"
                    )
                if source.embedded:
                    remedy = "say where the source is: kafka: {bootstrap.servers: HOST:PORT}"
                    raise problem(f"{source.name} is the embedded lab, which has no fixed address", remedy, *place)
                for topic in origin.topics or (source.topic.name,):
                    if (source.name, topic) in mirrored:
                        raise problem(f"{topic} of {source.name} is named twice", "name it once", *place, "topics")
                    mirrored.add((source.name, topic))
        return self

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        names: set[str] = set()
        lab: str | None = None
        for at, cluster in enumerate(self.clusters):
            if cluster.name in names:
                raise problem(
                    f"two clusters are called {cluster.name}", "give each its own name", "clusters", at, "name"
                )
            names.add(cluster.name)
            if not cluster.embedded:
                continue
            if lab is not None:
                raise problem(
                    f"{lab} and {cluster.name} have no bootstrap.servers, and there is one embedded lab",
                    "say where the cluster is: kafka: {bootstrap.servers: HOST:PORT}",
                    "clusters",
                    at,
                    "kafka",
                )
            lab = cluster.name
            if cluster.topic.replication_factor > self.lab.brokers:
                raise problem(
                    f"{cluster.topic.replication_factor} replicas need as many brokers; the lab has {self.lab.brokers}",
                    "raise lab.brokers, or lower replication_factor",
                    "clusters",
                    at,
                    "topic",
                    "replication_factor",
                )
        return self
