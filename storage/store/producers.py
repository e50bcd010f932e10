"""Who this installation, its clusters and its producers are (ARCHITECTURE decisions 1, 2 and 7)."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from sqlalchemy import select, update

from storage.store.errors import StoreError
from storage.store.models import ClusterRow, InstallationRow, ProducerRow
from storage.store.upserts import insert_or

if TYPE_CHECKING:
    from sqlalchemy import Connection


def installation(connection: Connection) -> str:
    """Return the installation's name (32 hex), minted at the first call ever."""
    insert = insert_or(connection, InstallationRow).values(id=1, name=secrets.token_hex(16))
    connection.execute(insert.on_conflict_do_nothing(index_elements=["id"]))
    return connection.execute(select(InstallationRow.name).where(InstallationRow.id == 1)).scalar_one()


def remember_cluster(connection: Connection, name: str, cluster_id: str) -> str:
    """Return the cluster.id that was first found behind ``name``; ``cluster_id`` if this is the first time."""
    insert = insert_or(connection, ClusterRow).values(name=name, cluster_id=cluster_id)
    connection.execute(insert.on_conflict_do_nothing(index_elements=["name"]))
    return connection.execute(select(ClusterRow.cluster_id).where(ClusterRow.name == name)).scalar_one()


def producer(connection: Connection, who: tuple[str, str, str, str], known: int | None) -> int:
    """Return the producer id of (cluster, runner, topic, mode); at first ``known`` (the ledger's) or a new one."""
    cluster, runner, topic, mode = who
    minted = known if known is not None else secrets.randbits(63)
    insert = insert_or(connection, ProducerRow).values(
        cluster=cluster, runner=runner, topic=topic, mode=mode, producer_id=minted, generation=0
    )
    connection.execute(insert.on_conflict_do_nothing(index_elements=["cluster", "runner", "topic", "mode"]))
    return connection.execute(
        select(ProducerRow.producer_id).where(
            ProducerRow.cluster == cluster,
            ProducerRow.runner == runner,
            ProducerRow.topic == topic,
            ProducerRow.mode == mode,
        )
    ).scalar_one()


def generation(connection: Connection, producer_id: int) -> int | None:
    """Return the last generation of a producer (0: none was taken yet), None if the store does not know it."""
    query = select(ProducerRow.generation).where(ProducerRow.producer_id == producer_id)
    return connection.execute(query).scalar_one_or_none()


def next_generation(connection: Connection, producer_id: int, at_least: int) -> int:
    """Take the next generation, by compare-and-set: above every one taken before, and not below ``at_least``.

    Raises:
        StoreError: the store does not know the producer, or too many others take generations at this moment.
    """
    for _ in range(100):
        last = generation(connection, producer_id)
        if last is None:
            raise StoreError(f"the store does not know producer {producer_id}; ask it for the producer first")
        following = max(last + 1, at_least)
        taken = connection.execute(
            update(ProducerRow)
            .where(ProducerRow.producer_id == producer_id, ProducerRow.generation == last)
            .values(generation=following)
        )
        if taken.rowcount == 1:
            return following
    raise StoreError(f"no generation of producer {producer_id} could be taken: too many others do at once")
