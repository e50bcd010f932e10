"""The thread that audits a cluster now and then."""

from collections.abc import Callable, Mapping
from typing import Any

import structlog
from confluent_kafka import KafkaException

from canary.kafka import opening
from canary.kafka.opening import opened_in_time
from canary.kafka.quiet import calm, quiet_logger
from canary.kafka.responses import text_of
from canary.metrics.findings import Audit
from canary.threads.ports import Clock
from canary.threads.worker import Worker, in_background
from canary.watching.audit.checks import check
from canary.watching.audit.cluster_config import ClusterConfig
from canary.watching.audit.collection import UnreachableError

log = structlog.get_logger(__name__)

_RETRY_S = 10.0


class Auditor(Worker):
    """Audits until stopped; an audit that fails is tried again soon, and the last one is shown meanwhile.

    ``collect`` is given an AdminClient (canary.watching.audit.collection.collect).
    """

    def __init__(
        self, config: Mapping[str, object], collect: Callable[[Any], ClusterConfig], clock: Clock, interval_s: float
    ) -> None:
        super().__init__("auditor")
        self._config = dict(config)
        self._collect = collect
        self._clock = clock
        self._interval_s = interval_s
        self.latest: tuple[int, Audit] | None = None
        """When (ns) the last audit was, and its outcome; None before the first one."""

    def run(self) -> None:
        """Audit until stopped, each time with a client of its own: one that waits wakes up several times a second."""
        config, going = calm(self._config, "auditor"), True
        while going:
            client = [
                opened_in_time(
                    lambda: opening.admin(config, quiet_logger("auditor")),
                    lambda error: log.info("audit_put_off", reason=text_of(error)),
                    self.stopping,
                )
            ]
            if client[0] is None:
                return
            try:
                done = check(self._collect(client[0]))
            except (UnreachableError, KafkaException) as error:
                log.info("audit_put_off", reason=str(error))
                pause_s = min(_RETRY_S, self._interval_s)
            else:
                self._tell(done)
                pause_s = self._interval_s
            in_background(client.clear, "auditor-closing")  # its end may wait for answers
            going = self.wait(pause_s)

    def _tell(self, done: Audit) -> None:
        before, self.latest = self.latest, (self._clock.now_ns(), done)
        if before is None or before[1].findings != done.findings:
            worst = done.findings[0].check if done.findings else None
            log.info("audited", findings=len(done.findings), worst=worst)
