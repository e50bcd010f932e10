"""The ledger: facts in the one order in which they were seen, durable before they are judged (ARCHITECTURE decision 4).

Shape on disk
-------------
A ledger is a directory that one process holds by ``flock``. In it stand segments (``segment-0000000001.ledger``), each
a header and then frames; a frame is a magic, a kind, a length, a CRC-32 and a payload (storage.ledger.framing), and
holds either a batch of facts (one Arrow stream, storage.ledger.codec) or the tracker's snapshot, which is always a
segment's first frame and covers every fact of the segments before it.

Promises
--------
* When ``append`` has returned, its facts are on the disk and will be recovered, in order, whatever kills the process.
* A tail that was being written when the process or the machine died is dropped, and ``Recovery.torn`` says so.
* A frame that is damaged although whole frames or a later segment prove that it was once complete is *damage*: recovery
  stops there, says so, and keeps the files aside as ``….damaged``. A hole is never skipped: a fold over facts with a
  hole would ring false alarms.
* After a failed write or fsync nothing more is written to that file: the kernel may have thrown the dirty pages away
  and call the next fsync a success. A new segment is begun, whose header says how much of the old one counts, and the
  batch is written again.
* Nothing is dropped before two later snapshots are durable: when the last one rots, the one before it and the facts
  since tell the same.
"""

from storage.ledger.codec import decode_facts, encode_facts
from storage.ledger.errors import LedgerError, LedgerLockedError
from storage.ledger.recovery import Recovery
from storage.ledger.segment import Segment, read_segment
from storage.ledger.writing import Ledger

__all__ = [
    "Ledger",
    "LedgerError",
    "LedgerLockedError",
    "Recovery",
    "Segment",
    "decode_facts",
    "encode_facts",
    "read_segment",
]
