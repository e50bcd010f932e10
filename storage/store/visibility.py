"""What a principal that may see some clusters only gets of the store: each statement is narrowed to them, or refused.

One rule for every table. A table with a column ``cluster`` gives the rows of these clusters and takes no others. Where
the column may be NULL, which means all clusters, it gives those rows too, but neither changes nor takes them. Every
other table is of all clusters and is refused, except that the record of actions takes rows from everybody.

Example: ``SELECT … FROM incidents WHERE state = 'open'`` becomes ``… AND cluster IN ('prod-eu')``, before it is paged.
"""

from collections.abc import Iterator

from sqlalchemy import ColumnElement, Delete, Executable, Insert, Join, Select, Table, TextClause, Update, or_
from sqlalchemy.sql.selectable import FromClause

from storage.store.errors import AllClustersError
from storage.store.models import ACTIONS


def narrowed(statement: Executable, clusters: frozenset[str]) -> Executable:
    """Return ``statement`` for a principal that may see ``clusters``.

    Raises:
        AllClustersError: it touches rows that are not of these clusters alone.
    """
    match statement:
        case Select():
            tables = [table for source in statement.get_final_froms() for table in _tables(source)]
            if tables and all("cluster" in table.c for table in tables):
                return statement.where(*(_seen(table, clusters) for table in tables))
        case Update() | Delete():
            if "cluster" in statement.table.c:
                return statement.where(statement.table.c.cluster.in_(clusters))
        case Insert():
            if statement.table is ACTIONS or statement.compile().params.get("cluster") in clusters:
                return statement
        case TextClause():  # locks, and whether the database answers: repositories spell no table
            return statement
    raise AllClustersError


def _tables(source: FromClause) -> Iterator[Table]:
    """Yield the tables of a FROM; a subquery is none, and is narrowed by what it is joined with."""
    if isinstance(source, Join):
        yield from _tables(source.left)
        yield from _tables(source.right)
    elif isinstance(source, Table):
        yield source


def _seen(table: Table, clusters: frozenset[str]) -> ColumnElement[bool]:
    own = table.c.cluster.in_(clusters)
    return or_(own, table.c.cluster.is_(None)) if table.c.cluster.nullable else own
