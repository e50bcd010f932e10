"""Digests on demand: which, and where those are that they are compared with."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os.path import realpath
from typing import TYPE_CHECKING, Any

from fsspec.core import url_to_fs

from canary.settings import Settings
from canary.settings.clusters import ClusterSettings
from canary.watching.selection import Selection
from spark_reconcile.digests.keeping import Kept
from spark_reconcile.digests.night import Wanted, digest
from spark_reconcile.digests.result import Digested
from spark_reconcile.dump.targets import chosen, reachable
from spark_reconcile.errors import BadInputError
from storage.probe_log.shipping import safe_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def folder_of(settings: Settings, cluster: str) -> str:
    """Return the folder or URL of a cluster's nightly digests: beside the tables of the probe log."""
    return f"{settings.probe_log.url.rstrip('/')}/digests/{safe_name(cluster)}"


def wanted_of(cluster: ClusterSettings, config: Mapping[str, Any]) -> Wanted:
    """Return which digests of a cluster the settings ask for."""
    return Wanted(cluster.name, config, cluster.digests.topics, cluster.digests.reread)


def wanted(
    settings: Settings, clusters: Sequence[str] | None, topics: Sequence[str], against: str | None, *, keep: bool
) -> list[tuple[Wanted, str]]:
    """Return whose digests are made, each with the folder of those to compare with.

    Raises:
        BadInputError: a cluster is unknown, none has topics to digest, or the nightly digests would be replaced.
        UnreachableError: the embedded lab does not run.
    """
    if against is not None and not against.strip("/ "):
        raise BadInputError("--against", f"{against!r} is no folder of digests", "name one, like /var/digests")
    found = []
    for cluster in chosen(settings, clusters):
        if not (topics or cluster.digests.topics):
            continue
        one = wanted_of(cluster, reachable(settings, cluster))
        one = replace(one, topics=tuple(topics) or one.topics)
        nightly = folder_of(settings, cluster.name)
        folder = nightly if against is None else f"{against.rstrip('/')}/{safe_name(one.cluster)}"
        if keep and realpath(url_to_fs(folder)[1]) == realpath(url_to_fs(nightly)[1]):
            remedy = "name a folder of your own with --against"
            raise BadInputError("--keep", "what the next night compares with is replaced by nights alone", remedy)
        found.append((one, folder))
    if not found:
        raise BadInputError(
            "settings, clusters", "no topic has digests", "set digests.topics, or name one with --topic"
        )
    return found


def compare(spark: SparkSession, wanted: Wanted, folder: str, keep: bool, everything: bool) -> Digested:  # noqa: FBT001  # as the command has them
    """Make digests and compare them with those of ``folder``, which stay as they are unless these are to be kept.

    Digests of other topics stay, too.

    Raises:
        UnreachableError: the cluster does not answer, or has no such topic.
        BadInputError: there is nothing to compare with, and nothing is kept; or the folder cannot be read or written.
    """
    with tempfile.TemporaryDirectory(prefix="digests-") as scratch:
        kept = Kept(folder, None if keep else scratch)
        if kept.trees is None and not keep:
            raise BadInputError(
                folder, "there are no digests yet", "wait for a night, or make some: --against DIR --keep"
            )
        found, trees = digest(spark, replace(wanted, everything=everything), kept)
        if keep:
            chosen = Selection(wanted.topics)
            before = kept.trees.trees if kept.trees is not None else {}
            others = {place: tree for place, tree in before.items() if not chosen.topic(tree.topic)}
            kept.save(replace(trees, trees=others | trees.trees))
    return found
