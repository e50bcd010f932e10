"""The checker against a plain reading of the same rules, on arbitrary histories."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import orjson

from canary.anomalies.offline import Options, check
from canary.history.reading import load
from simulation.histories.wild import seeded, wild_history
from tests.anomalies.offline.reference import Reference
from tests.support.seeds import cases

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from canary.anomalies.offline import Verdict

ORDERED = {
    "int-poll-skip",
    "int-nonmonotonic-poll",
    "int-send-skip",
    "int-nonmonotonic-send",
    "poll-skip",
    "nonmonotonic-poll",
    "nonmonotonic-send",
}


def verdict_on(history: list[dict[str, Any]], *, ww_deps: bool = True) -> Verdict:
    file = io.BytesIO(b"".join(orjson.dumps(op) + b"\n" for op in history))
    return check(load(file, "history"), Options(ww_deps=ww_deps))


def comparable(cases: Iterable[Mapping[str, Any]], leave_out: frozenset[str]) -> list[str]:
    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return sorted((repr(k), plain(v)) for k, v in value.items())
        if isinstance(value, (set, list, tuple)):
            return sorted(map(repr, value))
        return value

    return sorted(repr(plain({k: v for k, v in case.items() if k not in leave_out})) for case in cases)


LEAVE_OUT = {
    "inconsistent-offsets": frozenset({"ops"}),
    "duplicate": frozenset({"ops"}),
    "lost-write": frozenset({"offset"}),
    "phantom": frozenset({"offset"}),
    "precommitted-read": frozenset({"key", "value"}),
}


def compare(history: list[dict[str, Any]], *, ww_deps: bool, mixed: bool) -> None:
    reference = Reference(history, ww_deps=ww_deps)
    expected = reference.check()
    verdict = verdict_on(history, ww_deps=ww_deps)
    chosen = mixed and "inconsistent-offsets" in expected  # the order hangs on a choice then
    for name in sorted(set(expected) | set(verdict.anomalies) - {"G0", "G1c"}):
        if chosen and name in ORDERED:
            continue
        leave_out = LEAVE_OUT.get(name, frozenset())
        ours = comparable(verdict.anomalies.get(name, ()), leave_out)
        assert ours == comparable(expected.get(name, ()), leave_out), name
    if not chosen:
        compare_cycles(reference, verdict)


def compare_cycles(reference: Reference, verdict: Verdict) -> None:
    ww, wr = reference.edges()
    for name, expected in reference.cycles().items():
        cases = verdict.anomalies.get(name, ())
        assert len(cases) == len(expected), name
        for case in cases:
            edges = case["edges"]
            assert [edge["from"] for edge in edges] == case["ops"]
            assert [edge["to"] for edge in edges] == [*case["ops"][1:], case["ops"][0]]
            for edge in edges:
                assert (edge["from"], edge["to"]) in (wr if edge["type"] == "wr" else ww)
            assert name == "G0" or any(edge["type"] == "wr" for edge in edges)
            assert any(len(edges) == length and component >= set(case["ops"]) for component, length in expected), (
                "a shortest cycle of its component"
            )


def test_every_rule_agrees_with_the_reference_on_arbitrary_histories() -> None:
    for seed in cases("arbitrary histories", 400):
        mixed, ww_deps = seed % 3 == 0, seed % 2 == 0
        compare(wild_history(seeded(seed), mixed=mixed), ww_deps=ww_deps, mixed=mixed)
