"""A broker process and its machine."""

from collections.abc import Callable

from simulation.kafka.contract import Metadata
from simulation.machine.schedule import Timer


class Broker:
    """What one broker is, and what the controller thinks of it."""

    def __init__(self, number: int, rack: str | None) -> None:
        self.id = number
        self.rack = rack
        self.up = True
        self.frozen = False
        """Stopped by SIGSTOP: it does nothing, and goes on later with what it believed."""
        self.deaf = False
        """It goes on after SIGSTOP, and has not heard of the controller's news yet."""
        self.registered = True
        """The controller knows this process: it serves clients."""
        self.fenced = False
        """The controller counts it as dead."""
        self.unclean = False
        """Its process did not end in order, so that its logs may lack their tail."""
        self.connected = True
        """It hears from the controller."""
        self.session: Timer | None = None
        """Ends its session with the controller."""
        self.image: Metadata | None = None
        """What it knows of the cluster since it is not connected."""
        self.queue: list[Callable[[], None]] = []
        """Requests that wait in the sockets of a frozen process."""
        self.lag_s = 0.0
        """Its followers fetch so late."""
        self.slow_s = 0.0
        """Its answers come so late."""
        self.producer_ids: list[int] = []
        """Producer ids that the controller gave it to hand out."""

    @property
    def serving(self) -> bool:
        """Whether it takes requests and answers them."""
        return self.up and self.registered and not self.frozen
