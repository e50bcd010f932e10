"""The last view of each runner: what it knows of its cluster, stored about once a second."""

from functools import partial

from sqlalchemy import select

from storage.store.database import Repository
from storage.store.models import VIEWS
from storage.store.rows import insert_or, value_of
from storage.store.values import View

_view = partial(value_of, View)


class Views(Repository):
    """The last view of each (cluster, runner)."""

    def save(self, cluster: str, runner: str, at_ns: int, view: bytes) -> None:
        """Replace the view that ``runner`` has of ``cluster``."""
        with self._database.writing() as connection:
            insert = insert_or(connection, VIEWS).values(cluster=cluster, runner=runner, at_ns=at_ns, view=view)
            connection.execute(
                insert.on_conflict_do_update(index_elements=["cluster", "runner"], set_={"at_ns": at_ns, "view": view})
            )

    def saved_ns(self, cluster: str, runner: str) -> int | None:
        """Return the time of the view that ``get`` returns, at a small part of its cost."""
        query = select(VIEWS.c.at_ns).where(VIEWS.c.cluster == cluster, VIEWS.c.runner == runner)
        return self._one(query, lambda row: int(row.at_ns))

    def get(self, cluster: str, runner: str) -> View | None:
        """Return the last view that ``runner`` stored of ``cluster``, or None."""
        query = select(VIEWS).where(VIEWS.c.cluster == cluster, VIEWS.c.runner == runner)
        return self._one(query, _view)

    def all(self) -> list[View]:
        """Return the last view of each (cluster, runner), in that order."""
        return self._all(select(VIEWS).order_by(VIEWS.c.cluster, VIEWS.c.runner), _view)
