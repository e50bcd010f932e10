"""Opens clients of confluent-kafka whose credentials the cluster may refuse at once.

With an OAUTHBEARER token that has expired, or whose file cannot be read, the constructor itself waits for another one
(10 s, fixed) and then raises SASL_AUTHENTICATION_FAILED: the cluster refuses us, which may pass. Any other error of
a constructor is about a property that it does not accept.

``Clients`` is the port to the client library: a simulator puts its own in the place of confluent-kafka's.
"""

from collections.abc import Callable
from logging import Logger
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from canary.threads import system

Client = TypeVar("Client")

_AGAIN_S = 1.0


class Clients:
    """Makes clients from librdkafka properties and what they log to."""

    def producer(self, config: dict[str, Any], logger: Logger) -> Any:
        """Return a new producer."""
        return Producer(config, logger=logger)

    def consumer(self, config: dict[str, Any], logger: Logger) -> Any:
        """Return a new consumer."""
        return Consumer(config, logger=logger)

    def admin(self, config: dict[str, Any], logger: Logger) -> Any:
        """Return a new admin client."""
        return AdminClient(config, logger=logger)


_clients = Clients()


def use(clients: Clients) -> Clients:
    """Let every client be made by ``clients`` from now on; return what made them before."""
    global _clients
    before, _clients = _clients, clients
    return before


def producer(config: dict[str, Any], logger: Logger) -> Any:
    """Return a new producer.

    Raises:
        KafkaException: it cannot be made.
    """
    return opened(lambda: _clients.producer(config, logger))


def consumer(config: dict[str, Any], logger: Logger) -> Any:
    """Return a new consumer.

    Raises:
        KafkaException: it cannot be made.
    """
    return opened(lambda: _clients.consumer(config, logger))


def admin(config: dict[str, Any], logger: Logger) -> Any:
    """Return a new admin client.

    Raises:
        KafkaException: it cannot be made.
    """
    return opened(lambda: _clients.admin(config, logger))


def opened(make: Callable[[], Client]) -> Client:
    """Return the client that ``make`` makes.

    Raises:
        KafkaException: it cannot be made.
    """
    try:
        return make()
    except SystemError as error:  # a consumer calls its error_cb while it raises: confluent-kafka 2.16
        if isinstance(error.__cause__, KafkaException):
            raise error.__cause__ from error
        raise


def refusal_or_raise(error: KafkaException, report: Callable[[KafkaError], None]) -> KafkaError:
    """Return what a constructor raised if it may pass, and report it; raises it again if not."""
    refusal: KafkaError = error.args[0]
    if refusal.code() != KafkaError.SASL_AUTHENTICATION_FAILED:
        raise error
    report(refusal)
    return refusal


def opened_in_time(
    make: Callable[[], Client], report: Callable[[KafkaError], None], stopping: system.Event
) -> Client | None:
    """Return the client once its credentials are accepted; None when ``stopping`` is set before.

    ``make`` calls a function of this module. Each refusal goes to ``report``. A constructor that waits is not
    interrupted.

    Raises:
        KafkaException: it cannot be made for another reason.
    """
    while not stopping.is_set():
        try:
            return make()
        except KafkaException as error:
            refusal_or_raise(error, report)
            stopping.wait(_AGAIN_S)
    return None
