"""A client of kafka-python that is opened for a few questions and closed again, whatever happens in between."""

import contextlib
import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kafka.admin import KafkaAdminClient
from kafka.errors import (
    AuthorizationError,
    BrokerResponseError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    NotLeaderForPartitionError,
    SaslAuthenticationFailedError,
    UnknownBrokerIdError,
    for_code,
)
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from canary.wire.errors import WireError
from canary.wire.properties import translated

_SPARE: Final = 2
"""So many times as long as an answer takes at most: the connection may have to be made before."""
_MOMENT_S: Final = 0.01
logging.getLogger("kafka").setLevel(logging.CRITICAL)  # its errors are raised; its debug lines would hold the password


class _Manager(KafkaConnectionManager):  # type: ignore[misc]  # the library has no types
    """Connections; ``failure`` is why one failed, of which the library tells its log alone: a refusal, or the first."""

    failure: BaseException | None = None

    def get_connection(self, *args: Any, **more: Any) -> Any:
        connection = super().get_connection(*args, **more)
        connection.init_future.add_errback(self._failed)
        return connection

    def run(self, coro: Any, *args: Any) -> Any:
        """Put a question, not for ever: one that waits for a connection which is lost meanwhile is never answered."""

        async def in_time() -> Any:
            return await self.wait_for(self.call_soon(coro, *args), _SPARE * self.config["request_timeout_ms"])

        return super().run(in_time)

    def _failed(self, error: BaseException) -> None:
        if self.failure is None or isinstance(error, BrokerResponseError):
            self.failure = error


@contextlib.contextmanager
def opened(config: Mapping[str, Any], timeout_s: float = 5.0) -> Iterator[Any]:
    """Connect a KafkaAdminClient as ``config`` (librdkafka's properties) says, for as long as the context lasts.

    Each answer is waited for ``timeout_s``.

    Raises:
        WireError: the cluster does not answer, or refuses; also of questions that are asked inside.
    """
    given = translated(config, timeout_s)
    net = NetworkSelector(client_id=given["client_id"])
    manager = _Manager(net, **given)
    client = KafkaNetClient(net=net, manager=manager)
    try:
        with contextlib.closing(KafkaAdminClient(**given, kafka_client=lambda **_: client)) as admin:
            yield admin
    except KafkaError as error:
        cause = manager.failure if isinstance(error, KafkaTimeoutError) else None
        mechanism = given.get("sasl_mechanism")
        if isinstance(cause, KafkaConnectionError) and mechanism is not None:  # a broker that refuses hangs up at once
            raise WireError(f"{explained(cause)} while logging in by {mechanism}, or before") from error
        raise explained(cause if isinstance(cause, KafkaError) else error) from error
    finally:
        client.close()


def asked(admin: Any, request: Any, broker: int | None = None) -> Any:
    """Return the answer of one broker, by its id; of whichever is at hand if it is None.

    Raises:
        WireError: it does not answer, is unknown, or does not know the question. Errors in an answer are the caller's.
    """
    manager = admin._manager  # noqa: SLF001  # its public methods put other questions than ours, or not to this broker

    async def sent() -> Any:
        while (left := _throttled_s(manager, broker)) > 0:
            await manager._net.sleep(left)  # noqa: SLF001  # as it waits itself
        try:
            return await manager.send(request, broker)
        except UnknownBrokerIdError:  # it was away when brokers were asked for last
            await manager.cluster.refresh_metadata()
            return await manager.send(request, broker)

    try:
        return manager.run(sent)
    except KafkaError as error:
        raise explained(error) from error
    except (OSError, ValueError) as error:  # of a broker's name that is none
        raise WireError(f"{type(error).__name__}: {error}") from error


def cluster_of(admin: Any) -> str | None:
    """Return the cluster's id that brokers told the client last, None while they have told none."""
    told = admin._manager.cluster.cluster_id  # noqa: SLF001  # it has no public word for it
    return None if told is None else str(told)


def _throttled_s(manager: Any, broker: int | None) -> float:
    """Return for how long (s) a broker's quota lets nothing be asked; the library fails what is asked meanwhile."""
    connection = manager._conns.get(broker)  # noqa: SLF001  # it has no public word for it
    if connection is None or "throttle" not in connection.paused:
        return 0.0
    return max(float(connection._throttle_time) - time.monotonic(), _MOMENT_S)  # noqa: SLF001  # the same


def explained(error: KafkaError) -> WireError:
    """Return an error of the library in words."""
    known = isinstance(error, BrokerResponseError)
    name = _name(type(error)) if known else type(error).__name__
    refused = isinstance(error, AuthorizationError | SaslAuthenticationFailedError)
    words = str(error).removeprefix(f"{type(error).__name__}: ")
    return WireError(f"{name}: {words}", refused=refused, code=name if known else "")


def failed(code: int, what: str) -> WireError:
    """Return what a broker says by a number, of ``what`` it was asked for."""
    kind = for_code(code)
    name = _name(kind)
    return WireError(f"{name}: {what}", refused=issubclass(kind, AuthorizationError), code=name)


def _name(kind: type[BrokerResponseError]) -> str:
    return "NOT_LEADER_OR_FOLLOWER" if kind is NotLeaderForPartitionError else str(kind.message)
