"""Why a question got no answer, and what bytes are no records."""


class WireError(Exception):
    """There is no answer.

    Attributes:
        refused: the cluster knows us, and does not allow the question.
        code: what the broker answered instead, in Kafka's words (``OFFSET_OUT_OF_RANGE``); "" if it answered nothing.
    """

    def __init__(self, message: str, *, refused: bool = False, code: str = "") -> None:
        super().__init__(message)
        self.refused = refused
        self.code = code


class NotSupportedError(WireError):
    """The settings ask for something that only librdkafka can do."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}: not supported by kafka-python, which asks what librdkafka does not; {remedy}")


class RecordsError(Exception):
    """Bytes that are no record batch; ``position`` is where that batch begins, in bytes from the start of the data."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"at byte {position}: {reason}")
        self.position = position
        self.reason = reason
