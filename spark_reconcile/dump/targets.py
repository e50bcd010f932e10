"""From settings to what is to be dumped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canary.lab import Lab, LabError
from canary.settings import admin_config
from spark_reconcile.columns import ISOLATIONS
from spark_reconcile.dump import Wanted
from spark_reconcile.errors import BadInputError, UnreachableError
from storage.store import Store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from canary.settings import Settings
    from canary.settings.clusters import ClusterSettings


def wanted(
    settings: Settings, clusters: Sequence[str] | None = None, levels: Sequence[str] | None = None
) -> list[Wanted]:
    """Return what the settings say, of all clusters or of some.

    Raises:
        BadInputError: a cluster or a level that is not known.
        UnreachableError: the embedded lab does not run.
        StoreError: the store, which knows which probes are ours, does not answer.
    """
    known = {cluster.name: cluster for cluster in settings.clusters}
    for name in clusters or ():
        if name not in known:
            raise BadInputError("--cluster", f"{name} is not in the settings", f"they have {', '.join(known)}")
    for level in levels or ():
        if level not in ISOLATIONS:
            raise BadInputError("--isolation", f"{level} is no isolation level", " or ".join(ISOLATIONS))
    with Store.connect(settings.store.url.get_secret_value(), timeout=settings.store.timeout) as store:
        store.upgrade()
        installation = store.installation()
    chosen = [known[name] for name in clusters] if clusters else list(settings.clusters)
    return [target(settings, cluster, installation, levels or ISOLATIONS) for cluster in chosen]


def target(
    settings: Settings, cluster: ClusterSettings, installation: str, levels: Sequence[str] = ISOLATIONS
) -> Wanted:
    """Return what to dump of one cluster.

    Raises:
        UnreachableError: it is the embedded lab, and that does not run.
    """
    if cluster.embedded:
        try:
            lab = Lab.attach(settings.lab.directory)
        except LabError as error:
            raise UnreachableError(f"cluster {cluster.name}: {error}") from error
        if not lab.alive():
            raise UnreachableError(f"cluster {cluster.name}: the embedded lab does not run; see canary up")
        cluster = cluster.at(lab.bootstrap)
    topics = list(dict.fromkeys(cluster.topic_of(mode) for mode in cluster.modes.enabled())) or [cluster.topic.name]
    return Wanted(cluster.name, admin_config(cluster), topics, installation, levels)
