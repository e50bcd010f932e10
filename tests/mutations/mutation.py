"""One way to break the code, and the tests that must notice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulation.search.edits import Edit

if TYPE_CHECKING:
    from collections.abc import Collection


@dataclass(frozen=True, slots=True)
class Mutation:
    """With ``edit`` made, one of ``tests`` must fail.

    ``tests`` are sets of arguments for pytest, the quickest first: the next set runs only if all of the one before
    pass.
    """

    edit: Edit
    tests: tuple[tuple[str, ...], ...]

    def chosen(self, numbers: Collection[int] | None) -> tuple[tuple[str, ...], ...]:
        """Return the sets of tests with these numbers, from 1; all for None."""
        return tuple(tests for n, tests in enumerate(self.tests, 1) if numbers is None or n in numbers)


def mutations(file: str, tests: tuple[tuple[str, ...], ...], *edits: tuple[str, str, str]) -> list[Mutation]:
    """Return the mutations of one file, each of scope, original and replacement (``simulation.search.edits.Edit``)."""
    return [Mutation(Edit(file, *edit), tests) for edit in edits]
