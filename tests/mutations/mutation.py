"""One way to break the code, and the tests that must notice."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutation:
    """``original`` stands exactly once in ``file``; with ``mutated`` instead, one of ``tests`` must fail.

    ``tests`` are sets of arguments for pytest, the quickest first: the next set runs only if all of the one before
    pass.
    """

    file: str
    original: str
    mutated: str
    tests: tuple[tuple[str, ...], ...]


def mutations(file: str, tests: tuple[tuple[str, ...], ...], *pairs: tuple[str, str]) -> list[Mutation]:
    """Return the mutations of one file."""
    return [Mutation(file, original, mutated, tests) for original, mutated in pairs]
