"""schemathesis on the whole API with auth on: no 5xx, no undocumented status, answers match the schema."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import CHECKS
from schemathesis.core.result import Ok

from api import create_app
from storage.probe_log.reading import ProbeLogReader
from storage.probe_log.schemas import PROBES
from storage.store import Store
from tests.api import serving
from tests.support.seeds import examples

if TYPE_CHECKING:
    from pathlib import Path

    from schemathesis import BaseSchema, Case

pytestmark = pytest.mark.e2e

STREAM = "/api/v1/stream"


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> BaseSchema:
    directory: Path = tmp_path_factory.mktemp("fuzzed")
    store = Store.connect(f"sqlite:///{directory}/store.db", timeout=5)
    store.upgrade()
    at_ns = time.time_ns()
    store.views.save("prod", "canary-0", at_ns, serving.view())
    store.violations.record("prod", [serving.lost(n) for n in range(5)])
    token, _ = store.tokens.create("fuzz", "operate", time.time_ns())
    (directory / "log" / "probes").mkdir(parents=True)
    pq.write_table(PROBES.empty_table(), directory / "log" / "probes" / "prod--canary-0--ab-0000000001.parquet")
    told = serving.settings("prod", auth={"required": "always"}, hosts=("testserver",))
    app = create_app(told, store, ProbeLogReader(str(directory / "log")))
    app.state.canary = replace(app.state.canary, now_ns=lambda: at_ns, monotonic=lambda: 0.0)  # it stays ready
    loaded = schemathesis.openapi.from_asgi("/openapi.json", app, headers={"Authorization": f"Bearer {token}"})
    loaded.config.update(headers={"Authorization": f"Bearer {token}"})
    return loaded


def test_every_operation_keeps_its_contract(schema: BaseSchema) -> None:
    names = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance")
    checks: Any = [CHECKS.get_one(name) for name in names]
    tried = 0
    for found in schema.get_all_operations():
        assert isinstance(found, Ok), found
        operation = found.ok()
        if operation.path == STREAM:
            continue
        tried += 1

        @given(case=operation.as_strategy())
        @settings(max_examples=examples(15), suppress_health_check=list(HealthCheck))
        def keeps(case: Case[Any]) -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answer = case.call()
            case.validate_response(answer, checks=checks)

        keeps()
    assert tried >= 20
