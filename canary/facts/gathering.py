"""Facts that came one by one, or in small batches, become few and large batches."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Final

import numpy as np

from canary.facts.batch import FEW, NULL, NUMBERS, TEXTS, Batch, F, Numbers, getter

_TEXTS_OF: Final = {kind: getter(names) for kind, names in TEXTS.items()}
_ORDER: Final = [*TEXTS]
_NUMBERS_OF: Final = {kind: getter(names) for kind, names in NUMBERS.items()}


def comes_in_batches(fact: object) -> bool:
    """Whether a fact is one of many, whose order among those of other partitions and threads means nothing.

    An acknowledgement without an offset is judged by its neighbours', so it keeps its place.
    """
    return type(fact) in TEXTS and getattr(fact, "offset", 0) is not None


def gathered(facts: Iterable[Any]) -> list[Any]:
    """Return facts that came together, those of one kind in batches as far as their order means nothing.

    Between two facts of other kinds there are only probes that were sent, acknowledged and read. They come from several
    threads, so their order is an accident, but for three things that stay as they were: a probe is sent before it is
    acknowledged or read, and what one partition acknowledges, or gives to one consumer, has an order.
    """
    found: list[Any] = []
    waiting: dict[tuple[Any, ...], list[Any]] = {}
    for fact in facts:
        if isinstance(fact, Batch):
            waiting.setdefault((fact.kind, *fact.texts.values()), []).append(fact)
        elif comes_in_batches(fact):
            kind = type(fact)
            waiting.setdefault((kind, *_TEXTS_OF[kind](fact)), []).append(fact)
        else:
            _put_down(waiting, found)
            found.append(fact)
    _put_down(waiting, found)
    return found


def _put_down(waiting: dict[tuple[Any, ...], list[Any]], found: list[Any]) -> None:
    """Append what waits, sends before acknowledgements before reads."""
    for kind, *texts in sorted(waiting, key=lambda key: _ORDER.index(key[0])):
        some = waiting[kind, *texts]
        if len(some) < FEW and not any(isinstance(one, Batch) for one in some):
            found.extend(sorted(some, key=attrgetter("partition")))
        else:
            found.append(_joined(kind, dict(zip(TEXTS[kind], texts, strict=True)), some).by_partition())
    waiting.clear()


def _joined(kind: type[F], texts: Mapping[str, str], some: Sequence[Any]) -> Batch[F]:
    """Return facts, and batches of them, as one batch."""
    parts: list[Mapping[str, Numbers]] = []
    for batched, ones in groupby(some, lambda one: isinstance(one, Batch)):
        if batched:
            parts += [{name: one.numbers(name) for name in NUMBERS[kind]} for one in ones]
        else:
            parts.append(_columns(kind, list(ones)))
    if len(parts) == 1:
        return Batch.of(kind, texts, parts[0])
    return Batch.of(kind, texts, {name: np.concatenate([part[name] for part in parts]) for name in NUMBERS[kind]})


def _columns(kind: type[Any], facts: Sequence[Any]) -> dict[str, Numbers]:
    found = {}
    for name, values in zip(NUMBERS[kind], zip(*map(_NUMBERS_OF[kind], facts), strict=True), strict=True):
        known = (NULL if x is None else x for x in values) if None in values else values
        found[name] = np.fromiter(known, np.int64, len(facts))
    return found
