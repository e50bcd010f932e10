"""What is wrong with a history, and where."""


class HistoryError(ValueError):
    """A history that cannot be read: ``source`` ("-": standard input), ``line`` (from 1), and the ``reason``."""

    def __init__(self, source: str, line: int, reason: str) -> None:
        super().__init__(f"{source}, line {line}: {reason}")
        self.source = source
        self.line = line
        self.reason = reason
