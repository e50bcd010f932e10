"""Every word of ours that pages and alerts use is in docs/glossary.md.

A word is taken for one of ours if a package or module is named by it: names of modules are nouns of the field. Drills
are left out: a drill's file bears the name of a story, in words of Kafka's.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from canary.anomalies.catalogue import CATALOGUE
from dashboards.rules import GROUPS
from tests.structure.test_structure import ROOT, modules

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = re.findall(
    r"^\| ([^|]+) \| ([^|]+) \| `([^`]+)` \|$", (ROOT / "docs/glossary.md").read_text("utf-8"), re.MULTILINE
)
PLAIN = frozenset(
    """
    alert alerts and api availability batch bounds broker brokers cache calls change check client clients cluster
    clusters collection commands commits compaction connection coordinators copies counts credentials cycles data
    database directory edn elections end ends epoch epochs errors export faults fetch files first group groups headers
    health held history idempotent intervals itself kafka kept kernel known last leader lies list live log logs losses
    lost memory messages metrics missing network nightly notify offline offset offsets openapi operation order other own
    page pages partition plain probing process processes producer progress properties questions quorum read reads
    reconcile record records recovery replicas report requests retention rules schedule sends serve settings shared slow
    source stable start state status storage targets tasks threads topic topics transaction transactional transactions
    version versions watched writes wrong
    """.split()  # noqa: SIM905  # a list of words reads better
)
"""Module names that are everyday words, or Kafka's."""
STORIES = ("canary.drills.", "simulation")


def terms() -> set[str]:
    """Return the words that the glossary explains."""
    return {part.strip().lower() for names, _, _ in ROWS for part in names.split(",")}


def texts() -> Iterator[str]:
    """Yield what people read in alerts, in runbooks and on pages."""
    for entry in CATALOGUE.values():
        yield from (entry.title, entry.meaning, entry.implies, entry.do_first, entry.allowed)
    for rules in GROUPS.values():
        for rule in rules:
            yield from (rule.summary, rule.description, *rule.advice)
    for page in (ROOT / "api" / "pages" / "templates").glob("*.html"):
        yield re.sub(r"{[{%#].*?[}%#]}|<[^>]*>", " ", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def singular(word: str) -> set[str]:
    return {word, word.removesuffix("s"), re.sub("ies$", "y", word), word.removesuffix("es")}


def test_each_term_stands_once_with_a_sentence_and_its_code() -> None:
    assert len(ROWS) > 50
    names = [names for names, _, _ in ROWS]
    assert names == sorted(names, key=str.lower)
    for term, meaning, code in ROWS:
        assert meaning.endswith((".", "…")), term
        assert (ROOT / code).exists(), f"{term}: {code}"


def test_terms_that_pages_and_alerts_use_are_in_the_glossary() -> None:
    nouns = {name.split(".")[-1] for name in modules() if not name.startswith(STORIES)}
    ours = {part for noun in nouns for part in noun.split("_")}
    used = {word for text in texts() for word in re.findall(r"[a-z]+", text.lower())}
    explained = terms()
    missing = {word for word in used & ours if not singular(word) & explained and word not in PLAIN and len(word) > 2}
    assert missing == set()


def test_the_design_and_the_glossary_know_the_same_words() -> None:
    for term in ("incarnation", "generation", "claim", "promise", "suspect", "share", "shard", "ledger", "tracker"):
        assert term in terms()
