"""Groups and transactions of applications on a real broker that knows who asks, and may refuse.

Over plain text everybody is a super user, over TLS one has to log in and may do what is permitted.
"""

from __future__ import annotations

import datetime as dt
import re
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka.structs import TopicPartition as Place

from canary.anomalies.groups.rounds import Groups, PlaceView
from canary.anomalies.groups.stable import Stable
from canary.anomalies.mirrormaker.mirror import Link, Mirror
from canary.facts import ClusterMet, EpochSeen, QuorumSeen
from canary.lab import NodeProperties
from canary.lab.state import CONTROLLER, free_ports
from canary.settings.credentials import token_of
from canary.threads.ports import SteadyClock
from canary.watching.elections.epoch_watcher import EpochWatcher
from canary.watching.elections.quorum_watcher import QuorumWatcher
from canary.watching.groups.group_watcher import GroupWatcher
from canary.watching.groups.transaction_watcher import TransactionWatcher
from canary.watching.mirrormaker.mirror_watcher import MirrorProgress, MirrorWatcher
from canary.wire.client import opened
from canary.wire.errors import WireError
from canary.wire.transactions import open_in
from tests.runner.test_credentials import unsigned
from tests.support.certificates import self_signed
from tests.support.heard import Heard
from tests.support.labs import Watched
from tests.support.process import Canary
from tests.support.recording import Recording
from tests.support.waiting import in_time, until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from canary.anomalies.violation import Violation
    from canary.lab import Lab

pytestmark = [pytest.mark.kafka, pytest.mark.quick]

USER, PASSWORD = "canary", "a-secret"
_LOGIN = "org.apache.kafka.common.security"
_SECURE = "listener.name.secure"


@pytest.fixture(scope="module", name="secure")
def _secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Lab, dict[str, Any]]]:
    """The broker, and the properties of a client over TLS that has not said yet who it is."""
    folder = tmp_path_factory.mktemp("secure")
    certificate, key = self_signed(dt.datetime.now(dt.UTC) + dt.timedelta(days=30))
    (folder / "ca.pem").write_bytes(certificate)
    (folder / "broker.pem").write_bytes(key + certificate)
    controller, plain, secure = free_ports(3)
    authorizer = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    broker = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},SECURE://127.0.0.1:{secure}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL",
        f"{_SECURE}.ssl.keystore.type": "PEM",
        f"{_SECURE}.ssl.keystore.location": str(folder / "broker.pem"),
        f"{_SECURE}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        f"{_SECURE}.plain.sasl.jaas.config": f'{_LOGIN}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
        f"{_SECURE}.scram-sha-256.sasl.jaas.config": f"{_LOGIN}.scram.ScramLoginModule required;",
        f"{_SECURE}.scram-sha-512.sasl.jaas.config": f"{_LOGIN}.scram.ScramLoginModule required;",
        f"{_SECURE}.oauthbearer.sasl.jaas.config": (
            f'{_LOGIN}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
        ),
        **authorizer,
    }
    properties = NodeProperties(controller=authorizer, single={1: broker})
    lab = Watched(folder / "lab", brokers=1, profile="quick", properties=properties, die_with_parent=True)
    lab._site.wanted.ports.update({CONTROLLER: controller, 1: plain})
    with lab:
        yield (
            lab,
            {
                "bootstrap.servers": f"127.0.0.1:{secure}",
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": str(folder / "ca.pem"),
                "log_level": 0,
            },
        )


@pytest.fixture(name="open_to_all", scope="module")
def _open_to_all(secure: tuple[Lab, dict[str, Any]]) -> dict[str, Any]:
    return {"bootstrap.servers": secure[0].bootstrap, "log_level": 0}


@pytest.fixture(name="admin", scope="module")
def _admin(open_to_all: dict[str, Any]) -> AdminClient:
    return AdminClient(open_to_all)


def topic(admin: AdminClient, name: str) -> str:
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    return name


def produce(config: dict[str, Any], name: str, records: int) -> None:
    producer = Producer(config)
    for _ in range(records):
        producer.produce(name, b"order", partition=0)
    in_time(producer.flush(30) == 0, "all acknowledgements")


def watching(config: dict[str, Any], heard: Heard, names: Sequence[str], patience_s: float = 1.0) -> GroupWatcher:
    return GroupWatcher(config, names, "durability-canary", Groups(patience_s, 50), heard, SteadyClock(), 0.2)


def test_a_group_is_stuck_reads_on_is_reset_and_loses_its_place(
    admin: AdminClient, open_to_all: dict[str, Any]
) -> None:
    name, group, heard = topic(admin, "orders"), "billing", Heard()
    produce(open_to_all, name, 100)
    reader = Consumer({**open_to_all, "group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest"})
    reader.subscribe([name])
    until(lambda: reader.poll(0.2), 30, "the reader is a member")
    reader.commit(offsets=[TopicPartition(name, 0, 40, leader_epoch=0)], asynchronous=False)
    watcher = watching(open_to_all, heard, ["bill*", "none-such"])
    watcher.start()
    try:

        def place() -> PlaceView | None:
            groups = watcher.latest.groups if watcher.latest is not None else ()
            return next((one for seen in groups if seen.group == group for one in seen.places), None)

        until(lambda: (one := place()) and (one.committed, one.lag, one.state) == (40, 60, "ok"), 30, "its lag")
        found = place()
        assert found is not None
        assert found.at_least
        produce(open_to_all, name, 10)
        stuck: Violation = until(lambda: heard.first("group-stuck"), 30, "it is stuck")
        assert (stuck.topic, stuck.severity, stuck.evidence["members"]) == (name, "warning", 1)
        until(lambda: (one := place()) and one.lag == 70 and one.lag_s and one.lag_s > 1, 30, "70 behind, for seconds")

        reader.commit(offsets=[TopicPartition(name, 0, 110, leader_epoch=0)], asynchronous=False)
        until(lambda: [one.key("c") for one in heard.over] == [stuck.key("c")], 30, "it reads on")
        assert [one.kind for one in heard.said] == ["group-stuck"]
        reader.close()
        until(lambda: (one := place()) and one.state == "stopped", 30, "it was stopped")
        produce(open_to_all, name, 10)
        until(lambda: (one := place()) and one.lag == 10, 30, "it falls behind")
        assert [one.kind for one in heard.said] == ["group-stuck"]

        moved = ConsumerGroupTopicPartitions(group, [TopicPartition(name, 0, 5)])
        admin.alter_consumer_group_offsets([moved])[group].result(30)
        reset: Violation = until(lambda: heard.first("group-reset"), 30, "it was reset")
        assert (reset.severity, reset.partition, reset.offset) == ("info", 0, 110)
        assert reset.evidence["partitions"] == [{"partition": 0, "before": 110, "now": 5}]
        with opened(open_to_all) as client:
            client.delete_group_offsets(group, [Place(name, 0)])
        gone: Violation = until(lambda: heard.first("group-offsets-expired"), 30, "its place is gone")
        assert (gone.severity, gone.offset) == ("warning", 5)
        assert watcher.failing is None
        assert [one.group for one in watcher.latest.groups] == [group, "none-such"] if watcher.latest else False
    finally:
        in_time(watcher.stop(20))


def test_a_transaction_that_hangs_is_told_with_whose_it_is_and_ended_as_it_says(
    admin: AdminClient, open_to_all: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("canary.watching.groups.transaction_watcher._AGAIN_S", 0.5)
    name, heard = topic(admin, "payments"), Heard()
    produce(open_to_all, name, 3)
    application = {**open_to_all, "transactional.id": "billing-1", "transaction.timeout.ms": 600_000}
    producer = Producer(application)
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(name, b"order", partition=0)
    in_time(producer.flush(30) == 0, "all acknowledgements")  # and is never heard of again
    address = open_to_all["bootstrap.servers"]
    watcher = TransactionWatcher(
        open_to_all, [name], Stable(address), heard, SteadyClock(), interval_s=0.2, after_s=1.0
    )
    watcher.start()
    try:
        said: Violation = until(lambda: heard.first("hanging-transaction"), 30, "it hangs")
        assert (said.severity, said.topic, said.partition, said.offset) == ("warning", name, 0, 3)
        evidence = said.evidence
        assert (evidence["transactional_id"], evidence["coordinator"], evidence["coordinator_state"]) == (
            "billing-1",
            1,
            "Ongoing",
        )
        assert evidence["timeout_ms"] == 600_000
        assert time.time() - 300 < evidence["started_ns"] / 1e9 < time.time() + 1
        assert evidence["command"].endswith(
            f"--bootstrap-server {address} abort --topic {name} --partition 0 --start-offset 3"
        )
        assert "its coordinator knows of it, and will end it in time" in said.summary
        assert watcher.latest is not None
        assert (len(watcher.latest.hanging), watcher.latest.unknown, watcher.failing) == (1, None, None)
        with opened(open_to_all) as client:
            (held,) = open_in(client, name, 0, 1)
            assert held.producer_id == evidence["producer_id"]
            client.abort_transaction(abort_spec(name, held.producer_id, held.producer_epoch))
        until(lambda: [one.key("c") for one in heard.over] == [said.key("c")], 30, "it is over")
        until(lambda: watcher.latest is not None and not watcher.latest.hanging, 30, "none hangs")
    finally:
        in_time(watcher.stop(20))


def abort_spec(name: str, producer_id: int, producer_epoch: int) -> Any:
    """What kafka-transactions.sh abort sends: markers for the partition's leader, in no coordinator's name."""
    from kafka.admin._transactions import AbortTransactionSpec  # noqa: PLC0415  # the library gives it no other place

    return AbortTransactionSpec(Place(name, 0), producer_id, producer_epoch)


def permit(admin: AdminClient, what: ResourceType, name: str, *operations: AclOperation) -> None:
    everywhere = (ResourcePatternType.LITERAL, f"User:{USER}", "*")
    entries = [AclBinding(what, name, *everywhere, one, AclPermissionType.ALLOW) for one in operations]
    for done in admin.create_acls(entries).values():
        done.result(30)


def scram(admin: AdminClient, mechanism: ScramMechanism) -> None:
    change = UserScramCredentialUpsertion(USER, ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
    admin.alter_user_scram_credentials([change])[USER].result(30)


def login(secure: tuple[Lab, dict[str, Any]], mechanism: str, password: str = PASSWORD) -> dict[str, Any]:
    return {**secure[1], "sasl.mechanisms": mechanism, "sasl.username": USER, "sasl.password": password}


def test_the_raw_client_logs_in_over_tls_and_says_what_it_is_refused(
    secure: tuple[Lab, dict[str, Any]], admin: AdminClient, tmp_path: Path
) -> None:
    name = topic(admin, "guarded")
    scram(admin, ScramMechanism.SCRAM_SHA_256)
    scram(admin, ScramMechanism.SCRAM_SHA_512)
    permit(admin, ResourceType.TOPIC, name, AclOperation.DESCRIBE)
    token = tmp_path / "token"
    token.write_text(unsigned(300))
    oauth = {**secure[1], "sasl.mechanisms": "OAUTHBEARER", "oauth_cb": token_of(token)}
    known = [login(secure, one) for one in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")]
    for config in (*known, oauth):
        with (
            pytest.raises(WireError, match="TOPIC_AUTHORIZATION_FAILED") as refused,
            opened(config, 10) as client,
        ):
            open_in(client, name, 0, 1)
        assert refused.value.refused, config["sasl.mechanisms"]
    permit(admin, ResourceType.TOPIC, name, AclOperation.READ)

    def may_read() -> bool:
        with opened(known[0], 10) as client:
            try:
                return open_in(client, name, 0, 1) == []
            except WireError:
                return False

    until(may_read, 20, "the right to read arrives")
    for mechanism in ("PLAIN", "SCRAM-SHA-256"):

        def refusal(mechanism: str = mechanism) -> bool:
            with pytest.raises(WireError) as wrong, opened(login(secure, mechanism, "wrong-one"), 2):
                pass
            assert "wrong-one" not in str(wrong.value)
            return re.search(r"SASL_AUTHENTICATION_FAILED|while logging in by", str(wrong.value)) is not None

        until(refusal, 60, f"{mechanism} is refused")  # a machine that stalls may first be too late with a question
    untrusted = {key: value for key, value in known[0].items() if key != "ssl.ca.location"}
    with pytest.raises(WireError, match="CERTIFICATE_VERIFY_FAILED"), opened(untrusted, 2):
        pass
    assert [one.name for one in threading.enumerate() if one.name.startswith("kafka-io")] == []


def test_a_right_that_is_missing_is_said_and_what_it_hides_is_unknown(
    secure: tuple[Lab, dict[str, Any]], admin: AdminClient, open_to_all: dict[str, Any]
) -> None:
    name, group = topic(admin, "hidden"), "hidden-group"
    produce(open_to_all, name, 5)
    with closing(Consumer({**open_to_all, "group.id": group})) as reader:
        reader.commit(offsets=[TopicPartition(name, 0, 2)], asynchronous=False)
    heard, inbox = Heard(), Recording()
    config = login(secure, "PLAIN")
    epochs = EpochWatcher(config, [name], [], inbox, SteadyClock(), 0.2)
    quorum = QuorumWatcher(config, inbox, SteadyClock(), 0.2)
    groups = watching(config, heard, [group])
    transactions = TransactionWatcher(config, [name], Stable("b:1"), heard, SteadyClock(), interval_s=0.2, after_s=1.0)
    parts = (groups, transactions, epochs, quorum)
    for part in parts:
        part.start()
    try:
        until(lambda: epochs.failing and quorum.failing, 30, "elections are refused")
        assert "TOPIC_AUTHORIZATION_FAILED" in str(epochs.failing)
        assert "CLUSTER_AUTHORIZATION_FAILED" in str(quorum.failing)
        assert epochs.latest is not None
        assert epochs.latest.unknown == 1
        assert quorum.latest is not None
        assert [(one.name, one.value) for one in quorum.latest.measurements()] == [("canary_quorum_unknown", 1)]
        assert {type(one) for one in inbox.facts} <= {ClusterMet}
        until(lambda: groups.failing, 30, "it is refused")
        assert groups.failing is not None
        assert "GROUP_AUTHORIZATION_FAILED" in groups.failing
        assert groups.latest is not None
        assert [(one.group, one.members, one.places) for one in groups.latest.groups] == [(group, None, ())]
        series = {one.name: one.value for one in groups.latest.measurements()}
        assert series["canary_groups_unknown"] == 1
        assert "canary_group_lag_offsets_sum" not in series
        until(lambda: transactions.latest and transactions.latest.unknown, 30, "no topic is seen")
        assert transactions.latest is not None
        assert "canary_hanging_transactions" not in {one.name for one in transactions.latest.measurements()}
        permit(admin, ResourceType.GROUP, group, AclOperation.DESCRIBE)
        permit(admin, ResourceType.TOPIC, name, AclOperation.DESCRIBE)
        until(lambda: groups.failing is None, 30, "Describe is enough")
        until(lambda: groups.latest and groups.latest.groups[0].lag == 3, 30, "its lag is known")
        until(lambda: transactions.latest and transactions.latest.unknown is None, 30, "Describe is enough")
        permit(admin, ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE)
        until(lambda: epochs.failing is None and epochs.latest and not epochs.latest.unknown, 30, "Describe is enough")
        until(lambda: quorum.failing is None and quorum.latest and not quorum.latest.unknown, 30, "Describe is enough")
        assert {type(one) for one in inbox.facts} == {ClusterMet, EpochSeen, QuorumSeen}
        assert heard.said == []
    finally:
        assert all(part.stop(20) for part in parts)


def test_a_mirror_that_may_not_be_read_is_said_and_unknown_and_checkpoints_may_be_left_out(
    secure: tuple[Lab, dict[str, Any]], admin: AdminClient, open_to_all: dict[str, Any]
) -> None:
    names = [topic(admin, name) for name in ("copied", "dc1.copied", "dc1.checkpoints.internal")]
    scram(admin, ScramMechanism.SCRAM_SHA_512)
    mirror, group = Mirror(Link("dc1", names[0], names[1], 60.0)), {"group.id": "assigned"}
    configs = open_to_all | group, login(secure, "SCRAM-SHA-512") | group
    watcher = MirrorWatcher(*configs, mirror, MirrorProgress(), names[2], Heard(), SteadyClock(), interval_s=0.2)
    watcher.start()
    try:
        until(lambda: watcher.failing, 30, "it is refused")
        assert watcher.failing is not None
        assert "TOPIC_AUTHORIZATION_FAILED" in watcher.failing
        assert watcher.latest.recovery_point_s is None
        permit(admin, ResourceType.TOPIC, names[1], AclOperation.DESCRIBE)
        until(lambda: "dc1.copied in" in (watcher.latest.unknown or ""), 30, "Describe alone is not enough")
        permit(admin, ResourceType.TOPIC, names[1], AclOperation.READ)
        until(lambda: watcher.failing is None and watcher.latest.places, 30, "both are read")
        until(lambda: watcher.latest.unknown == "partition 0: no probe of the source was read yet", 30, "but empty")
        assert watcher.latest.translation_unknown == "MirrorMaker 2 writes no checkpoints here, or they cannot be read"
    finally:
        in_time(watcher.stop(20))


def test_a_canary_whose_settings_name_a_group_shows_it(
    admin: AdminClient, open_to_all: dict[str, Any], tmp_path: Path
) -> None:
    name, group, address = topic(admin, "sales"), "shop", open_to_all["bootstrap.servers"]
    produce(open_to_all, name, 5)
    with closing(Consumer({**open_to_all, "group.id": group})) as reader:
        reader.commit(offsets=[TopicPartition(name, 0, 2)], asynchronous=False)
    cluster = {
        "name": "t",
        "kafka": {"bootstrap.servers": address},
        "topic": {"name": "probes", "partitions": 1, "replication_factor": 1},
        "modes": {"idempotent": {}},
        "watch": {"groups": ["sh*"], "transactions": [name], "groups_interval": "1s"},
    }
    with Canary(tmp_path, address, "probes", partitions=1, settings={"clusters": [cluster]}) as canary:
        canary.until(lambda: canary.metric("canary_group_lag_offsets", group=group, topic=name) == 3, 60, "its lag")
        (found,) = canary.get("/api/v1/groups").json()["items"]
        assert (found["group"], found["lag"], found["partitions"][0]["committed"]) == (group, 3, 2)
        canary.until(lambda: canary.metric("canary_transactions_unknown") == 0, 60, "transactions are looked for")
        assert canary.get("/api/v1/transactions").json() == {"items": [], "unknown": [], "next_cursor": None}
        assert canary.metric("canary_part_failing", part="group-watcher") == 0
        assert canary.metric("canary_part_failing", part="transaction-watcher") == 0
