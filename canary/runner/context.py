"""What the parts of one cluster's runner share."""

import threading
from dataclasses import dataclass, field

from canary.runner.publishing.inbox import FactQueue
from canary.settings import ClusterSettings, Settings
from canary.threads.ports import Clock
from storage.store import Store


@dataclass(frozen=True, slots=True)
class ClusterContext:
    """What the parts of one cluster's runner share. ``stopping`` is set when the runner is to end."""

    settings: Settings
    cluster: ClusterSettings
    store: Store
    inbox: FactQueue
    clock: Clock
    stopping: threading.Event = field(default_factory=threading.Event)

    @property
    def runner(self) -> str:
        """The name of the runner."""
        return self.settings.runner.name
