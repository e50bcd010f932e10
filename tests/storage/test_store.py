from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from storage.store import Store, StoreError
from storage.store.database import Database
from storage.store.migrating import newest
from storage.store.migrations.versions import m0007_generations
from storage.store.models import METADATA
from storage.store.repositories.reconciliations import TRIES
from storage.store.values import Held, Lease, View
from tests.support.forks import at_once

if TYPE_CHECKING:
    from pathlib import Path

    from canary.drills.rig.postgres import Postgres


def test_the_migrations_make_exactly_the_models_tables(store_url: str) -> None:
    with Store.connect(store_url, timeout=60) as store:
        store.upgrade()
        with store._database.reading() as connection:
            assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
        assert store.current() == newest()
        store.upgrade()


def migrated(url: str) -> str | None:
    with Store.connect(url, timeout=60) as store:
        store.upgrade()
        return store.current()


def test_several_processes_may_migrate_the_same_empty_database(store_url: str) -> None:
    assert at_once(migrated, store_url, count=3) == [newest()] * 3


def test_a_store_of_a_later_version_is_refused(store: Store) -> None:
    with store._database.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(StoreError, match="later version"):
        store.upgrade()


def test_a_store_without_tables_says_what_to_run(store_url: str) -> None:
    with Store.connect(store_url, timeout=1) as store, pytest.raises(StoreError, match="canary db upgrade"):
        store.identities.installation()


def test_sqlite_is_as_durable_as_promised(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/store.db")
    with database.reading() as connection:
        assert connection.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        assert connection.execute(text("PRAGMA synchronous")).scalar() == 2
        assert connection.execute(text("PRAGMA busy_timeout")).scalar() == 10_000
    database.close()


@pytest.mark.parametrize(
    "url", ["mysql://u:secret@h/d", "nonsense secret", "sqlite://", "sqlite:///:memory:", "oracle+magic://u:secret@h"]
)
def test_a_url_that_cannot_be_used_is_named_without_its_secrets(url: str) -> None:
    with pytest.raises(StoreError) as refusal:
        Store.connect(url, timeout=0)
    assert "store.url" in str(refusal.value)
    assert "secret" not in str(refusal.value)


def test_a_database_that_is_away_is_tried_again_and_then_named_without_its_password() -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    url = "postgresql+psycopg://canary:pa55word@127.0.0.1:1/canary"
    with pytest.raises(StoreError) as refusal:
        Store.connect(url, timeout=2, monotonic=lambda: now[0], sleep=sleep)
    assert now[0] == 2
    words = str(refusal.value)
    assert "127.0.0.1:1/canary" in words
    assert "pa55word" not in words
    assert "2 s" in words
    assert refusal.value.__cause__ is None
    assert refusal.value.__suppress_context__


def test_a_start_waits_for_a_store_that_comes_late(tmp_path: Path) -> None:
    blocker = tmp_path / "late"
    blocker.write_text("a file where the directory should be")
    tries = []

    def sleep(_: float) -> None:
        tries.append(1)
        if len(tries) == 3:
            blocker.unlink()

    with Store.connect(f"sqlite:///{blocker}/store.db", timeout=60, sleep=sleep) as store:
        store.upgrade()
    assert len(tries) == 3


def test_a_damaged_sqlite_file_is_an_error_of_the_store(tmp_path: Path) -> None:
    (tmp_path / "store.db").write_bytes(b"no database " * 500)
    with pytest.raises(StoreError, match="not a database"):
        Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=0)


@pytest.mark.parametrize("store_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True)
def test_a_store_that_was_away_answers_again_on_the_same_object(store: Store, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("postgres").database()
    with Store.connect(url, timeout=1) as other, other._database.writing() as admin:
        admin.execute(
            text(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname LIKE 'canary_%' AND pid <> pg_backend_pid()"
            ),
        )
    store.ping()


@pytest.mark.postgres
def test_a_database_without_an_encoding_holds_what_is_written(postgres: Postgres) -> None:
    """initdb in the C locale makes SQL_ASCII, which takes any bytes: psycopg gives bytes for text unless it is told."""
    plain = postgres.database("ENCODING 'SQL_ASCII' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
    with Store.connect(plain, timeout=10) as store:
        store.upgrade()
        store.tokens.create("Zoë ☃", "read", 1)
        assert [token.name for token in store.tokens.all()] == ["Zoë ☃"]


def test_who_we_are_is_minted_once(store: Store, store_url: str) -> None:
    assert len(store.identities.installation()) == 32
    first = store.identities.producer("c", "r", "t", "idempotent").first
    assert 0 <= first < 2**63
    assert store.identities.cluster_id("c") is None
    assert store.identities.remember_cluster("c", "abc") == store.identities.cluster_id("c") == "abc"
    with Store.connect(store_url, timeout=1) as again:
        assert again.identities.installation() == store.identities.installation()
        assert again.identities.producer("c", "r", "t", "idempotent").first == first
        assert again.identities.producer("c", "r", "t", "plain").first != first
        assert again.identities.remember_cluster("c", "other") == "abc"


def test_no_two_starts_write_under_the_same_producer_id(store: Store) -> None:
    begun = [store.identities.producer("c", "r", "t", "plain") for _ in range(20)]
    assert len({producer.producer_id for producer in begun}) == 20
    assert {producer.first for producer in begun} == {begun[0].producer_id}


def test_a_store_that_lost_its_memory_takes_what_the_ledger_knows(store: Store) -> None:
    assert store.identities.installation(known="a" * 32) == "a" * 32
    assert store.identities.installation() == "a" * 32
    assert store.identities.installation(known="b" * 32) == "b" * 32, "nobody has written under the other one"
    begun = store.identities.producer("c", "r", "t", "plain", known=4711)
    assert begun.first == 4711
    assert begun.producer_id != 4711
    assert store.identities.producer("c", "r", "t", "plain", known=4712).first == 4711
    assert store.identities.installation(known="c" * 32) == "b" * 32, "others write under it"


def test_what_was_written_under_before_the_upgrade_is_known_after_it(store: Store) -> None:
    store.downgrade(m0007_generations.down_revision)
    with store._database.writing() as connection:
        connection.execute(text("INSERT INTO producers VALUES ('c', 'r', 't', 'plain', 4711, 9)"))
    store.upgrade()
    assert store.identities.generation(4711) == 9
    assert store.identities.generations("c") == {4711: 9}
    assert store.identities.producer("c", "r", "t", "plain").first == 4711, (
        "groups and transactional ids keep their names"
    )


def test_a_generation_is_above_all_that_the_store_knows(store: Store) -> None:
    assert store.identities.generation(4711) is None
    assert store.identities.next_generation(4711, 18, "c") == 18
    assert store.identities.next_generation(4711, 1, "c") == 19
    assert store.identities.generation(4711) == 19
    assert store.identities.generation(4712) is None
    store.identities.next_generation(4712, 3, "other")
    assert store.identities.generations("c") == {4711: 19}


def test_what_a_store_lacks_is_registered_again_and_nothing_else_is_changed(store: Store) -> None:
    assert store.identities.next_generation(1, 7, "c") == 7
    assert store.identities.next_generation(2, 7, "c") == 7
    for _ in range(2):
        store.identities.register("c", {1: 6, 2: 8, 3: 1})
        assert store.identities.generations("c") == {1: 7, 2: 8, 3: 1}


def test_the_last_view_of_a_runner(store: Store) -> None:
    store.views.save("c", "r", 1, b"{}")
    store.views.save("c", "r", 2, b"{1}")
    assert store.views.get("c", "r") == View("c", "r", 2, b"{1}")
    assert store.views.get("c", "other") is None


def sixty_generations(url: str, producer: int) -> list[int]:
    with Store.connect(url, timeout=60) as store:
        return [store.identities.next_generation(producer, 1, "c") for _ in range(60)]


def test_two_processes_never_get_the_same_generation(store: Store, store_url: str) -> None:
    producer = store.identities.producer("c", "r", "t", "plain").producer_id
    one, other = at_once(sixty_generations, store_url, producer)
    assert sorted(one + other) == list(range(1, 121))


def test_a_lease_has_one_holder_and_its_counter_tells_that_it_lives(store: Store) -> None:
    assert store.leases.acquire("runner c r", "one") == Lease("runner c r", "one", 1)
    assert store.leases.acquire("runner c r", "one") == Lease("runner c r", "one", 1)
    held = store.leases.acquire("runner c r", "two")
    assert held == Held("runner c r", "one", 1)
    assert store.leases.renew("runner c r", "one")
    assert not store.leases.renew("runner c r", "two")
    assert store.leases.take_over("runner c r", "two", held.counter) == Held("runner c r", "one", 2)
    assert store.leases.take_over("runner c r", "two", 2) == Lease("runner c r", "two", 3)
    assert not store.leases.renew("runner c r", "one")
    store.leases.release("runner c r", "one")
    assert store.leases.renew("runner c r", "two")
    store.leases.release("runner c r", "two")
    assert not store.leases.renew("runner c r", "two")
    third = store.leases.acquire("runner c r", "three")
    assert isinstance(third, Lease)
    assert third.counter > 4


def taken_over(url: str) -> bool:
    with Store.connect(url, timeout=60) as store:
        return isinstance(store.leases.take_over("l", str(os.getpid()), 1), Lease)


def test_of_several_processes_that_take_over_a_dead_lease_one_wins(store: Store, store_url: str) -> None:
    store.leases.acquire("l", "dead")
    assert sorted(at_once(taken_over, store_url, count=3)) == [False, False, True]


def test_a_view_replaces_the_one_before(store: Store) -> None:
    store.views.save("c", "r", 1, b"old")
    store.views.save("c", "r", 2, b"\x00new")
    store.views.save("b", "r", 3, b"other")
    assert [(view.cluster, view.at_ns, view.view) for view in store.views.all()] == [
        ("b", 3, b"other"),
        ("c", 2, b"\x00new"),
    ]


def test_a_reconciliation_is_asked_for_once_claimed_once_and_finished_by_its_owner(store: Store) -> None:
    asked = store.reconciliations.request("c", "api", 10)
    assert asked.state == "requested"
    assert store.reconciliations.request("c", "clock", 11).id == asked.id
    other = store.reconciliations.request("d", "clock", 12)
    begun = store.reconciliations.claim("one", 20)
    assert begun is not None
    assert (begun.id, begun.state, begun.started_ns, begun.holder) == (asked.id, "running", 20, "one")
    assert store.reconciliations.progress(asked.id, "one", "dumping")
    assert not store.reconciliations.progress(asked.id, "two", "dumping")
    assert not store.reconciliations.finish(asked.id, "two", 30)
    assert store.reconciliations.finish(
        asked.id, "one", 30, summary={"acked": 3}, verdicts={"lost": 1}, report="r.html"
    )
    done = store.reconciliations.get(asked.id)
    assert done is not None
    assert (done.state, done.ended_ns, done.summary, done.verdicts, done.report) == (
        "succeeded",
        30,
        {"acked": 3},
        {"lost": 1},
        "r.html",
    )
    second = store.reconciliations.claim("one", 40)
    assert second is not None
    assert second.id == other.id
    again = store.reconciliations.claim("one", 41)
    assert again is not None, "the answer to a claim may be lost on the way"
    assert (again.id, again.started_ns) == (other.id, 41)
    assert store.reconciliations.claim("two", 42) is None
    assert store.reconciliations.abandon("one", 50) == 0
    assert store.reconciliations.abandon("two", 50) == 1
    assert [run.state for run in store.reconciliations.page().items] == ["requested", "succeeded"]
    assert not store.reconciliations.interrupt(other.id, "one", 60, "it was stopped")
    for turn in (2, 3):
        claimed = store.reconciliations.claim("two", 60)
        assert claimed is not None
        assert (claimed.id, claimed.state, claimed.interrupted) == (other.id, "running", turn - 1)
        assert store.reconciliations.interrupt(other.id, "two", 70, "it was stopped")
    given_up = store.reconciliations.get(other.id)
    assert given_up is not None
    assert (given_up.state, given_up.ended_ns, given_up.interrupted) == ("failed", 70, TRIES)
    assert given_up.error == f"it was begun {TRIES} times, and at last: it was stopped"
    assert [run.id for run in store.reconciliations.page(cluster="c").items] == [asked.id]
    page = store.reconciliations.page(limit=1)
    assert [run.id for run in store.reconciliations.page(cursor=page.next_cursor, limit=1).items] == [asked.id]


def claimed_by_turns(url: str) -> list[str]:
    with Store.connect(url, timeout=60) as store:
        claims = [store.reconciliations.claim(f"{os.getpid()} {turn}", 2) for turn in range(30)]
        return [claim.cluster for claim in claims if claim]


def test_a_request_is_claimed_by_one_of_two_processes(store: Store, store_url: str) -> None:
    for cluster in "abcdefgh":
        store.reconciliations.request(cluster, "test", 1)
    one, other = at_once(claimed_by_turns, store_url)
    assert sorted(one + other) == list("abcdefgh")
