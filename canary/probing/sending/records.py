"""What a workload's probes look like to Kafka: keys, values and headers, as its settings say."""

from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import NamedTuple, Self

import numpy as np

from canary.facts import Batch, Sent
from canary.probe.batch import as_bytes, encode_batch, encode_keys
from canary.probe.identity import Identity
from canary.probe.record import Form, encode, header_fields, key
from canary.workloads.descriptor import Writing

Headers = list[tuple[str, bytes]]


class Record(NamedTuple):
    """A Kafka record to be."""

    key: bytes | None
    value: bytes
    headers: Headers | None = None


class Shape(NamedTuple):
    """What all probes of a workload look like; ``lengths`` (bytes of a value) they have in turn."""

    form: Form
    lengths: tuple[int, ...]
    keyed: bool

    @classmethod
    def of(cls, settings: Writing) -> Self:
        """Return what the settings say."""
        form = Form(settings.filling == "repeated", settings.headers, settings.header_length if settings.headers else 0)
        return cls(form, settings.lengths, settings.key == "identity")


def records(sent: Sequence[Sent], tag: bytes, mode: str, shape: Shape) -> list[Record]:
    """Return the records of probes, all of which are of one transaction (or of none), in their order."""
    keys: Iterable[bytes | None]
    if isinstance(sent, Batch):
        keys, values = _at_once(sent, tag, mode, shape)
    else:
        keys, values = _each(sent, tag, mode, shape)
    if not shape.keyed:
        keys = repeat(None)
    headers = (header_fields(identity_of(one), shape.form) for one in sent) if shape.form.headers else repeat(None)
    return list(map(Record, keys, values, headers))


def identity_of(sent: Sent) -> Identity:
    """Return the identity of a probe that is sent."""
    return Identity(sent.producer_id, sent.generation, sent.partition, sent.sequence)


_Made = tuple[list[bytes], list[bytes]]


def _each(sent: Sequence[Sent], tag: bytes, mode: str, shape: Shape) -> _Made:
    """Encode one probe after the other; return keys and values."""
    form, lengths, _ = shape
    keys: list[bytes] = []
    values: list[bytes] = []
    for one in sent:
        identity, length = identity_of(one), lengths[one.sequence % len(lengths)]
        value = encode(
            identity,
            tag=tag,
            mode=mode,
            transaction_id=one.transaction_id,
            sent_at_ns=one.at_ns,
            length=length,
            form=form,
        )
        values.append(value)
        keys.append(key(identity))
    return keys, values


def _at_once(sent: Batch[Sent], tag: bytes, mode: str, shape: Shape) -> _Made:
    """Encode all probes of one length at once; return keys and values."""
    columns = [sent.numbers(name) for name in Identity._fields]
    times, transactions = sent.numbers("at_ns"), np.maximum(sent.numbers("transaction_id"), -1)
    form, lengths, _ = shape
    turns = columns[-1] % len(lengths)
    keys, values = as_bytes(encode_keys(*columns)), [b""] * len(sent)
    for turn, length in enumerate(lengths):
        these = slice(None) if len(lengths) == 1 else np.flatnonzero(turns == turn)
        rows = encode_batch(
            *(column[these] for column in columns),
            tag=tag,
            mode=mode,
            sent_at_ns=times[these],
            transaction_id=transactions[these],
            length=length,
            form=form,
        )
        if isinstance(these, slice):
            return keys, as_bytes(rows)
        for place, value in zip(these.tolist(), as_bytes(rows), strict=True):
            values[place] = value
    return keys, values
