"""A topic is opened beside the runner's loop: asked for until it answers, and made ready once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from canary.runner.topics import opener
from canary.runner.topics.opener import TopicOpener
from storage.store import StoreError
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opener, "_AGAIN_S", 0.01)


def attempt(question: Callable[[], Any], _what: str) -> Any:
    try:
        return question()
    except StoreError:
        return None


def opened(ensured: list[bool | None], made: list[str | None]) -> TopicOpener[str]:
    """Return an opener that has an answer; of the answers to come None is none."""

    def make() -> str:
        found = made.pop(0)
        if found is None:
            raise StoreError("away")
        return found

    one = TopicOpener("t", attempt, ensure=lambda: ensured.pop(0), make=make)  # type: ignore[arg-type, return-value]
    one.start()
    until(lambda: one.done, 10, "it has an answer")
    assert (ensured, made) == ([], [])
    return one


def test_it_asks_until_the_cluster_and_then_the_store_answer() -> None:
    assert opened([None, None, True], [None, None, "probes"]).found == "probes"


def test_a_topic_that_cannot_be_is_an_answer() -> None:
    assert opened([False], []).found is None


def test_it_asks_no_more_once_it_is_stopped() -> None:
    one = TopicOpener("t", attempt, ensure=lambda: None, make=str)  # type: ignore[arg-type, return-value]
    one.start()
    assert one.stop(5)
    assert not one.done
