"""What the audit says of a Redpanda cluster, from its own configuration. Untested against a live one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canary.watching.audited import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from canary.watching.audited import Audited

_BAD_VERSIONS = (
    ("v21.10.", "jepsen-redpanda 21.10.1 found lost and duplicated writes, aborted reads and fractured transactions"),
    ("v21.11.1", "some of what jepsen-redpanda 21.10.1 found was fixed only in 21.11.2 and later"),
)


def check(what: Audited) -> Iterator[Finding]:
    """Yield the findings; none where it is no Redpanda."""
    settings = what.redpanda
    if settings is None:
        return
    least = min(3, len(what.brokers))
    for name, why in (
        ("id_allocator_replication", "producer ids are given out twice when the id allocator loses its log"),
        ("transaction_coordinator_replication", "outcomes of transactions are lost with one broker"),
        ("internal_topic_replication_factor", "internal topics lose what they remember with one broker"),
        ("default_topic_replication", "topics made without a replication factor have one copy"),
    ):
        value = settings.get(name)
        if isinstance(value, int) and value < least:
            change = f"rpk cluster config set {name} {least}"
            severity = "critical" if name != "default_topic_replication" else "warning"
            yield Finding("internal-replication", severity, "cluster", f"{name}={value}", why, change)  # type: ignore[arg-type]
    caching = settings.get("write_caching_default", settings.get("write_caching"))
    if caching in {"true", "on", True}:
        yield Finding(
            "write-caching",
            "warning",
            "cluster",
            f"write_caching_default={caching}",
            "writes are acknowledged from memory, before fsync: a majority that loses power loses them (why-fsync)",
            "rpk cluster config set write_caching_default disabled",
        )
    if settings.get("auto_create_topics_enabled") is True:
        yield Finding(
            "auto-create",
            "warning",
            "cluster",
            "auto_create_topics_enabled=true",
            "a misspelt or deleted topic comes into being by itself and takes writes that nobody will look for",
            "rpk cluster config set auto_create_topics_enabled false",
        )
    for broker in what.brokers:
        for prefix, why in _BAD_VERSIONS:
            if broker.version and broker.version.startswith(prefix):
                found = f"version {broker.version}"
                yield Finding("known-bad-version", "critical", f"broker {broker.id}", found, why, "upgrade Redpanda")
