"""The ledger: facts in the one order in which they were seen, durable before they are judged (ARCHITECTURE decision 4).

Shape on disk
-------------
A ledger is a directory that one process holds by ``flock``. It contains segments (``segment-0000000001.ledger``): a
header, then frames. A frame is a magic, a kind, a length, a CRC-32 and a payload (storage.ledger.framing): a batch of
facts (one Arrow stream, storage.ledger.codec) or the tracker's snapshot. A snapshot is always the first frame of a
segment and covers every fact of the segments before it.

Promises
--------
* When ``append`` has returned, its facts are on the disk and will be recovered, in order, however the process ends.
* A tail that was not written to its end when the process or the machine died is dropped, and reported in
  ``Recovery.torn``.
* A bad frame that was once complete, because whole frames or a later segment follow it, is *damage*: recovery stops
  before it, reports it, and keeps the files as ``….damaged``. It never skips a hole, because judging facts with a hole
  in them raises false alarms.
* After a failed write or fsync nothing more is written to that file: the kernel may have dropped the dirty pages and
  report success for the next fsync. A new segment, whose header says how much of the old one counts, takes the batch.
* A segment is deleted only after two later snapshots are durable: if the last one rots, the one before it and the facts
  since replace it.
"""

from storage.ledger.errors import LedgerError
from storage.ledger.recovery import Recovery
from storage.ledger.segment import read_segment
from storage.ledger.writing import Ledger

__all__ = ["Ledger", "LedgerError", "Recovery", "read_segment"]
