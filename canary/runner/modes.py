"""The modes, by name: what each of them runs. A new mode is an entry here and a model in canary.settings.modes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from canary.probing.fencing import FencingProbe
from canary.probing.group import GroupProbe
from canary.probing.idempotent import IdempotentProducer
from canary.probing.plain import plain_producer
from canary.probing.relay import Relay
from canary.probing.transactional import TransactionalProducer
from canary.settings import consumer_config, producer_config, transactional_config
from canary.settings.modes import FencingMode, GroupMode, RelayMode, TransactionalMode

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from canary.client.ports import Clock, Inbox
    from canary.probing.idempotent import Renewal
    from canary.probing.reading import Target
    from canary.runner.topics import Identities
    from canary.settings import ClusterSettings
    from canary.settings.modes import ModeSettings


class Part(Protocol):
    """What a thread looks like from here (see canary.client.worker.Worker)."""

    name: str

    @property
    def alive(self) -> bool:
        """Whether it runs."""

    @property
    def failure(self) -> BaseException | None:
        """What ended it, if something did."""

    def start(self) -> None:
        """Begin."""

    def restart(self) -> None:
        """Begin again after it has ended."""

    def ask_stop(self) -> None:
        """Say that it should end."""

    def stop(self, timeout: float = ...) -> bool:
        """Say so and wait."""


class Writer(Part, Protocol):
    """The part of a mode: it works on one topic, as one producer id, until told to go on elsewhere."""

    def retarget(self, generation: int, tag: bytes, partitions: Sequence[int]) -> None:
        """Go on under other values."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """What a mode is made from.

    ``under`` is the generation that was begun for it; ``targets`` returns a topic's present incarnation.
    """

    mode: str
    cluster: ClusterSettings
    runner: str
    identities: Identities
    under: Renewal
    targets: Callable[[str], Target]
    inbox: Inbox
    clock: Clock

    @property
    def settings(self) -> ModeSettings:
        """The mode's own."""
        return self.cluster.modes.enabled()[self.mode]


def _idempotent(wiring: Wiring) -> Writer:
    return IdempotentProducer(
        producer_config(wiring.cluster),
        wiring.identities.topic,
        wiring.under.partitions,
        producer_id=wiring.identities.producer_id,
        generation=wiring.under.generation,
        tag=wiring.under.tag,
        mode=wiring.mode,
        interval_s=wiring.settings.interval,
        record_length=wiring.settings.record_length,
        inbox=wiring.inbox,
        clock=wiring.clock,
        renew=wiring.identities.renew,
    )


def _plain(wiring: Wiring) -> Writer:
    return plain_producer(
        producer_config(wiring.cluster),
        wiring.identities.topic,
        wiring.under,
        producer_id=wiring.identities.producer_id,
        interval_s=wiring.settings.interval,
        record_length=wiring.settings.record_length,
        inbox=wiring.inbox,
        clock=wiring.clock,
        renew=wiring.identities.renew,
    )


def _transactional(wiring: Wiring) -> Writer:
    settings = wiring.settings
    assert isinstance(settings, TransactionalMode)  # noqa: S101  # as the registry says
    return TransactionalProducer(
        partial(_with_id, wiring.cluster, settings.timeout),
        wiring.identities.topic,
        wiring.under,
        producer_id=wiring.identities.producer_id,
        named=f"{wiring.mode}-{wiring.identities.first:x}-",
        mode=wiring.mode,
        interval_s=settings.interval,
        spread=settings.partitions,
        records=settings.records,
        abort_percent=settings.abort_percent,
        abandon_every_s=settings.abandon_every,
        deliver_s=settings.timeout * 0.6,
        most_ids=settings.most_ids,
        record_length=settings.record_length,
        inbox=wiring.inbox,
        clock=wiring.clock,
        renew=wiring.identities.renew,
    )


def _fencing(wiring: Wiring) -> Writer:
    settings = wiring.settings
    assert isinstance(settings, FencingMode)  # noqa: S101  # as the registry says
    return FencingProbe(
        _with_id(wiring.cluster, settings.timeout, f"{wiring.mode}-{wiring.identities.first:x}"),
        wiring.identities.topic,
        wiring.under,
        producer_id=wiring.identities.producer_id,
        mode=wiring.mode,
        interval_s=settings.interval,
        deliver_s=settings.timeout * 0.6,
        record_length=settings.record_length,
        inbox=wiring.inbox,
        clock=wiring.clock,
        renew=wiring.identities.renew,
    )


def _relay(wiring: Wiring) -> Writer:
    settings = wiring.settings
    assert isinstance(settings, RelayMode)  # noqa: S101  # as the registry says
    name = f"{wiring.mode}-{wiring.identities.first:x}"
    group: dict[str, object] = {"group.id": f"{wiring.cluster.identifier_prefix}-{name}"}
    if settings.rebalance_every is not None:  # a member notices soon that another one joins
        group |= {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 500}
    return Relay(
        _with_id(wiring.cluster, settings.timeout, name),
        consumer_config(wiring.cluster, "read_committed") | group,
        wiring.cluster.topic_of("idempotent"),
        wiring.identities.topic,
        wiring.under,
        targets=wiring.targets,
        producer_id=wiring.identities.producer_id,
        mode=wiring.mode,
        interval_s=settings.interval,
        most=settings.most,
        rebalance_every_s=settings.rebalance_every,
        deliver_s=settings.timeout * 0.6,
        record_length=settings.record_length,
        inbox=wiring.inbox,
        clock=wiring.clock,
        renew=wiring.identities.renew,
    )


def _group(wiring: Wiring) -> Writer:
    settings = wiring.settings
    assert isinstance(settings, GroupMode)  # noqa: S101  # as the registry says
    session_ms = int(settings.session_timeout * 1000)
    return GroupProbe(
        consumer_config(wiring.cluster, "read_committed")
        | {
            "group.id": f"{wiring.cluster.identifier_prefix}-{wiring.mode}-{wiring.identities.first:x}",
            "auto.offset.reset": "latest",
            "session.timeout.ms": session_ms,
            "heartbeat.interval.ms": max(session_ms // 5, 200),
        },
        wiring.identities.topic,
        members=settings.members,
        interval_s=settings.interval,
        rebalance_every_s=settings.rebalance_every,
        inbox=wiring.inbox,
        clock=wiring.clock,
    )


def _with_id(cluster: ClusterSettings, timeout_s: float, transactional_id: str) -> dict[str, Any]:
    """Return the properties of a transactional client that gives up a record well before its transaction ends."""
    timeout_ms = int(timeout_s * 1000)
    config = transactional_config(cluster, transactional_id)
    return config | {
        "transaction.timeout.ms": timeout_ms,
        "message.timeout.ms": timeout_ms,
        "socket.timeout.ms": min(timeout_ms, 5000),  # librdkafka: no longer than a transaction
        "linger.ms": 0,
    }


MODES: Mapping[str, Callable[[Wiring], Writer]] = {
    "idempotent": _idempotent,
    "mirror": _idempotent,
    "plain": _plain,
    "transactional": _transactional,
    "fencing": _fencing,
    "relay": _relay,
    "group": _group,
}
"""Name to what makes its part. Not started; it gets a generation of its own before."""


def make(wiring: Wiring) -> Writer:
    """Return the part of a mode.

    Raises:
        KeyError: there is no such mode.
    """
    return MODES[wiring.mode](wiring)
