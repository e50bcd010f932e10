"""What to dump, from the settings."""

from collections.abc import Sequence
from typing import Any

from canary.lab import Lab, LabError
from canary.settings import Settings, admin_config
from canary.settings.clusters import ClusterSettings
from spark_reconcile.dump.dumping import Wanted
from spark_reconcile.errors import BadInputError, UnreachableError
from spark_reconcile.tables.columns import ISOLATIONS
from storage.store import Store
from storage.store.repositories.identities import Identities


def wanted(
    settings: Settings, clusters: Sequence[str] | None = None, levels: Sequence[str] | None = None
) -> list[Wanted]:
    """Return what to dump of all clusters, or of some.

    Raises:
        BadInputError: a cluster or a level is unknown.
        UnreachableError: the embedded lab does not run.
        StoreError: the store, which has the installation's id, does not answer.
    """
    some = chosen(settings, clusters)
    for level in levels or ():
        if level not in ISOLATIONS:
            raise BadInputError("--isolation", f"{level} is no isolation level", " or ".join(ISOLATIONS))
    with Store.connect(settings.store.url.get_secret_value(), timeout=settings.store.timeout) as store:
        store.upgrade()
        return [target(settings, cluster, store.identities, levels or ISOLATIONS) for cluster in some]


def chosen(settings: Settings, clusters: Sequence[str] | None) -> list[ClusterSettings]:
    """Return the clusters of these names, all if none is named.

    Raises:
        BadInputError: one is unknown.
    """
    known = {cluster.name: cluster for cluster in settings.clusters}
    for name in clusters or ():
        if name not in known:
            raise BadInputError("--cluster", f"{name} is not in the settings", f"they have {', '.join(known)}")
    return [known[name] for name in clusters] if clusters else list(settings.clusters)


def target(
    settings: Settings, cluster: ClusterSettings, identities: Identities, levels: Sequence[str] = ISOLATIONS
) -> Wanted:
    """Return what to dump of one cluster; the store's ``identities`` know whose records are ours.

    Raises:
        UnreachableError: the cluster is the embedded lab, which does not run.
    """
    topics = list(dict.fromkeys(cluster.topic_of(mode) for mode in cluster.modes.enabled())) or [cluster.topic.name]
    known = identities.cluster_id(cluster.name)
    return Wanted(cluster.name, reachable(settings, cluster), topics, identities.installation(), levels, known)


def reachable(settings: Settings, cluster: ClusterSettings) -> dict[str, Any]:
    """Return the librdkafka properties that reach a cluster, also the embedded lab.

    Raises:
        UnreachableError: it is the embedded lab, which does not run.
    """
    if cluster.embedded:
        try:
            lab = Lab.attach(settings.lab.directory)
        except LabError as error:
            raise UnreachableError(f"cluster {cluster.name}: {error}") from error
        if not lab.alive():
            raise UnreachableError(f"cluster {cluster.name}: the embedded lab does not run; see canary up")
        cluster = cluster.at(lab.bootstrap)
    return admin_config(cluster)
