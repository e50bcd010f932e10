"""When a name is gone, by answers that list what there is."""

from collections.abc import Collection
from collections.abc import Set as AbstractSet


class Absences:
    """Names that are gone: two answers in a row did not have them, since one broker may not know of them yet.

    >>> absences = Absences()
    >>> absences.gone({"a", "b"}, ["b"]), absences.gone({"a", "b"}, ["b"])
    (set(), {'a'})
    """

    def __init__(self) -> None:
        self._once: AbstractSet[str] = frozenset()

    def gone(self, known: AbstractSet[str], present: Collection[str]) -> set[str]:
        """Return which of the names that were ``known`` before an answer are gone; ``present`` are those it has."""
        absent = known - set(present)
        gone = absent & self._once
        self._once = absent - gone
        return set(gone)
