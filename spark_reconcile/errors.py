"""What is the user's to mend."""

from __future__ import annotations

from canary.errors import UserError


class BadInputError(UserError):
    """Probe log or dump cannot be used: one line that names file, folder or column. Exit status 2."""

    def __init__(self, place: str, problem: str, remedy: str = "") -> None:
        super().__init__(f"{place}: {problem}" + (f"; {remedy}" if remedy else ""), exit_status=2)
        self.place = place
        self.problem = problem
        self.remedy = remedy

    def __reduce__(self) -> tuple[type[BadInputError], tuple[str, str, str]]:
        """Survive the way from a Spark worker to the driver."""
        return type(self), (self.place, self.problem, self.remedy)


class UnreachableError(UserError):
    """A cluster, or Spark itself, does not answer. Exit status 3."""

    def __init__(self, message: str) -> None:
        super().__init__(message, exit_status=3)
