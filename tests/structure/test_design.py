"""docs/design says what the code does: names, columns, paths, statuses, and every rule that the code cites."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from api import create_app, health
from api.metrics import collect
from api.pages import clusters, incident, incident_list, records, runbooks, status
from api.rest.clusters import Summary
from api.rest.violations import ViolationOut
from canary.anomalies.catalogue import CATALOGUE
from canary.cli import A_BUG, app
from canary.errors import FAILED
from canary.metrics import METRICS
from spark_reconcile.match.rules import VERDICTS
from spark_reconcile.tables.schema import TABLES
from storage.probe_log.schemas import POLLS, PROBES, TRANSACTIONS
from tests.api.serving import BrokenStore, settings
from tests.structure.test_structure import PACKAGES, ROOT, modules

if TYPE_CHECKING:
    from collections.abc import Iterator

DESIGN = ROOT / "docs" / "design"
PAGES = {path.stem: path.read_text(encoding="utf-8") for path in DESIGN.glob("*.md")}
CONTRACTS = PAGES["contracts"]
SUFFIXES = {".py", ".md", ".jinja", ".html", ".tpl", ".yaml", ".yml", ".toml"}
NUMBERS = r"(\d+(?:(?:, | and | to )\d+)*)"


def section(page: str, heading: str) -> str:
    """Return what is below a heading, up to the next of its depth."""
    found = re.search(rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#{{1,2}} |\Z)", PAGES[page], re.DOTALL | re.MULTILINE)
    assert found, heading
    return found[2]


def test_every_metric_is_in_the_contracts_with_its_labels_and_no_other() -> None:
    rows = re.findall(r"^\| `(canary_\w+)` \| ([\w, ]*) \| (\w+) \|", CONTRACTS, re.MULTILINE)
    assert rows == [(one.name, ", ".join(one.labels), one.type) for one in METRICS.values()]
    named = set(re.findall(r"\bcanary_[a-z_]+", "".join(PAGES.values())))
    assert named - {"canary_receipts"} <= set(METRICS)  # a package that applications import


def test_every_path_of_rest_is_in_the_contracts_and_no_other() -> None:
    made = create_app(settings("prod"), BrokenStore(int))
    served = {f"{method.upper()} {path}" for path, methods in made.openapi()["paths"].items() for method in methods}
    assert set(re.findall(r"^\| `([A-Z]+ /[^`]*)` \|", CONTRACTS, re.MULTILINE)) == served
    pages = {
        route.path
        for module in (status, clusters, incident_list, incident, records, runbooks)
        for route in module.router.routes
    }
    pages |= {
        route.path for route in (*health.router.routes, *collect.router.routes, *made.routes) if hasattr(route, "path")
    }
    named = {re.sub(r"{.*?}", "{}", path) for path in pages}
    said = {re.sub(r"{.*?}|NAME", "{}", path) for path in re.findall(r"`(/[^`]*)`", section("contracts", "REST"))}
    assert len(said) > 8
    assert said <= named


@pytest.mark.parametrize("body", [ViolationOut, Summary], ids=lambda body: body.__name__)
def test_every_field_of_a_body_that_others_rely_on_is_in_the_contracts(body: type[ViolationOut | Summary]) -> None:
    assert [name for name in body.model_fields if f'"{name}"' not in section("contracts", "REST")] == []


def columns(table: str) -> dict[str, tuple[str, bool]]:
    """Return type and whether it may be null, by column, as the contracts have it."""
    row = re.search(rf"^\| {table}/ \| (.*) \|$", CONTRACTS, re.MULTILINE)
    assert row, table
    found = re.findall(r"(\w+) (str|i32|i64|ts|bool)(?:\[us,UTC\])?(\??)(?: \([^)]*\))?(?:, |$)", row[1])
    return {name: (kind, bool(null)) for name, kind, null in found}


@pytest.mark.parametrize("table", TABLES)
def test_every_column_is_in_the_contracts(table: str) -> None:
    assert columns(table) == {name: (one.type, one.nullable) for name, one in TABLES[table].items()}


def test_the_probe_log_has_the_columns_of_the_contracts() -> None:
    for table, schema in (("probes", PROBES), ("transactions", TRANSACTIONS), ("polls", POLLS)):
        assert list(columns(table)) == schema.names


def test_every_command_is_in_the_contracts_and_no_other() -> None:
    def names(command: Any, words: str) -> Iterator[str]:
        if isinstance(command, TyperGroup):
            if command.invoke_without_command and words != "canary":
                yield words
            for name, inner in command.commands.items():
                yield from names(inner, f"{words} {name}")
        else:
            yield words

    first = [row.split("|")[1] for row in section("contracts", "Commands").splitlines() if row.startswith("| `")]
    said = {" ".join(found.split()) for cell in first for found in re.findall(r"`(canary [a-z]+(?: [a-z]+)?)", cell)}
    assert said == set(names(get_command(app), "canary"))


def _is_exit(function: ast.expr) -> bool:
    """Tell whether it is typer.Exit or sys.exit; most are neither by their last name."""
    return getattr(function, "attr", "") in {"Exit", "exit"} and ast.unparse(function) in {"typer.Exit", "sys.exit"}


def statuses() -> Iterator[int]:
    """Yield the exit statuses that the code names as numbers."""
    for tree in modules().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == "exit_status":
                value: ast.expr | None = node.value
            elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "exit_status":
                value = node.value
            elif isinstance(node, ast.Call) and node.args and _is_exit(node.func):
                value = node.args[0]
            elif isinstance(node, ast.FunctionDef) and node.name == "exit_status":
                value = None
                yield from (
                    one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and type(one.value) is int
                )
            else:
                continue
            if isinstance(value, ast.Constant) and type(value.value) is int:
                yield value.value


@pytest.mark.dear("the first that reads all modules of the product, for all tests of this folder")
def test_every_exit_status_is_in_the_contracts() -> None:
    documented = {int(number) for number in re.findall(r"^\| (\d+) \|", section("contracts", "Commands"), re.MULTILINE)}
    assert {*statuses(), FAILED, A_BUG} <= documented
    assert documented == {0, 1, 2, 3, 4, 70}


def test_every_anomaly_is_in_the_design_and_no_other() -> None:
    rows = re.findall(r"^\| (`.*?`) \| ", PAGES["anomalies"].split("# Part II")[1], re.MULTILINE)
    assert {name for cell in rows for name in re.findall(r"`([\w-]+)`", cell)} == set(CATALOGUE)


def test_verdicts_are_those_of_the_design_in_its_order() -> None:
    listed = section("reconciliation", "6. Verdicts").split(":", 1)[1].split(";")[0]
    assert [name.strip() for name in listed.split(",")] == list(VERDICTS[:-2])
    for verdict in VERDICTS[:-1]:
        assert re.search(rf"\b{verdict}\b", section("contracts", "Probe log and dump"))


def numbered(text: str) -> set[int]:
    """Return the numbers that a citation names: 7, 8 and 10 to 12."""
    first_last = re.findall(r"(\d+) to (\d+)", text)
    between = {number for first, last in first_last for number in range(int(first), int(last) + 1)}
    return between | {int(number) for number in re.findall(r"\d+", text)}


def texts() -> Iterator[tuple[str, str]]:
    """Yield the files of the repository that may cite the design, each as one line."""
    for folder in (*PACKAGES, "tests", "docs", "deploy"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES and path.name != "test_design.py":
                content = path.read_text(encoding="utf-8")
                yield str(path.relative_to(ROOT)), re.sub(r"\s*\n\s*(?:#:? )?", " ", content)


def test_every_citation_leads_to_a_heading_or_a_number() -> None:
    part_one = PAGES["anomalies"].split("# Part II")[0]
    known = {
        rf"ARCHITECTURE(?:\.md)?,? decisions? {NUMBERS}": re.findall(
            r"^### (\d+)\.", PAGES["architecture"], re.MULTILINE
        ),
        rf"RECONCILIATION(?:\.md)?,?(?: rules?)? {NUMBERS}": re.findall(
            r"^### (\d+)\.", PAGES["reconciliation"], re.MULTILINE
        ),
        rf"ANOMALIES Part I,? (?:once more, )?rules? {NUMBERS}": re.findall(r"^\*\*(\d+)\.", part_one, re.MULTILINE),
        rf"ANOMALIES Part I, section {NUMBERS}": re.findall(r"^## Section (\d+)", part_one, re.MULTILINE),
        rf"FIELD-NOTES rows? {NUMBERS}": re.findall(r"^\| (\d+) \|", PAGES["field-notes"], re.MULTILINE),
    }
    headings = {
        "CONTRACTS": re.findall(r"^#+ (.*)$", CONTRACTS, re.MULTILINE),
        "FIELD-NOTES": re.findall(r"^#+ (.*)$", PAGES["field-notes"], re.MULTILINE),
    }
    cited = 0
    for path, text in texts():
        for pattern, numbers in known.items():
            for found in re.finditer(pattern, text):
                cited += 1
                assert numbered(found[1]) <= {int(number) for number in numbers}, f"{path}: {found[0]}"
        for name, there in headings.items():
            for found in re.finditer(rf'{name},? "([^"]+)"', text):
                assert any(found[1].lower() in heading.lower() for heading in there), f"{path}: {found[0]}"
        for part in re.findall(r"ANOMALIES Part (\w+)", text):
            assert part in {"I", "II"}, path
    assert cited > 40


def test_no_text_cites_what_the_repository_does_not_hold() -> None:
    for path, text in texts():
        assert "shared/design" not in text, path
        for page in re.findall(r"docs/design/([\w-]+)\.md", text):
            assert page in PAGES, path
