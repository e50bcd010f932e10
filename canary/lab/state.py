"""``lab.json``: how a lab was asked for, and the ports that it chose."""

import base64
import contextlib
import json
import random
import socket
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal, Self, TypeVar

from canary.lab.errors import LabError
from canary.lab.jars.pinned_jars import version_tuple

_T = TypeVar("_T")

Profile = Literal["calm", "quick"]

CONTROLLER = 1000
"""The first controller's node id, and more follow; brokers count from 1."""

_PORTS = range(20_000, 32_000)  # below the ephemeral ports: a broker once lost its port to a client (FIELD-NOTES)
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class NodeProperties:
    """Kafka properties that override those of the lab, or add to them.

    ``single`` are those of single brokers, by id, such as {1: {"broker.rack": "a"}}; they win.
    """

    brokers: Mapping[str, object] = field(default_factory=dict)
    controller: Mapping[str, object] = field(default_factory=dict)
    single: Mapping[int, Mapping[str, object]] = field(default_factory=dict)

    def for_controller(self) -> dict[str, object]:
        """Return the controller's, with those of the brokers that count only where it has them too (KIP-966)."""
        shared = {name: value for name, value in self.brokers.items() if name == "min.insync.replicas"}
        return {**shared, **self.controller}


@dataclass(frozen=True, slots=True)
class State:
    """A lab as it was asked for.

    ``cluster_id`` is base64 of 16 random bytes, as Kafka wants it; ``heap`` is in JVM notation ("256m"). ``features``
    are the feature levels the cluster is formatted with, by name; others have Kafka's defaults. ``ports`` are by node
    id, ``overrides`` those properties of single brokers, by id. ``profile``: see canary.lab.properties.
    ``versions`` are those of Kafka of single nodes, by id, where they are not ``version``.
    ``proxied``: ``ports`` are the proxy's, and nodes themselves listen at those of ``private``, by node id.
    """

    version: str
    cluster_id: str
    heap: str
    broker_properties: dict[str, str]
    controller_properties: dict[str, str]
    features: dict[str, int]
    ports: dict[int, int]
    overrides: dict[int, dict[str, str]] = field(default_factory=dict)
    profile: Profile = "calm"
    versions: dict[int, str] = field(default_factory=dict)
    proxied: bool = False
    private: dict[int, int] = field(default_factory=dict)

    @property
    def brokers(self) -> tuple[int, ...]:
        """Ids of the brokers, ascending."""
        return tuple(sorted(node for node in self.ports if node < CONTROLLER))

    @property
    def controllers(self) -> tuple[int, ...]:
        """Ids of the controllers, ascending."""
        return tuple(sorted(node for node in self.ports if node >= CONTROLLER))

    def private_port(self, node: int) -> int:
        """Return the port at which a node itself listens."""
        return self.private.get(node, self.ports[node])

    def with_free_ports(self) -> Self:
        """Return it with ports of 127.0.0.1 that are free now; those that it had before, where they are.

        Raises:
            LabError: there are not enough.
        """
        nodes = list(self.ports)
        wanted = [*self.ports.values(), *self.private.values()]
        found = free_ports(len(nodes) * (2 if self.proxied else 1), wanted=filter(None, wanted))
        private = dict(zip(nodes, found[len(nodes) :], strict=True)) if self.proxied else {}
        return replace(self, ports=dict(zip(nodes, found[: len(nodes)], strict=True)), private=private)

    def version_of(self, node: int) -> str:
        """Return the version of Kafka that a node runs."""
        return self.versions.get(node, self.version)

    def upgraded(self, versions: Mapping[int, str]) -> Self:
        """Return it with other versions of single nodes, by id.

        Raises:
            LabError: one is older than what has written the node's data.
        """
        now = {node: versions.get(node, self.version_of(node)) for node in self.ports}
        for node, version in now.items():
            if version_tuple(version) < version_tuple(before := self.version_of(node)):
                raise LabError(f"the data of node {node} is of Kafka {before}, newer than {version}")
        common = min(now.values(), key=version_tuple)
        return replace(self, version=common, versions={node: one for node, one in now.items() if one != common})

    def without(self, node: int) -> Self:
        """Return it without a broker."""

        def others(values: Mapping[int, _T]) -> dict[int, _T]:
            return {one: value for one, value in values.items() if one != node}

        return replace(
            self,
            ports=others(self.ports),
            private=others(self.private),
            overrides=others(self.overrides),
            versions=others(self.versions),
        )


def load(directory: Path) -> State | None:
    """Read a lab's state; None if there is no lab in the directory.

    Raises:
        LabError: lab.json is damaged or of another format.
    """
    path = directory / "lab.json"
    try:
        raw = json.loads(path.read_text())
        if raw.pop("format") != _FORMAT:
            raise LabError(f"{path} was written by another version of the canary; remove {directory} and start anew")
        for name in ("ports", "private"):
            raw[name] = {int(node): int(port) for node, port in raw.get(name, {}).items()}
        raw["overrides"] = {int(node): dict(values) for node, values in raw["overrides"].items()}
        raw["versions"] = {int(node): version for node, version in raw.get("versions", {}).items()}
        return State(**raw)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LabError(f"{path} is damaged ({error}); remove {directory} and start anew") from error


def save(directory: Path, state: State) -> None:
    """Write a lab's state, whole or not at all."""
    temporary = directory / "lab.json.tmp"
    temporary.write_text(json.dumps({"format": _FORMAT, **asdict(state)}, indent=2) + "\n")
    temporary.replace(directory / "lab.json")


def texts(properties: Mapping[str, object]) -> dict[str, str]:
    """Return properties as Kafka reads them: true and false in lower case, numbers as digits."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in properties.items()}


def random_id() -> str:
    """Return a Kafka id (16 bytes in URL-safe base64) that StorageTool does not take for an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def free_ports(count: int, *, wanted: Iterable[int] = (), avoid: Iterable[int] = ()) -> list[int]:
    """Return ``count`` ports of 127.0.0.1 without a listener; those of ``wanted`` first, if they are free.

    Raises:
        LabError: there are not that many.
    """
    taken = set(avoid)
    chosen: list[int] = []
    candidates = [*wanted, *random.sample(_PORTS, k=2000)]
    with contextlib.ExitStack() as held:  # all are held until all are chosen, so that two labs seldom choose the same
        for port in candidates:
            if len(chosen) == count:
                break
            if port in taken:
                continue
            probe = held.enter_context(socket.socket())
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as Kafka does: TIME_WAIT is no obstacle
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:  # in use: the next one
                continue
            taken.add(port)
            chosen.append(port)
    if len(chosen) < count:
        raise LabError(f"no {count} free ports between {_PORTS.start} and {_PORTS.stop} on 127.0.0.1")
    return chosen
