"""The probe log: what was promised and what was seen, as Parquet at a URL (ARCHITECTURE decision 11, CONTRACTS).

Three tables, ``probes/``, ``transactions/`` and ``polls/``, one file of each for every sealed segment of a ledger,
sorted by (topic, partition, offset), under ``<table>/<day>/<cluster>--<runner>--<ledger>-<segment>.parquet``. A name
depends on nothing but the segment: shipping it twice, after a crash in the midst, writes the same file again.

* Every identity that a segment sent has a row in its file, as indeterminate if its outcome was not known at the seal;
  the segment in which the outcome came has a row again. So an identity may have two rows; the acked one counts
  (RECONCILIATION 15), and a failed one counts before an indeterminate one.
* A transaction has one row, in the segment in which it ended.
* Files are written whole: temporary name, fsync, rename, fsync of the directory; polls and transactions before probes,
  so that a promise never stands there without what excuses it.
* Which incarnation a row belongs to is decided by the samples of the topic's id around it; where two different ones
  enclose it, nobody can say (storage.probe_log.incarnations).
"""

from typing import TYPE_CHECKING

from canary.footprint import on_first_use
from storage.probe_log.errors import NothingThereError, ProbeLogError

if TYPE_CHECKING:
    from storage.probe_log.carry import Carry, OpenProbe, OpenTransaction, load_carry, save_carry
    from storage.probe_log.compacting import compact
    from storage.probe_log.converting import Converted, convert
    from storage.probe_log.reading import ProbeLogReader, find_probe, rows_between
    from storage.probe_log.schemas import POLLS, PROBES, TRANSACTIONS
    from storage.probe_log.shipping import Shipped, drop_old, ship, ship_segment, try_out

# These load Arrow, which the API does without until the probe log is asked for something.
_MODULES = {
    "carry": ("Carry", "OpenProbe", "OpenTransaction", "load_carry", "save_carry"),
    "compacting": ("compact",),
    "converting": ("Converted", "convert"),
    "reading": ("ProbeLogReader", "find_probe", "rows_between"),
    "schemas": ("POLLS", "PROBES", "TRANSACTIONS"),
    "shipping": ("Shipped", "drop_old", "ship", "ship_segment", "try_out"),
}
__getattr__ = on_first_use(__name__, {name: module for module, names in _MODULES.items() for name in names})

__all__ = [
    "POLLS",
    "PROBES",
    "TRANSACTIONS",
    "Carry",
    "Converted",
    "NothingThereError",
    "OpenProbe",
    "OpenTransaction",
    "ProbeLogError",
    "ProbeLogReader",
    "Shipped",
    "compact",
    "convert",
    "drop_old",
    "find_probe",
    "load_carry",
    "rows_between",
    "save_carry",
    "ship",
    "ship_segment",
    "try_out",
]
