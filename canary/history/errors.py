"""What is wrong with a history, and where."""


class HistoryError(ValueError):
    """A history that cannot be read.

    Attributes:
        source: The file's name, "-" for standard input.
        line: Number of the line, from 1.
        reason: What is wrong there.
    """

    def __init__(self, source: str, line: int, reason: str) -> None:
        super().__init__(f"{source}, line {line}: {reason}")
        self.source = source
        self.line = line
        self.reason = reason
