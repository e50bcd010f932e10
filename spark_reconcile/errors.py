"""Errors that the user can mend."""

from __future__ import annotations

from canary.errors import UserError


class BadInputError(UserError):
    """Probe log, dump or output folder cannot be used; names the file, folder or column. Exit status 2."""

    def __init__(self, place: str, problem: str, remedy: str = "") -> None:
        super().__init__(f"{place}: {problem}" + (f"; {remedy}" if remedy else ""), exit_status=2)
        self._given = (place, problem, remedy)

    def __reduce__(self) -> tuple[type[BadInputError], tuple[str, str, str]]:
        """Let the error be pickled from a Spark worker to the driver."""
        return type(self), self._given


class UnreachableError(UserError):
    """A cluster, or Spark itself, does not answer. Exit status 3."""

    exit_status = 3


def reason_of(error: BaseException) -> str:
    """Return why something failed, for people: in an error's own words, or what was not foreseen, on one line."""
    return str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}".splitlines()[0]
