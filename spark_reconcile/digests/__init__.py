"""Digests of business topics: which records of yours vanished or changed since the night before.

Of each partition a tree of hashes is kept, and of each record nothing but its share of them. A *leaf* is 64 offsets,
from a multiple of 64: which of them have a record (a bit each), the XOR of the records' `canary.facts.digests.place`,
how many have keys, and their bytes. As the hash of a record has its offset in it, the XOR is sensitive to order, and
yet parts of a leaf that are read apart can be joined. A *chunk* is 2^18 leaves, and a file. The hash of a chunk, and of
a partition, is the XOR of its leaves'. Borders are fixed offsets, so they stay where retention and appended records
move the ends.

Records are read at read_committed, up to the last stable offset: what a consumer can be given, and keeps.

`tree` compares leaves (pure), `reading` has Spark compute them, `keeping` keeps them, `night` decides what is read and
what is said.
"""
