"""What a proxied lab's network can do: values that ``Lab.nemesis`` puts in force.

A party is the id of a node, "client" (whatever is no node of the lab), or "any". Nothing comes between a node and
itself.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, get_args

from canary.lab.errors import LabError
from canary.lab.proxy.fetched import How
from canary.lab.proxy.frames import APIS, Request
from canary.lab.proxy.lies import LIES

Party = int | Literal["client", "any"]


@dataclass(frozen=True, slots=True)
class Cut:
    """No byte goes from source to target, on connections that either opened; ``both``: nor back.

    As TCP does it: neither end learns of it, new connections open and stay silent, and what was sent meanwhile arrives
    after the heal, if the connection is still open then.
    """

    source: Party
    target: Party
    both: bool = True

    def stops(self, source: Party, target: Party) -> bool:
        """Return whether bytes from one to the other are stopped."""
        return _between(self, source, target) or (self.both and _between(self, target, source))


@dataclass(frozen=True, slots=True)
class Delay:
    """Bytes from source to target, on connections that either opened, arrive later by so many seconds.

    With an ``api``: only its requests, and what follows them on their connection.
    """

    source: Party
    target: Party
    seconds: float
    api: str | None = None

    def __post_init__(self) -> None:
        """Refuse an API that there is not."""
        if self.api is not None:
            _require(self.api)

    def slows(self, source: Party, target: Party, api: str | None = None) -> bool:
        """Return whether bytes from one to the other are delayed; with an API, whether its requests alone are."""
        return api == self.api and _between(self, source, target)


@dataclass(frozen=True, slots=True)
class LoseAnswers:
    """The next ``count`` requests of an API are served, and their connection is closed in place of the answer.

    ``api`` is Kafka's name of it, such as "Produce" or "EndTxn".
    """

    api: str
    source: Party = "client"
    target: Party = "any"
    count: int = 1

    def __post_init__(self) -> None:
        """Refuse an API that there is not."""
        _require(self.api)

    def concerns(self, request: Request, source: Party, target: Party) -> bool:
        """Return whether it is about a request of source to target."""
        return request.api == self.api and _between(self, source, target)


@dataclass(frozen=True, slots=True)
class Hold:
    """The next ``count`` requests of ``api`` are held back on their way, also when their client closes the connection.

    Each is delivered at the ``until_count``-th later request of ``until_api`` with the same client id, on whatever
    connection to whatever broker; or when the faults are replaced. ``release``: "before" that request, which waits
    until the held one is answered; or "after" it: when it is answered, and the client has the answer only when the held
    one is answered, too. On the same connection they go one behind the other, as the broker answers them. ``client``:
    only requests with this client id; "": anybody's.

    Example: Hold("EndTxn", until_api="Produce") delivers the end of one transaction in the middle of the next one;
    Hold("Produce", until_api="Produce") swaps two requests of one connection.
    """

    api: str
    until_api: str
    count: int = 1
    until_count: int = 1
    release: Literal["before", "after"] = "after"
    source: Party = "client"
    target: Party = "any"
    client: str = ""

    def __post_init__(self) -> None:
        """Refuse an API that there is not."""
        _require(self.api)
        _require(self.until_api)

    def concerns(self, request: Request, source: Party, target: Party) -> bool:
        """Return whether it is about a request of source to target."""
        mine = self.client in {"", request.client}
        return mine and request.api == self.api and _between(self, source, target)


@dataclass(frozen=True, slots=True)
class ShiftFetch:
    """The next ``count`` answers to Fetch with three batches or more of a partition mislead their reader, ``source``.

    ``how``: "skip": it drops a batch in the middle silently; "swap": two neighbours with as many records have each
    other's offsets. What the broker has is as it should be, and a reader that asks again gets that.
    """

    source: Party
    target: Party
    topic: str
    partition: int
    how: How = "skip"
    count: int = 1

    def concerns(self, request: Request, source: Party, target: Party) -> bool:
        """Return whether it is about a request of source to target."""
        return request.api == "Fetch" and _between(self, source, target)


@dataclass(frozen=True, slots=True)
class Redirect:
    """New connections lead to ``port`` of this machine, where another cluster's broker listens; old ones stay.

    As with a name, a load balancer or an address that was given to another cluster. That one names its own brokers.
    """

    source: Party
    target: Party
    port: int

    def moves(self, source: Party, target: Party) -> bool:
        """Return whether a new connection from one to the other leads elsewhere."""
        return _between(self, source, target)


@dataclass(frozen=True, slots=True)
class Lie:
    """Each answer of one API about a topic is not true, as ``canary.lab.proxy.lies`` has it by the name of the ``lie``.

    Example: Lie("client", 1, "orders", "nothing fetched") has every reader of broker 1 be given no record of orders.
    """

    source: Party
    target: Party
    topic: str
    lie: str

    def __post_init__(self) -> None:
        """Refuse a lie that there is not."""
        if self.lie not in LIES:
            raise LabError(f"{self.lie!r} is no lie that the lab knows; it knows {', '.join(LIES)}")

    def concerns(self, request: Request, source: Party, target: Party) -> bool:
        """Return whether it is about a request of source to target."""
        return request.api == LIES[self.lie].api and _between(self, source, target)


Fault = Cut | Delay | LoseAnswers | Hold | ShiftFetch | Lie | Redirect

_KINDS: Final[dict[str, type[Fault]]] = {kind.__name__: kind for kind in get_args(Fault)}


def impaired(faults: Iterable[Fault], nodes: Iterable[int]) -> frozenset[int]:
    """Return which nodes are cut off, or slow: those that are named; all of them where none is."""
    found: set[int] = set()
    for fault in faults:
        if isinstance(fault, Cut | Delay):
            named = {one for one in (fault.source, fault.target) if isinstance(one, int)}
            found |= named or set(nodes)
    return frozenset(found)


def encoded(fault: Fault) -> dict[str, Any]:
    """Return a fault as JSON has it."""
    return {"kind": type(fault).__name__, **asdict(fault)}


def decoded(values: Mapping[str, Any]) -> Fault:
    """Return the fault that was encoded."""
    fields = dict(values)
    return _KINDS[fields.pop("kind")](**fields)


def _between(fault: Fault, source: Party, target: Party) -> bool:
    return source != target and fault.source in {source, "any"} and fault.target in {target, "any"}


def _require(api: str) -> None:
    if api not in APIS.values():
        raise LabError(f"{api!r} is no API of Kafka's that the lab knows; it knows {', '.join(APIS.values())}")
