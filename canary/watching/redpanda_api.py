"""A client of Redpanda's admin API. Untested against a live Redpanda.

Written to its documented answers (https://docs.redpanda.com/api/doc/admin/, and the models in
src/v/redpanda/admin/api-doc/{broker,cluster}.json of redpanda-data/redpanda). An answer that is missing or of another
shape is "not available here", and the rest works.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, TypeVar
from urllib.parse import quote

import httpx

from canary.watching.vendor_api import Health, Member, Members, NotAvailableError, Placement, VendorApi

T = TypeVar("T")


class RedpandaAdmin(VendorApi):
    """Asks one admin address, like http://10.0.0.1:9644. Each question raises NotAvailableError without an answer.

    ``credentials`` are user name and password; ``transport`` is for tests.
    """

    name = "Redpanda"

    def __init__(
        self,
        url: str,
        credentials: tuple[str, str] | None = None,
        *,
        timeout_s: float = 3.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._client = httpx.Client(base_url=url, auth=credentials, timeout=timeout_s, transport=transport)
        self._newest = -1

    def __enter__(self) -> Self:
        """Return itself; leaving closes the connections."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self._client.close()

    def members(self) -> Members:
        """Return the brokers by GET /v1/cluster_view; by GET /v1/brokers where that does not exist (before 21.11.15).

        A list of brokers may be arbitrarily old (jepsen-redpanda 4.5); a view has a version, and one older than a view
        seen before is refused.
        """
        try:
            found = self._ask(
                "/v1/cluster_view", lambda view: Members(int(view["version"]), tuple(map(_member, view["brokers"])))
            )
        except NotAvailableError as error:
            if not isinstance(error.__cause__, httpx.HTTPStatusError):
                raise
            return self._ask("/v1/brokers", lambda brokers: Members(None, tuple(map(_member, brokers))))
        version = found.version or 0
        if version < self._newest:
            raise NotAvailableError(f"GET /v1/cluster_view: version {version}, and {self._newest} was seen before")
        self._newest = version
        return found

    def partitions(self, namespace: str, topic: str) -> Sequence[Placement]:
        """Return where a topic's partitions are, by GET /v1/cluster/partitions/{namespace}/{topic}."""
        path = f"/v1/cluster/partitions/{quote(namespace, safe='')}/{quote(topic, safe='')}"
        return self._ask(path, lambda answer: sorted(map(_placement, answer), key=lambda one: one.partition))

    def health(self) -> Health:
        """Return the cluster's health, by GET /v1/cluster/health_overview."""
        return self._ask(
            "/v1/cluster/health_overview",
            lambda answer: Health(
                bool(answer["is_healthy"]),
                tuple(int(one) for one in answer.get("nodes_down", ())),
                tuple(str(one) for one in answer.get("leaderless_partitions", ())),
                tuple(str(one) for one in answer.get("under_replicated_partitions", ())),
            ),
        )

    def settings(self) -> Mapping[str, object]:
        """Return the cluster's configuration, defaults included, by GET /v1/cluster_config."""
        answer = self._get("/v1/cluster_config")
        if not isinstance(answer, dict):
            raise NotAvailableError("GET /v1/cluster_config answers in another shape")
        return answer

    def replicas_left(self, broker: int) -> int:
        """Return how many replicas a broker still holds, by GET /v1/brokers/{id}/decommission."""
        path = f"/v1/brokers/{broker}/decommission"
        return self._ask(path, lambda answer: 0 if answer["finished"] else int(answer["replicas_left"]))

    def _ask(self, path: str, read: Callable[[Any], T]) -> T:
        """Return what ``read`` makes of an answer."""
        answer = self._get(path)
        try:
            return read(answer)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise NotAvailableError(f"GET {path} answers in another shape: {error!r}") from error

    def _get(self, path: str) -> Any:
        try:
            answer = self._client.get(path)
            answer.raise_for_status()
            return answer.json()
        except (httpx.HTTPError, ValueError) as error:
            raise NotAvailableError(f"GET {path}: {error}") from error


def _member(one: Any) -> Member:
    return Member(
        int(one["node_id"]),
        one.get("rack") or None,
        one.get("version"),
        str(one.get("membership_status", "active")),
        one.get("is_alive"),
    )


def _placement(one: Any) -> Placement:
    leader = one.get("leader_id")
    return Placement(
        int(one["partition_id"]),
        int(leader) if leader is not None and int(leader) >= 0 else None,
        tuple(int(replica["node_id"]) for replica in one["replicas"]),
        bool(one.get("disabled", False)),
    )
