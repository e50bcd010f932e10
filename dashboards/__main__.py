"""``python -m dashboards [--check]``: writes dashboards, rules and runbooks; with --check only says what differs."""

from __future__ import annotations

import sys
from pathlib import Path

from dashboards.boards import boards
from dashboards.concepts import concepts
from dashboards.drawings import PICTURES, drawing
from dashboards.rules import groups, rules_yaml, runbook, runbooks_index, runbooks_json
from dashboards.settings_reference import settings_reference

ROOT = Path(__file__).parent.parent


def made() -> dict[Path, str]:
    """Return every file that is made from code, by its path in the repository."""
    generated = Path("dashboards/generated")
    chart = Path("deploy/helm/kafka-durability-canary/files")
    files = {place / "rules.yml": rules_yaml() for place in (generated, chart)}
    for uid, text in boards().items():
        files |= {place / f"{uid}.json": text for place in (generated / "grafana", chart / "dashboards")}
    files[Path("docs/configuration.md")] = settings_reference()
    files[Path("docs/concepts.md")] = concepts()
    files |= {Path("docs/pictures") / f"{name}.svg": drawing(name) for name in PICTURES}
    files[Path("api/runbooks.json")] = runbooks_json()
    files[Path("docs/runbooks/index.md")] = runbooks_index()
    for rules in groups().values():
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
