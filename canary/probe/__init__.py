"""Who a probe is and how it is written: standard library and NumPy only.

A probe is a Kafka record whose value and key both say who it is. The value is fixed-width, little-endian, and its
length is a multiple of 8 (64 to 65,528 bytes; 96 unless told):

======  ====  ==============================================================================================
bytes   type  meaning
======  ====  ==============================================================================================
0:4     4s    magic, ``MAGIC``
4:8     4s    tag: whose probe this is, see ``tag()``
8:10    u16   length of the whole value in bytes
10      u8    version of the layout, 1
11      u8    mode, a number of ``MODES``
12:16   i32   partition (identity)
16:24   u64   checksum
24:32   i64   producer_id (identity)
32:40   i64   sequence (identity)
40:44   i32   generation (identity)
44:48   4s    zero
48:56   i64   transaction id, -1 = sent outside any transaction
56:64   i64   time of sending in ns since the epoch (UTC), of the sender's clock
64:     u64   padding derived from the identity
======  ====  ==============================================================================================

The key is 24 bytes, little-endian: ``0:8 producer_id i64 | 8:12 generation i32 | 12:16 partition i32 | 16:24 sequence
i64``; so compaction keeps each probe.

**Checksum.** Over all 8-byte words but the first (magic and tag) and the third (itself), as unsigned little-endian
numbers, in order: ``h = SEED; for each word w: h = (h ^ w) * PRIME mod 2^64; h = h ^ (h >> 32)``. Each step is a
bijection of ``w``, so damage within one word is seen always, and other damage but for one case in 2^64. NumPy does it
column by column, which is why it is no CRC.

**Padding.** Word ``i`` (from 0) is ``step(s + (i + 1) * GAMMA)`` with ``step(x) = y ^ (y >> 32), y = x * PRIME`` and
``s`` the checksum fold, without the checksum's own words, over (producer_id, generation, partition, sequence). All mod
2^64. The checksum covers it too.

**Ours, foreign, corrupt** (ARCHITECTURE decision 2). A value that does not begin with magic and tag is *foreign*:
another canary's, a mirror's, anybody's. One that does is ours, and then it is *corrupt* unless its length is what it
says and the checksum is right. Length and checksum stand at the same place, and mean the same, in every version to
come: a valid checksum with a version or a mode that is not known here is *unknown-version*, which is counted and not
judged. All else (bytes that must be zero, padding, a negative number where none can be) is *corrupt* again. Decoding
never raises.

Many records at once are the business of ``canary.probe.batch``, which loads NumPy; this package does not.
"""

from canary.probe.identity import Identity
from canary.probe.record import (
    MAGIC,
    MODES,
    REASONS,
    Probe,
    Refusal,
    decode,
    encode,
    identity_of_key,
    key,
    tag,
)

__all__ = [
    "MAGIC",
    "MODES",
    "REASONS",
    "Identity",
    "Probe",
    "Refusal",
    "decode",
    "encode",
    "identity_of_key",
    "key",
    "tag",
]
