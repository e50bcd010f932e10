"""Answers to Fetch, of the versions whose fields are where others have none."""

from __future__ import annotations

import random
import struct

import pytest

from canary.lab.proxy.fetched import How, shifted
from tests.support import seeds

TOPIC, ID = b"probes", bytes(range(16))


def batch(base: int, records: int = 1) -> bytes:
    """Return what of a batch is looked at, and a body."""
    return struct.pack(">qiib4xhi", base, 15 + 5, 0, 2, 0, records - 1) + b"body!"


def answer(version: int, batches: bytes) -> bytes:
    """Return an answer with an aborted transaction and two partitions, of which number 1 has the batches."""
    flexible = version >= 12
    tags = b"\0" if flexible else b""

    def length(count: int, code: str = "i") -> bytes:
        if not flexible:
            return struct.pack(">" + code, count)
        return bytes([count + 1 & 0x7F | 0x80, count + 1 >> 7])  # a varint of two bytes

    def partition(number: int, records: bytes) -> bytes:
        offsets = b"\0" * 8 * (2 if version < 5 else 3)
        aborted = length(1) + b"\0" * 16 + tags
        replica = struct.pack(">i", -1) if version >= 11 else b""
        return struct.pack(">ih", number, 0) + offsets + aborted + replica + length(len(records)) + records + tags

    head = struct.pack(">i", 7) + tags + struct.pack(">i", 0) + (b"\0" * 6 if version >= 7 else b"")
    topic = ID if version >= 13 else length(len(TOPIC), "h") + TOPIC
    body = head + length(1) + topic + length(2) + partition(0, b"") + partition(1, batches) + tags + tags
    return struct.pack(">i", len(body)) + body


@pytest.mark.parametrize("version", [4, 5, 7, 11, 12, 13, 17])
@pytest.mark.parametrize(
    ("how", "before", "after"),
    [
        ("skip", [(5, 1), (6, 3), (9, 1)], [(5, 1), (2, 3), (9, 1)]),
        ("swap", [(5, 2), (7, 1), (8, 1), (9, 1)], [(5, 2), (8, 1), (7, 1), (9, 1)]),
        ("swap", [(5, 2), (7, 1), (8, 1)], None),
        ("skip", [(5, 1), (6, 1)], None),
    ],
)
def test_offsets_are_changed_where_the_version_has_them(
    version: int, how: How, before: list[tuple[int, int]], after: list[tuple[int, int]] | None
) -> None:
    sent, expected = (
        None if batches is None else answer(version, b"".join(batch(*one) for one in batches) + b"the next on")
        for batches in (before, after)
    )
    assert sent is not None
    assert shifted(sent, version, frozenset({TOPIC, ID}), 1, how) == expected
    assert shifted(sent, version, frozenset({b"another"}), 1, how) is None
    assert shifted(sent, version, frozenset({TOPIC, ID}), 0, how) is None


def test_what_is_no_such_answer_stays_as_it_is() -> None:
    for seed in seeds.cases("fetched", 200):
        dice = random.Random(seed)  # noqa: S311  # dice that can be thrown again
        whole = answer(16, b"".join(map(batch, range(9))))
        cut = whole[: dice.randrange(len(whole))] + dice.randbytes(dice.randrange(30))
        shifted(cut, dice.randrange(4, 19), frozenset({TOPIC, ID}), 1, "swap")
