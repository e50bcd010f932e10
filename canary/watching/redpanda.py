"""Redpanda's admin API: what the Kafka protocol does not tell. Untested against a live Redpanda.

Written to its documented answers (GET /v1/brokers, /v1/cluster/health_overview, /v1/cluster_config). An answer that is
missing or of another shape is "not available here", and the rest works.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import httpx

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Member:
    """One broker as the admin API tells it. ``membership`` is "active" or "draining" (being decommissioned)."""

    id: int
    rack: str | None
    version: str | None
    membership: str
    alive: bool | None


@dataclass(frozen=True, slots=True)
class Health:
    """Of the cluster as a whole; partitions as "namespace/topic/partition"."""

    healthy: bool
    down: tuple[int, ...]
    leaderless: tuple[str, ...]
    under_replicated: tuple[str, ...]


class NotAvailableError(Exception):
    """The admin API does not tell it: it is away, refuses, or answers in another shape."""


class RedpandaAdmin:
    """Asks one admin address.

    Args:
        url: like http://10.0.0.1:9644.
        credentials: user name and password, or None.
        timeout_s: how long an answer is waited for.
        transport: for tests.
    """

    def __init__(
        self,
        url: str,
        credentials: tuple[str, str] | None = None,
        *,
        timeout_s: float = 3.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._client = httpx.Client(base_url=url, auth=credentials, timeout=timeout_s, transport=transport)

    def __enter__(self) -> Self:
        """Return itself; leaving closes the connections."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connections."""
        self._client.close()

    def members(self) -> list[Member]:
        """Return the brokers; those that are being decommissioned are "draining".

        Raises:
            NotAvailableError: no such answer.
        """
        answer = self._get("/v1/brokers")
        try:
            return [
                Member(
                    int(one["node_id"]),
                    one.get("rack") or None,
                    one.get("version"),
                    str(one.get("membership_status", "active")),
                    one.get("is_alive"),
                )
                for one in answer
            ]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise NotAvailableError(f"GET /v1/brokers answers in another shape: {error!r}") from error

    def health(self) -> Health:
        """Return the cluster's health.

        Raises:
            NotAvailableError: no such answer.
        """
        answer = self._get("/v1/cluster/health_overview")
        try:
            return Health(
                bool(answer["is_healthy"]),
                tuple(int(one) for one in answer.get("nodes_down", ())),
                tuple(str(one) for one in answer.get("leaderless_partitions", ())),
                tuple(str(one) for one in answer.get("under_replicated_partitions", ())),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise NotAvailableError(f"GET /v1/cluster/health_overview answers in another shape: {error!r}") from error

    def settings(self) -> Mapping[str, object]:
        """Return the cluster's configuration, defaults included.

        Raises:
            NotAvailableError: no such answer.
        """
        answer = self._get("/v1/cluster_config")
        if not isinstance(answer, dict):
            raise NotAvailableError("GET /v1/cluster_config answers in another shape")
        return answer

    def _get(self, path: str) -> Any:
        try:
            answer = self._client.get(path)
            answer.raise_for_status()
            return answer.json()
        except (httpx.HTTPError, ValueError) as error:
            raise NotAvailableError(f"GET {path}: {error}") from error
