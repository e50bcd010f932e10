"""Opens clients of confluent-kafka whose credentials the cluster may refuse at once.

With an OAUTHBEARER token that has expired, or whose file cannot be read, the constructor itself waits for another one
(10 s, fixed) and then raises SASL_AUTHENTICATION_FAILED: the cluster refuses us, which may pass. Any other error of
a constructor is about a property that it does not accept.
"""

import threading
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

Client = TypeVar("Client")

_AGAIN_S = 1.0


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
    make: Callable[[], Client], report: Callable[[KafkaError], None], stopping: threading.Event
) -> Client | None:
    """Return the client once its credentials are accepted; None when ``stopping`` is set before.

    Each refusal goes to ``report``. A constructor that waits is not interrupted.

    Raises:
        KafkaException: it cannot be made for another reason.
    """
    while not stopping.is_set():
        try:
            return opened(make)
        except KafkaException as error:
            refusal_or_raise(error, report)
            stopping.wait(_AGAIN_S)
    return None
