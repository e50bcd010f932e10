"""The inbox of one client: which cluster this very client has met stands before the facts that it gives.

A client stays with the cluster that it meets, wherever the address leads by now, and a new client meets what the
address leads to. So the cluster's id is asked of the client whose facts they are, and of no other one. It costs no
request: brokers say it with all metadata, for which librdkafka asks on every new connection before anything else.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from confluent_kafka import KafkaException

from canary.facts import ClusterMet, Facts, Reported
from canary.threads.ports import Clock, Inbox


class ClientInbox:
    """Hands the facts of one client on; a ClusterMet comes before them when the client was told another cluster's id.

    What a part reports that judges by itself says in which cluster it was found (``Reported.cluster_id``).

    The id is looked at after the facts were seen. So nothing that was seen in another cluster is judged before it is
    known that the client is there.

    It is no Inbox, and nothing that a client calls back may be given it: confluent-kafka keeps one state of a call for
    each client and thread, and a question within a callback ends that of the call around it, so that the next callback
    aborts the process. What callbacks say goes ``beside`` it, or waits until the call is over.

    Args:
        client: its name, as ClientError has it.
        cluster_id: returns the id that the client was told last, None while it was told none.
    """

    def __init__(self, inbox: Inbox, clock: Clock, client: str, cluster_id: Callable[[], str | None]) -> None:
        self.beside = inbox
        self._clock = clock
        self._client = client
        self._cluster_id = cluster_id
        self._met: str | None = None

    def tell(self, facts: Facts, /) -> None:
        """Take the facts of the client, in this order and with nothing in between; none to say only where it is."""
        met = self._cluster_id()
        if met is not None and met != self._met:
            self._met = met
            facts = [ClusterMet(self._clock.now_ns(), self._client, met), *facts]
        if met is not None and any(isinstance(one, Reported) for one in facts):
            facts = [replace(one, cluster_id=met) if isinstance(one, Reported) else one for one in facts]
        if facts:
            self.beside.put(facts)


def cluster_of(client: Any) -> str | None:
    """Return the cluster's id that brokers told a client of confluent-kafka last; None: none yet, or no client."""
    if client is None:
        return None
    try:
        return str(client.cluster_id(0))
    except (KafkaException, RuntimeError):  # it has no metadata yet; or it is closed
        return None
