"""``python -m dashboards [--check]``: writes dashboards, rules and runbooks; with --check only names what differs."""

import sys
from pathlib import Path

from canary.anomalies.catalogue import CATALOGUE
from dashboards.boards.catalogue import boards
from dashboards.reference.alerts import rules_yaml, runbook, runbooks_index, runbooks_json
from dashboards.reference.concepts import concepts
from dashboards.reference.conditions import conditions
from dashboards.reference.drawings import drawing
from dashboards.reference.drills import drills_page
from dashboards.reference.settings import settings_reference
from dashboards.reference.workloads import with_table
from dashboards.rules import GROUPS

ROOT = Path(__file__).parent.parent
GENERATED = Path("deploy/helm/kafka-durability-canary/files")
"""Rules and dashboards lie in the Helm chart, which can read no file outside; the wheel takes them from there."""


def made() -> dict[Path, str]:
    """Return every file that is made from code, by its path in the repository."""
    files = {GENERATED / "rules.yml": rules_yaml()}
    files |= {GENERATED / "dashboards" / f"{uid}.json": text for uid, text in boards().items()}
    files[Path("docs/configuration.md")] = settings_reference()
    files[Path("docs/concepts.md")] = concepts()
    files[Path("docs/conditions.md")] = conditions()
    files[Path("docs/drills.md")] = drills_page(ROOT / "docs/drills.jsonl")
    files[Path("docs/modes.md")] = with_table(ROOT / "docs/modes.md")
    files |= {Path("docs/pictures") / f"{name}.svg": drawing(name) for name in CATALOGUE}
    files[Path("api/pages/runbooks.json")] = runbooks_json()
    files[Path("docs/runbooks/index.md")] = runbooks_index()
    for rules in GROUPS.values():
        files |= {Path("docs/runbooks") / f"{rule.name}.md": runbook(rule) for rule in rules}
    return files


def main(arguments: list[str]) -> int:
    """Write the files that differ, or name them; return the exit status (1: --check found a difference)."""
    stale = {path: text for path, text in made().items() if not _holds(ROOT / path, text)}
    for path, text in stale.items():
        print(path)  # noqa: T201  # the command's output
        if "--check" not in arguments:
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_text(text, encoding="utf-8")
    return int(bool(stale) and "--check" in arguments)


def _holds(path: Path, text: str) -> bool:
    return path.is_file() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
