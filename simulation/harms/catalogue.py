"""Every harm there is, by name.

Plans are drawn in the order of this table, so another order makes other lives of the same seeds.
"""

from __future__ import annotations

from simulation.harms.brokers import BROKERS
from simulation.harms.bugs import BUGS
from simulation.harms.clock import CLOCK
from simulation.harms.harm import Harm
from simulation.harms.ledger import LEDGER_HARMS
from simulation.harms.operation import OPERATION
from simulation.harms.processes import PROCESSES
from simulation.harms.store import STORE
from simulation.harms.topics import TOPICS

HARMS: dict[str, Harm] = {
    **BROKERS,
    **TOPICS,
    **OPERATION,
    **PROCESSES,
    **LEDGER_HARMS,
    **STORE,
    **CLOCK,
    **BUGS,
}
WEIGHTS = {name: one.weight for name, one in HARMS.items()}
"""How often each harm is struck, beside others."""
