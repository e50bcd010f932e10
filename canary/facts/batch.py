"""Many facts of one kind in columns: what is sent, acknowledged and read comes by the thousand.

A :class:`Batch` is a sequence of facts that makes each of them only when it is asked for. Whoever handles many at once
takes their ``numbers``: an int64 array for each field, NULL where the field is None. Texts are the same in all of them.

This module does not load NumPy: processes import it that never see a batch.
"""

import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import reduce
from itertools import pairwise, repeat, starmap
from operator import attrgetter, itemgetter, or_
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeAlias, TypeVar, overload

from canary.facts.consuming import Polled
from canary.facts.producing import Acked, Sent

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

F = TypeVar("F", Sent, Acked, Polled)
Numbers: TypeAlias = "NDArray[np.int64]"

NULL: Final = -(2**63)
"""None, in an array."""
FEW: Final = 24
"""Fewer facts than these are not worth a batch."""


def getter(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function fact -> tuple of these of its fields."""
    if len(names) == 1:  # attrgetter of one name gives the bare value
        single = attrgetter(names[0])
        return lambda fact: (single(fact),)
    return attrgetter(*names)


_NAMES: Final = {kind: tuple(field.name for field in fields(kind)) for kind in (Sent, Acked, Polled)}
TEXTS: Final = {
    kind: tuple(name for name in names if typing.get_type_hints(kind)[name] is str) for kind, names in _NAMES.items()
}
"""By kind that comes in batches, in the order in which they come: the fields that hold text."""
NUMBERS: Final = {kind: tuple(name for name in names if name not in TEXTS[kind]) for kind, names in _NAMES.items()}
"""By kind: the fields that hold numbers."""
_STEPS: Final = {
    Sent: (("partition", 0), ("producer_id", 0), ("generation", 0), ("transaction_id", 0), ("sequence", 1)),
    Acked: (("partition", 0), ("producer_id", 0), ("generation", 0), ("sequence", 1), ("offset", 1)),
    Polled: (
        *(("partition", 0), ("producer_id", 0), ("generation", 0), ("transaction_id", 0), ("leader_epoch", 0)),
        *(("sequence", 1), ("offset", 1)),
    ),
}
"""By kind: what the facts of one run have in common beside their texts, and what rises by one from each to the next."""
_COMMON: Final = {
    kind: getter([*texts, *(name for name, step in _STEPS[kind] if not step)]) for kind, texts in TEXTS.items()
}
"""By kind: what the facts of one run have in common, of one fact."""
_TO_FIELDS: Final = {
    kind: itemgetter(*((*TEXTS[kind], *NUMBERS[kind]).index(name) for name in names)) for kind, names in _NAMES.items()
}
"""By kind: texts and numbers to the order of the fields."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch(Sequence[F], Generic[F]):
    """Facts of one ``kind``: ``texts`` by field, and the rows [start, stop) of ``columns``, by field.

    ``first`` is the first of them, if it was made already.
    """

    kind: type[F]
    texts: Mapping[str, str]
    columns: Mapping[str, Numbers]
    start: int
    stop: int
    first: F | None = None

    @classmethod
    def of(cls, kind: type[F], texts: Mapping[str, str], columns: Mapping[str, Numbers]) -> Self:
        """Return facts of these columns, which have a row for each of them."""
        return cls(kind, texts, columns, 0, len(next(iter(columns.values()))))

    def __len__(self) -> int:
        """Return how many facts they are."""
        return self.stop - self.start

    @overload
    def __getitem__(self, index: int) -> F: ...

    @overload
    def __getitem__(self, index: slice) -> "Batch[F]": ...

    def __getitem__(self, index: int | slice) -> "F | Batch[F]":
        """Return one fact, or those of a slice without a step."""
        if isinstance(index, slice):
            rows = range(self.start, self.stop)[index]
            return Batch(self.kind, self.texts, self.columns, rows.start, max(rows.start, rows.stop))
        if index == 0 and self.first is not None:
            return self.first
        return self._made(range(self.start, self.stop)[index : index + 1 or None])[0]

    def __iter__(self) -> Iterator[F]:
        """Yield the facts."""
        return iter(self._made(slice(self.start, self.stop)))

    def _made(self, rows: Any) -> list[F]:
        """Return the facts of some rows."""
        texts = [repeat(self.texts[name]) for name in TEXTS[self.kind]]
        numbers = [_listed(self.columns[name][rows]) for name in NUMBERS[self.kind]]
        return list(starmap(self.kind, map(_TO_FIELDS[self.kind], zip(*texts, *numbers, strict=False))))

    def numbers(self, name: str) -> Numbers:
        """Return the values of a field that holds numbers, NULL for None."""
        return self.columns[name][self.start : self.stop]

    def by_partition(self) -> "Batch[F]":
        """Return the same facts, partition after partition; those of one partition keep their order."""
        partitions = self.numbers("partition")
        if (partitions[1:] >= partitions[:-1]).all():
            return self
        order = partitions.argsort(kind="stable") + self.start
        return Batch.of(self.kind, self.texts, {name: column[order] for name, column in self.columns.items()})

    def runs(self) -> "Iterator[Batch[F]]":
        """Yield the facts in runs: of one stream and reader, with sequence and offset rising by one."""
        known = (self.numbers(name) for name, _ in _STEPS[self.kind])
        breaks: list[Any] = [
            values[1:] - values[:-1] != step for values, (_, step) in zip(known, _STEPS[self.kind], strict=True)
        ]
        starts: list[int] = [self.start, *(reduce(or_, breaks).nonzero()[0] + self.start + 1).tolist()]
        for first, (start, stop) in zip(self._made(starts), pairwise([*starts, self.stop]), strict=True):
            yield Batch(self.kind, self.texts, self.columns, start, stop, first)


def _listed(values: Numbers) -> list[int | None]:
    """Return the values, None for NULL."""
    listed: list[int | None] = values.tolist()
    return [None if x == NULL else x for x in listed] if NULL in listed else listed


def column(run: "Sequence[F]", name: str) -> list[Any]:
    """Return the values of a field that holds numbers, of facts in either form."""
    return _listed(run.numbers(name)) if isinstance(run, Batch) else [getattr(fact, name) for fact in run]


def runs(facts: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield facts, some of which are in batches, in runs (see :meth:`Batch.runs`); of any other kind one by one."""
    i = 0
    while i < len(facts):
        fact = facts[i]
        if isinstance(fact, Batch):
            yield from fact.runs()
            i += 1
        else:
            j = _run_end(facts, i) if type(fact) in TEXTS else i + 1
            yield facts[i:j]
            i = j


def _run_end(facts: Sequence[Any], i: int) -> int:
    """Return where the run that begins at ``i`` ends."""
    first = facts[i]
    kind, common, j = type(first), _COMMON[type(first)], i + 1
    placed = kind is not Sent
    if placed and first.offset is None:
        return j
    known = common(first)
    while j < len(facts):
        fact = facts[j]
        if (
            type(fact) is not kind
            or fact.sequence != first.sequence + j - i
            or (placed and fact.offset != first.offset + j - i)
            or common(fact) != known
        ):
            break
        j += 1
    return j
