"""The admin client of a cluster, and the questions that must be answered before anything is probed."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import structlog
from confluent_kafka import KafkaException

from canary.anomalies.online.rules.wrong_cluster import another_cluster
from canary.anomalies.violation import reported
from canary.facts import WatchFailed
from canary.kafka import membership, opening
from canary.kafka.client_inbox import ClientInbox, cluster_of
from canary.kafka.opening import refusal_or_raise
from canary.kafka.quiet import ErrorReporter, calm, quiet_logger
from canary.kafka.responses import answer
from canary.kafka.topic_creation import TopicError
from canary.runner.context import ClusterContext
from canary.runner.supervision.credentials import CredentialFiles
from canary.settings import admin_config
from canary.settings.credentials import files_of
from canary.threads import system
from canary.threads.worker import in_background
from storage.store import StoreError

log = structlog.get_logger(__name__)

T = TypeVar("T")
_PATIENCE_S = 2.0


class NoAnswerError(Exception):
    """The cluster does not answer (yet); ``code`` is the name of the client's error."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class Connection:
    """Asks a cluster through one admin client, again and again until there is an answer.

    ``wrong_cluster`` says which cluster answers in place of the known one, None while none does.
    """

    def __init__(self, context: ClusterContext) -> None:
        self._admin: Any = None
        self._known: str | None = None
        """The known cluster's id, once it has answered."""
        self.wrong_cluster: str | None = None
        self._context = context
        self._lock = system.lock()
        self._waits: dict[str, str] = {}
        """By question that has no answer yet: why not."""
        sources = {origin.cluster for origin in context.cluster.replicated_from}
        read = [context.cluster, *(one for one in context.settings.clusters if one.name in sources)]
        self.credentials = CredentialFiles([path for cluster in read for path in files_of(cluster.kafka)])

    @property
    def admin(self) -> Any:
        """The client; a new one if it was closed.

        Raises:
            NoAnswerError: its credentials are refused at once, or it does not meet the known cluster.
        """
        with self._lock:  # topics are opened at the same time
            if self._admin is None:
                self._admin = self._in_known_cluster(self._new_admin())
            return self._admin

    def _in_known_cluster(self, admin: Any) -> Any:
        """Return a new client if it meets the known cluster: nothing is made or changed in another one.

        Raises:
            NoAnswerError: it does not.
        """
        met = self._known and cluster_id(admin, self._context.cluster.topic.name)
        if met != self._known:
            self._say_met(admin)
            raise NoAnswerError(f"the address leads to cluster {met}, not to the known one, {self._known}", "")
        return admin

    def _say_met(self, admin: Any) -> None:
        """Put into the inbox which cluster a client has met."""
        ClientInbox(self._context.inbox, self._context.clock, "admin", lambda: cluster_of(admin)).tell([])

    def rest(self) -> None:
        """Close the client, if there is one, until it is needed: one that waits wakes up several times a second."""
        if self._admin is None:
            return
        holder, self._admin = [self._admin], None
        in_background(holder.clear, "admin-closing")  # its end may wait for answers

    def ask(self, question: Callable[[], T], what: str) -> T | None:
        """Return the answer to ``question``; None when the runner is stopped before there is one."""
        stopping = self._context.stopping
        while not stopping.is_set():
            if (found := self.attempt(question, what)) is not None:
                return found
            stopping.wait(_PATIENCE_S)
            if self._admin is not None:
                self._admin.poll(0)  # for what the client reports on its own: refused credentials, say
                if self.credentials.changed():
                    self.renew()
        return None

    def attempt(self, question: Callable[[], T], what: str) -> T | None:
        """Return the answer to ``question``; None where there is none now, which becomes a fact."""
        context = self._context
        try:
            found = question()
        except (TopicError, StoreError, NoAnswerError) as error:
            reason = str(error)
            if self._waits.get(what) != reason:
                self._waits[what] = reason
                log.warning("waiting", cluster=context.cluster.name, what=what, reason=reason)
            if not isinstance(error, StoreError):
                code = f"{error.code}: " if error.code else ""
                context.inbox.put([WatchFailed(context.clock.now_ns(), 0, f"{what}: {code}{reason}")])
            return None
        self._waits.pop(what, None)
        return found

    def known_cluster(self) -> str | None:
        """Wait until the known cluster answers, and return its id; None when the runner is stopped before.

        Another cluster that answers in its place (the address moved) is a violation, and is neither written to nor
        read. Each question needs a new client: a client that has met a cluster stays with its brokers, wherever the
        address leads by now.
        """
        context = self._context
        remember = context.store.identities.remember_cluster
        while not context.stopping.is_set():
            self._admin = self.ask(self._new_admin, "admin client")
            found = self.ask(lambda: cluster_id(self.admin, context.cluster.topic.name), "cluster id")
            if found is None:
                return None
            known = self.ask(partial(remember, context.cluster.name, found), "store")
            if known is None:
                return None
            at_ns = context.clock.now_ns()
            violation = another_cluster(known, found, at_ns)
            if known == found:
                self._say_met(self._admin)
                self._known = found
                context.inbox.put(reported("connection", [], [violation]))  # a former process may have reported it
                self.wrong_cluster = None
                return found
            if self.wrong_cluster != violation.summary:
                self.wrong_cluster = violation.summary
                log.error("another_cluster", cluster=context.cluster.name, reason=violation.summary)
            context.inbox.put([*reported("connection", [violation]), WatchFailed(at_ns, 0, violation.summary)])
            context.stopping.wait(_PATIENCE_S)
        return None

    def renew(self) -> None:
        """Replace the admin client, if there is one; keep it while the new credentials are refused."""
        if self._admin is None:
            return
        try:
            self._admin = self._in_known_cluster(self._new_admin())
        except NoAnswerError as error:
            log.warning("admin_client_not_renewed", cluster=self._context.cluster.name, reason=str(error))

    def _new_admin(self) -> Any:
        """Return an admin client; the errors that it reports on its own become facts.

        Raises:
            NoAnswerError: its credentials are refused at once; that is a fact, too.
        """
        config = calm(admin_config(self._context.cluster), "admin")
        report = config["error_cb"] = ErrorReporter("admin", self._context.inbox, self._context.clock)
        try:
            return opening.admin(config, quiet_logger("admin"))
        except KafkaException as error:
            refusal = refusal_or_raise(error, report)
            raise NoAnswerError(f"no admin client: {refusal.str()}", refusal.name()) from error


def cluster_id(admin: Any, topic: str) -> str:
    """Return the cluster's own id; any topic of it is named in the question.

    Raises:
        NoAnswerError: the cluster does not answer.
    """
    try:
        told = answer(admin, membership.asked(admin, topic), until=system.monotonic() + 4.0)
    except KafkaException as error:
        reason = error.args[0]
        raise NoAnswerError(f"the cluster does not answer: {reason.str()}", reason.name()) from error
    return str(told.cluster_id)
