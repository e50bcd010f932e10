"""Why a question got no answer."""


class WireError(Exception):
    """There is no answer; ``refused``: the cluster knows us, and does not allow the question."""

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


class NotSupportedError(WireError):
    """The settings ask for something that only librdkafka can do."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(f"{what}: not supported by the client that asks for transactions; {remedy}")
