"""Who asks the cluster about itself: admin client, watcher, auditor; each is made anew with new credentials."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from canary.client.answers import answer
from canary.client.opening import opened, refusal_or_raise
from canary.client.quiet import ErrorReporter, calm, quiet_logger
from canary.runner import auditing
from canary.settings import admin_config
from canary.watching.audit import Auditor
from canary.watching.sampler import Watcher
from canary.watching.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Iterable

    from canary.client.ports import Clock, Inbox
    from canary.settings import ClusterSettings, Settings


class NoAnswerError(Exception):
    """The cluster does not answer (yet); ``code`` is the name of the client's error."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


def new_admin(cluster: ClusterSettings, inbox: Inbox, clock: Clock) -> AdminClient:
    """Return an admin client; what it reports on its own becomes facts.

    Raises:
        NoAnswerError: its credentials are refused at once; that is a fact, too.
    """
    config = calm(admin_config(cluster), "admin")
    report = config["error_cb"] = ErrorReporter("admin", inbox, clock)
    try:
        return opened(lambda: AdminClient(config, logger=quiet_logger("admin")))
    except KafkaException as error:
        said = refusal_or_raise(error, report)
        raise NoAnswerError(f"no admin client: {said.str()}", said.name()) from error


def new_watcher(
    settings: Settings, cluster: ClusterSettings, topics: Iterable[str], inbox: Inbox, clock: Clock, rotations: int
) -> Watcher:
    """Return the watcher of ``topics``, the one after ``rotations`` others of this process; not started."""
    return Watcher(
        admin_config(cluster),
        list(topics),
        inbox,
        clock,
        settings.runner.watch_interval,
        first_sample=rotations << 32,  # above those of its predecessors
        selection=Selection(cluster.watch.topics, cluster.watch.offsets),
    )


def new_auditor(settings: Settings, cluster: ClusterSettings, clock: Clock) -> Auditor:
    """Return the auditor, not started."""
    return Auditor(
        admin_config(cluster),
        lambda admin: auditing.collected(settings, cluster, admin),
        clock,
        cluster.watch.audit_interval,
    )


def cluster_id(admin: Any) -> str:
    """Return the cluster's own id.

    Raises:
        NoAnswerError: it does not tell.
    """
    try:
        described = answer(
            admin, lambda most_s: admin.describe_cluster(request_timeout=most_s), until=time.monotonic() + 4.0
        )
    except KafkaException as error:
        said = error.args[0]
        raise NoAnswerError(f"the cluster does not answer: {said.str()}", said.name()) from error
    return str(described.cluster_id)
