"""The digest of a record is what `canary.facts.digests` says, for ever: receipts are compared with it years later."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from canary.facts.digests import digest, place

VECTORS = json.loads((Path(__file__).parent / "digests.json").read_text(encoding="utf-8"))


def of(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


@pytest.mark.parametrize("record", VECTORS["records"], ids=lambda record: record["name"])
def test_a_record_has_the_digest_that_other_languages_compute(record: dict[str, Any]) -> None:
    headers = [(name, of(content)) for name, content in record["headers"]]
    assert digest(of(record["key"]), of(record["value"]), headers) == record["digest"]
    if not headers:
        assert digest(of(record["key"]), of(record["value"]), None) == record["digest"]


def test_records_that_differ_in_anything_have_different_digests() -> None:
    assert len({record["digest"] for record in VECTORS["records"]}) == len(VECTORS["records"])


@pytest.mark.parametrize("one", VECTORS["places"], ids=lambda one: str(one["offset"]))
def test_a_place_has_the_digest_that_other_languages_compute(one: dict[str, int]) -> None:
    assert place(one["offset"], one["timestamp_ms"], one["digest"]) == one["place"]
