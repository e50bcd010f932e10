"""Probes: their identity and their bytes. Standard library and NumPy only.

A probe is a Kafka record whose key and value both contain its identity. The value is fixed-width, little-endian, and
its length is a multiple of 8 (64 to 65,528 bytes; 96 by default):

======  ====  ==============================================================================================
bytes   type  meaning
======  ====  ==============================================================================================
0:4     4s    magic, ``MAGIC``
4:8     4s    tag: the canary and incarnation it belongs to, see ``record.tag``
8:10    u16   length of the whole value in bytes
10      u8    version of the layout, 1 or 2
11      u8    mode, a number of ``record.MODES``
12:16   i32   partition (identity)
16:24   u64   checksum
24:32   i64   producer_id (identity)
32:40   i64   sequence (identity)
40:44   i32   generation (identity)
44      u8    version 2: 1 = the padding is its first word again and again, else 0; version 1: zero
45      u8    version 2: number of Kafka headers; version 1: zero
46:48   u16   version 2: length of each header's value in bytes; version 1: zero
48:56   i64   transaction id, -1 = sent outside any transaction
56:64   i64   time of sending in ns since the epoch (UTC), of the sender's clock
64:     u64   padding derived from the identity
======  ====  ==============================================================================================

The key is 24 bytes, little-endian: ``0:8 producer_id i64 | 8:12 generation i32 | 12:16 partition i32 | 16:24 sequence
i64``; so compaction keeps each probe. Where the settings say so, a probe has no key.

**Headers** are called ``h0``, ``h1`` and so on; their values, one after the other, are padding of the same identity
from its first word on. Readers compare them; the reconciliation of a dump looks at values only.

**Checksum.** Over all 8-byte words but the first (magic and tag) and the third (itself), as unsigned little-endian
numbers, in order: ``h = SEED; for each word w: h = (h ^ w) * PRIME mod 2^64; h = h ^ (h >> 32)``. Each step is a
bijection of ``w``, so damage within one word is always found, and other damage but for one case in 2^64. It is no CRC
because NumPy computes it column by column.

**Padding.** Word ``i`` (from 0) is ``step(s + (i + 1) * GAMMA)`` with ``step(x) = y ^ (y >> 32), y = x * PRIME`` and
``s`` the checksum fold, without the checksum's own words, over (producer_id, generation, partition, sequence). All mod
2^64. The checksum covers it too. A probe is written in the oldest version that can say what it looks like.

**Ours, foreign, corrupt** (ARCHITECTURE decision 2). A value that does not begin with magic and tag is *foreign*:
another canary's, a mirror's, another producer's. A value that does is ours, and is *corrupt* unless its length field
and its checksum are right. Length and checksum have the same place and meaning in every later version: a valid checksum
with an unknown version or mode is *unknown-version*, which is counted and not judged. Other errors (bytes that must be
zero, padding, a negative number) are *corrupt*. Decoding never raises.

``record`` encodes and decodes one probe; ``batch`` decodes many at once, and loads NumPy.
"""
