"""What an audit concludes when somebody does not tell its settings."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from canary.threads.ports import SteadyClock
from canary.watching.audit.auditor import Auditor
from canary.watching.audit.checks import check
from canary.watching.audit.collection import UnreachableError, collect
from canary.watching.selection import Selection

UNSAFE = {
    "min.insync.replicas": SimpleNamespace(value="1", is_sensitive=False, source=1),  # set on the topic
}
SILENCES = (
    *(KafkaException(KafkaError(code)) for code in (KafkaError._TIMED_OUT, KafkaError._TRANSPORT)),
    TimeoutError(),
)
RIGHTS = KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))


class Cluster:
    """An AdminClient of a cluster with a topic that is set unsafely; ``refusal`` is what asking for that gives."""

    def __init__(self) -> None:
        self.refusal: Exception | None = None

    def list_topics(self, **_: object) -> Any:
        parts = {0: SimpleNamespace(replicas=[1, 2, 3])}
        return SimpleNamespace(brokers=(1, 2, 3), topics={"probes": SimpleNamespace(partitions=parts)})

    def describe_configs(self, resources: list[Any], **_: object) -> dict[Any, Future[Any]]:
        (resource,) = resources
        if resource.name != "probes":
            return {resource: done({})}
        return {resource: done(self.refusal or UNSAFE)}


def done(outcome: Any) -> Future[Any]:
    future: Future[Any] = Future()
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
    return future


def audited(cluster: Cluster) -> list[str]:
    """Return the checks that found something in the probe topic."""
    found = check(collect(cluster, {"probes"}, Selection()))
    return [one.check for one in found.findings if one.where == "topic probes"]


@pytest.mark.parametrize("silence", SILENCES, ids=str)
def test_what_nobody_answered_is_not_safe(silence: Exception) -> None:
    cluster = Cluster()
    assert audited(cluster) == ["min-isr"]
    cluster.refusal = silence
    with pytest.raises(UnreachableError, match="the settings of topic probes were not told"):
        audited(cluster)


def test_what_nobody_may_tell_is_a_note() -> None:
    cluster = Cluster()
    cluster.refusal = RIGHTS
    found = collect(cluster, {"probes"}, Selection())
    assert [note.where for note in found.notes if "Grant DESCRIBE_CONFIGS" in note.text] == ["topic probes"]


def test_the_last_audit_stands_until_everybody_answers_and_that_is_tried_again_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster, waits, found = Cluster(), list[float](), list[list[str]]()
    refusals = iter([*SILENCES[1:], None])

    def wait(auditor: Auditor, seconds: float) -> bool:
        assert auditor.latest is not None
        waits.append(seconds)
        found.append([one.check for one in auditor.latest[1].findings])
        cluster.refusal = next(refusals, None)
        return len(waits) < 4

    monkeypatch.setattr(Auditor, "wait", wait)
    auditor = Auditor(
        {"bootstrap.servers": "127.0.0.1:1"},
        lambda _: collect(cluster, {"probes"}, Selection()),
        SteadyClock(),
        3600.0,
    )
    auditor.run()
    assert waits == [3600.0, 10.0, 10.0, 3600.0]
    assert all("min-isr" in checks for checks in found)
