from __future__ import annotations

import re
from pathlib import Path

import pytest

from canary.anomalies.catalogue import CATALOGUE
from canary.anomalies.policy import CONDITIONS

NAMES = [
    name
    for line in """
lost-write suspected-loss unseen duplicate inconsistent-offsets G1a precommitted-read fractured-transaction poll-skip
nonmonotonic-poll
int-poll-skip int-nonmonotonic-poll int-send-skip int-nonmonotonic-send nonmonotonic-send reorder G0 G1c corrupt phantom
zombie-write truncation offset-regression committed-offset-regression early-expiry offline-partition isr-of-one
unexplained-expiry
under-min-isr isr-below-half under-replicated unclean-election leader-epoch-regression topic-recreated another-cluster
metadata-went-back promises-void watched-topic-gone topic-deleted
clock-skew blind memory-lost unwritable stalled group-stuck group-reset group-offsets-expired hanging-transaction
replica-divergence
mirror-gap mirror-offset-skips mirror-copies
record-lost record-changed
""".splitlines()
    for name in line.split()
]


def test_every_anomaly_of_the_design_is_in_the_catalogue_once() -> None:
    assert sorted(CATALOGUE) == sorted(NAMES)
    assert all(name == anomaly.name for name, anomaly in CATALOGUE.items())


@pytest.mark.parametrize("name", NAMES)
def test_an_entry_tells_whoever_is_paged_all_they_need(name: str) -> None:
    anomaly = CATALOGUE[name]
    for text in (anomaly.title, anomaly.meaning, anomaly.implies, anomaly.do_first, anomaly.source):
        assert text
        assert "  " not in text
    assert re.fullmatch(r"[A-Z][^.]*(\.[^ ][^.]*)*\.", anomaly.meaning), "one sentence"
    assert anomaly.scopes
    assert anomaly.severity == anomaly.severities[0]


def test_conditions_are_those_that_the_design_names() -> None:
    text = (Path(__file__).parents[2] / "docs/design/anomalies.md").read_text(encoding="utf-8")
    (named,) = re.findall(r"^Conditions \((.*?)\)", text, re.DOTALL | re.MULTILINE)
    assert set(re.findall(r"`([a-z-]+)`", named)) == CONDITIONS


def test_what_the_protocol_always_allows_never_pages() -> None:
    for name in ("G0", "int-send-skip"):
        assert CATALOGUE[name].severities == ("info",)
        assert CATALOGUE[name].allowed
