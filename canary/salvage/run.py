"""A whole log directory, from end to end: is it of this cluster and of these topics; each partition; the manifest."""

import datetime as dt
from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final

from canary.errors import UserError
from canary.salvage.cluster import ClusterView, PartitionLog, Topic, UnknownError
from canary.salvage.counts import FORMAT, Counts, Found
from canary.salvage.directory import LogDirectory, Replica
from canary.salvage.salvaged import write_manifest
from canary.salvage.salvaging import Partition, Show, Wanted
from canary.wire.errors import RecordsError

_NO_TOPIC: Final = "no such topic"


def salvage(
    view: ClusterView, directory: LogDirectory, wanted: Wanted, out: Path | None, *, any_topic_id: bool, show: Show
) -> dict[str, Any]:
    """Salvage each partition of a directory into ``out`` (None: only count), and return the manifest.

    A partition for which the cluster does not answer, such as one without a leader, is ``unknown`` there, with why.

    Args:
        view: the cluster.
        directory: what was found.
        wanted: what is asked for.
        out: an empty directory.
        any_topic_id: a topic that was deleted, or made again, is no reason to refuse: all its records are gone.
        show: is told of steps.

    Raises:
        UserError: the directory is another cluster's, a topic is another one, the cluster gives no answer, or a file
            cannot be written.
    """
    cluster_id = view.cluster_id()
    if directory.cluster_id not in {None, cluster_id}:
        raise UserError(
            f"{directory.path} is of cluster {directory.cluster_id}, and {view.name} is {cluster_id}: "
            "name the cluster that the broker belonged to in --epochs-from"
        )
    topics = {name: view.topic(name) for name in dict.fromkeys(one.topic for one in directory.replicas)}
    strangers = {one: why for one in directory.replicas if (why := _stranger(one, topics[one.topic]))}
    if strangers and not any_topic_id:
        reasons = dict.fromkeys((one.topic, why) for one, why in strangers.items())
        raise UserError(
            "; ".join(f"topic {name} in cluster {view.name}: {why}" for name, why in reasons)
            + ". Nothing of it is in the cluster: leave it out (--topic), or salvage all of it (--any-topic-id)"
        )
    found, unknown = [], []
    for number, replica in enumerate(directory.replicas, 1):
        try:
            log = _log(view, replica, topics[replica.topic], same=replica not in strangers)
            one = Partition(replica, log, wanted, show).salvage(out)
        except (
            UnknownError,
            RecordsError,
        ) as error:  # what cannot be read of the directory is damage: it is the cluster's
            unknown.append({"topic": replica.topic, "partition": replica.partition, "reason": str(error)})
            continue
        if replica in strangers:
            one.notes.append(f"the topic: {strangers[replica]}; all that committed is taken")
        directory.refuse_if_running()  # one that was started meanwhile has cut what was read
        found.append(one)
        show("partitions", number, len(directory.replicas))
    document = _manifest(view, cluster_id, directory, topics, found, wanted) | {"unknown": unknown}
    if out is not None:
        write_manifest(out, document)
    return document


def _stranger(replica: Replica, topic: Topic | None) -> str:
    """Return why the cluster's topic is not the directory's; "": it is, as far as one can tell."""
    if topic is None:
        return _NO_TOPIC
    if None not in {replica.topic_id, topic.topic_id} and replica.topic_id != topic.topic_id:
        return f"it was made again (topic id {topic.topic_id}, in the directory {replica.topic_id})"
    if replica.partition >= topic.partitions:  # a topic never has fewer than it had
        return f"it has {topic.partitions} partitions, and {replica.name} is none of them: it was made again"
    return ""


def _log(view: ClusterView, replica: Replica, topic: Topic | None, *, same: bool) -> PartitionLog:
    if topic is None or replica.partition >= topic.partitions:
        return PartitionLog(None, topic or Topic(replica.topic, None, 0), replica.partition)
    return view.log(topic, replica.partition, same=same)


def total(found: list[Found]) -> dict[str, int | None]:
    """Return the counts of all partitions; None where one of them does not know."""

    def of(name: str) -> int | None:
        values = [getattr(one.counts, name) for one in found]
        return None if None in values else sum(values)

    return {one.name: of(one.name) for one in fields(Counts)}


def _manifest(
    view: ClusterView,
    cluster_id: str,
    directory: LogDirectory,
    topics: dict[str, Topic | None],
    found: list[Found],
    wanted: Wanted,
) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "at": dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "log_dir": str(directory.path),
        "broker": directory.broker,
        "set_aside": list(directory.set_aside),
        "cluster": view.name,
        "cluster_id": cluster_id,
        "options": asdict(wanted),
        "topics": list(_topics(directory, topics)),
        "total": total(found) | {"damaged": sum(len(one.damage) for one in found)},
        "partitions": [one.as_json() for one in found],
    }


def _topics(directory: LogDirectory, topics: dict[str, Topic | None]) -> Iterator[dict[str, Any]]:
    """Yield each topic; ``partitions``: of the cluster's, or as many as the directory proves."""
    for name, topic in topics.items():
        own = [one for one in directory.replicas if one.topic == name]
        partitions = max(one.partition for one in own) + 1
        yield {
            "topic": name,
            "topic_id": next((one.topic_id for one in own if one.topic_id), None),
            "partitions": partitions if topic is None else max(partitions, topic.partitions),
            "max_message_bytes": None if topic is None else topic.settings.get("max.message.bytes"),
        }
