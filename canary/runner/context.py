"""What the parts of one cluster's runner share."""

from dataclasses import dataclass, field

from canary.metrics.client_meters import ClientMeters
from canary.runner.publishing.inbox import FactQueue
from canary.settings import ClusterSettings, Settings
from canary.threads import system
from canary.threads.ports import Clock
from storage.ledger.files import DISK, Disk
from storage.store import Store


@dataclass(frozen=True, slots=True)
class ClusterContext:
    """What the parts of one cluster's runner share.

    ``stopping`` is set when the runner is to end; ``disk`` has the ledger; ``meters`` has what clients measure;
    ``generations`` has the highest one that each producer of this process took.
    """

    settings: Settings
    cluster: ClusterSettings
    store: Store
    inbox: FactQueue
    clock: Clock
    stopping: system.Event = field(default_factory=system.event)
    disk: Disk = DISK
    meters: ClientMeters = field(default_factory=ClientMeters)
    generations: dict[int, int] = field(default_factory=dict)

    @property
    def runner(self) -> str:
        """The name of the runner."""
        return self.settings.runner.name
