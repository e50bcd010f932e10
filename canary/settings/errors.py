"""What is wrong with settings, and where."""

from __future__ import annotations

from dataclasses import dataclass

from canary.errors import UserError


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong in the settings.

    ``source`` is the file's path, or the name of the environment variable, or "settings" where a default is wrong;
    ``line`` counts from 1, None outside files. ``field`` is like ``clusters[0].topic.partitions``.
    """

    source: str
    line: int | None
    field: str
    message: str
    remedy: str

    def __str__(self) -> str:
        """Return ``file:line: field: what is wrong; what to do``."""
        place = self.source if self.line is None else f"{self.source}:{self.line}"
        return ": ".join(part for part in (place, self.field, self.message) if part) + (
            f"; {self.remedy}" if self.remedy else ""
        )


class SettingsError(UserError):
    """The settings cannot be used; ``problems`` has every reason, in the order of the file."""

    def __init__(self, problems: tuple[Problem, ...]) -> None:
        first, *others = problems
        more = f" (and {len(others)} more: canary config check)" if others else ""
        super().__init__(f"{first}{more}", exit_status=2)
        self.problems = problems
        self.file = first.source
        self.line = first.line
        self.field = first.field
        self.remedy = first.remedy
