"""Who this installation, its clusters and its producers are (ARCHITECTURE decisions 1, 2 and 7)."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import select, update

from storage.store.errors import StoreError
from storage.store.models import ClusterRow, GenerationRow, InstallationRow, ProducerRow
from storage.store.upserts import insert_or

if TYPE_CHECKING:
    from sqlalchemy import Connection


class Producer(NamedTuple):
    """Who writes: ``producer_id`` in this start alone; ``first`` had the first start, and is what names go by."""

    first: int
    producer_id: int


def installation(connection: Connection, known: str | None) -> str:
    """Return the installation's name (32 hex), minted at the first call ever.

    ``known`` is the one that a ledger knows: a store that is new, or lost its memory, takes it over. One that has
    producers already keeps its own.
    """
    insert = insert_or(connection, InstallationRow).values(id=1, name=known or secrets.token_hex(16))
    connection.execute(insert.on_conflict_do_nothing(index_elements=["id"]))
    if known is not None:
        unused = ~select(ProducerRow.producer_id).exists()
        connection.execute(update(InstallationRow).where(InstallationRow.id == 1, unused).values(name=known))
    return connection.execute(select(InstallationRow.name).where(InstallationRow.id == 1)).scalar_one()


def remember_cluster(connection: Connection, name: str, cluster_id: str) -> str:
    """Return the cluster.id that was first found behind ``name``; ``cluster_id`` if this is the first time."""
    insert = insert_or(connection, ClusterRow).values(name=name, cluster_id=cluster_id)
    connection.execute(insert.on_conflict_do_nothing(index_elements=["name"]))
    return connection.execute(select(ClusterRow.cluster_id).where(ClusterRow.name == name)).scalar_one()


def producer(connection: Connection, who: tuple[str, str, str, str], known: int | None) -> Producer:
    """Begin a producer of (cluster, runner, topic, mode), under an id that nobody ever had (Store.producer)."""
    cluster, runner, topic, mode = who
    minted = secrets.randbits(63)
    insert = insert_or(connection, ProducerRow).values(
        cluster=cluster,
        runner=runner,
        topic=topic,
        mode=mode,
        producer_id=minted if known is None else known,
        generation=0,
    )
    connection.execute(insert.on_conflict_do_nothing(index_elements=["cluster", "runner", "topic", "mode"]))
    first = connection.execute(
        select(ProducerRow.producer_id).where(
            ProducerRow.cluster == cluster,
            ProducerRow.runner == runner,
            ProducerRow.topic == topic,
            ProducerRow.mode == mode,
        )
    ).scalar_one()
    return Producer(first, minted)


def generation(connection: Connection, producer_id: int) -> int | None:
    """Return the last generation of a producer, None if the store does not know it."""
    query = select(GenerationRow.generation).where(GenerationRow.producer_id == producer_id)
    return connection.execute(query).scalar_one_or_none()


def generations(connection: Connection, cluster: str) -> dict[int, int]:
    """Return the last generation of every producer of a cluster."""
    query = select(GenerationRow.producer_id, GenerationRow.generation).where(GenerationRow.cluster == cluster)
    return {row.producer_id: row.generation for row in connection.execute(query)}


def next_generation(connection: Connection, producer_id: int, at_least: int, cluster: str) -> int:
    """Take the next generation, by compare-and-set: above every one taken before, and not below ``at_least``.

    Raises:
        StoreError: too many others take generations at this moment.
    """
    for _ in range(100):
        last = generation(connection, producer_id)
        following = at_least if last is None else max(last + 1, at_least)
        row = insert_or(connection, GenerationRow).values(
            producer_id=producer_id, cluster=cluster, generation=following
        )
        taken = row.on_conflict_do_update(
            index_elements=["producer_id"], set_={"generation": following}, where=GenerationRow.generation == last
        ).returning(GenerationRow.generation)
        if connection.execute(taken).one_or_none() is not None:
            return following
    raise StoreError(f"no generation of producer {producer_id} could be taken: too many others do at once")
