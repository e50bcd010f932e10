"""The identities of this installation, its clusters and its producers (ARCHITECTURE decisions 1, 2 and 7)."""

from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import Connection, select, update

from canary.threads import system
from storage.store.database import Repository
from storage.store.errors import StoreError
from storage.store.models import CLUSTERS, GENERATIONS, INSTALLATION, PRODUCERS
from storage.store.rows import insert_missing, insert_or


class Producer(NamedTuple):
    """A producer: ``producer_id`` belongs to this start alone; ``first``, of the first start, goes into names."""

    first: int
    producer_id: int


class Identities(Repository):
    """Names, cluster ids, producer ids and generations."""

    def installation(self, known: str | None = None) -> str:
        """Return this installation's name (32 hex), minted at the first call.

        ``known`` is the name in a ledger: a store without producers (a new one, or one that lost its data) adopts it.
        """
        with self._database.writing() as connection:
            insert_missing(connection, INSTALLATION, id=1, name=known or system.token_hex(16))
            if known is not None:
                unused = ~select(PRODUCERS.c.producer_id).exists()
                connection.execute(update(INSTALLATION).where(INSTALLATION.c.id == 1, unused).values(name=known))
            return str(connection.scalar(select(INSTALLATION.c.name).where(INSTALLATION.c.id == 1)))

    def remember_cluster(self, name: str, cluster_id: str) -> str:
        """Return the cluster.id first seen behind ``name``; that is ``cluster_id`` at the first call."""
        with self._database.writing() as connection:
            insert_missing(connection, CLUSTERS, name=name, cluster_id=cluster_id)
            return str(connection.scalar(select(CLUSTERS.c.cluster_id).where(CLUSTERS.c.name == name)))

    def cluster_id(self, name: str) -> str | None:
        """Return the cluster.id first seen behind ``name``; None: none was."""
        with self._database.reading() as connection:
            found = connection.scalar(select(CLUSTERS.c.cluster_id).where(CLUSTERS.c.name == name))
        return None if found is None else str(found)

    def producer(self, cluster: str, runner: str, topic: str, mode: str, known: int | None = None) -> Producer:
        """Begin a producer of (cluster, runner, topic, mode): 63 random bits at each call.

        Therefore two starts never write the same identity, even if a store or a ledger was restored, wiped or cloned.
        The first id is kept; ``known`` is the first id in the ledger: a store that lost its data adopts it.
        """
        minted = system.random_bits(63)
        who = {"cluster": cluster, "runner": runner, "topic": topic, "mode": mode}
        with self._database.writing() as connection:
            insert_missing(connection, PRODUCERS, **who, producer_id=minted if known is None else known, generation=0)
            first = connection.execute(select(PRODUCERS.c.producer_id).filter_by(**who)).scalar_one()
        return Producer(first, minted)

    def next_generation(self, producer_id: int, at_least: int, cluster: str) -> int:
        """Take a producer's next generation, by compare-and-set: above the last one, and at least ``at_least``.

        Raises:
            StoreError: too many others take generations at the same time, or the database does not answer.
        """
        with self._database.writing() as connection:
            for _ in range(100):
                last = _generation(connection, producer_id)
                following = at_least if last is None else max(last + 1, at_least)
                row = insert_or(connection, GENERATIONS).values(
                    producer_id=producer_id, cluster=cluster, generation=following
                )
                taken = row.on_conflict_do_update(
                    index_elements=["producer_id"],
                    set_={"generation": following},
                    where=GENERATIONS.c.generation == last,
                ).returning(GENERATIONS.c.generation)
                if connection.execute(taken).one_or_none() is not None:
                    return following
        raise StoreError(f"no generation of producer {producer_id} could be taken: too many others do at once")

    def register(self, cluster: str, taken: Mapping[int, int]) -> None:
        """Let the store know generations that were taken from it, by producer: one that was put back may lack them."""
        query = select(GENERATIONS).where(GENERATIONS.c.producer_id.in_(taken))
        with self._database.reading() as connection:
            known = {row.producer_id: row.generation for row in connection.execute(query)}
        lacking = {producer_id: one for producer_id, one in taken.items() if known.get(producer_id, -1) < one}
        if not lacking:
            return
        with self._database.writing() as connection:
            for producer_id, generation in lacking.items():
                row = insert_or(connection, GENERATIONS).values(
                    producer_id=producer_id, cluster=cluster, generation=generation
                )
                connection.execute(
                    row.on_conflict_do_update(
                        index_elements=["producer_id"],
                        set_={"generation": generation},
                        where=GENERATIONS.c.generation < generation,
                    )
                )

    def generations(self, cluster: str) -> dict[int, int]:
        """Return the highest generation of every producer that ever wrote to ``cluster``."""
        query = select(GENERATIONS.c.producer_id, GENERATIONS.c.generation).where(GENERATIONS.c.cluster == cluster)
        with self._database.reading() as connection:
            return {row.producer_id: row.generation for row in connection.execute(query)}

    def generation(self, producer_id: int) -> int | None:
        """Return the highest generation of a producer; None if the store does not know it."""
        with self._database.reading() as connection:
            return _generation(connection, producer_id)


def _generation(connection: Connection, producer_id: int) -> int | None:
    query = select(GENERATIONS.c.generation).where(GENERATIONS.c.producer_id == producer_id)
    found: int | None = connection.scalar(query)
    return found
