"""Groups and transactions of applications, from what a runner stored to REST and /metrics."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from canary.anomalies.groups.rounds import Groups
from canary.anomalies.groups.sample import Commit, Log, Round, Told
from canary.anomalies.groups.stable import Holder, Stable
from canary.metrics.published import Published, dumps
from canary.metrics.watched.groups import GroupsSeen, TransactionsSeen

if TYPE_CHECKING:
    from storage.store import Store
    from tests.api.serving import Client

S = 10**9
NAME = "billing"


def seen() -> tuple[GroupsSeen, TransactionsSeen]:
    """What a runner knows of one group that lags, one that it may not see, and a transaction that hangs."""
    groups, stable, at_ns = Groups(600.0, 1), Stable("b1:9092"), time.time_ns()
    places = [("orders", 0), ("orders", 1)]
    told = {
        NAME: Told(members=2, commits={place: Commit(90, 1) for place in places}),
        "other": Told(error="GROUP_AUTHORIZATION_FAILED"),
    }
    for number in range(2):
        logs = {place: Log(0, 100, 95) for place in places}
        groups.fold(Round(at_ns - (1 - number) * 10 * S, told, logs, {"orders": None}))
        stable.fold(logs, {"orders"}, at_ns - (1 - number) * 10 * S, 5.0)
    view = stable.shown(places[0], Log(0, 100, 95), Holder(7, 1, "billing-1", 2, "Ongoing", at_ns, 900_000, known=True))
    return GroupsSeen(at_ns, groups.views(), 3), TransactionsSeen(at_ns, (view,))


def shown(
    store: Store, groups: GroupsSeen | None, transactions: TransactionsSeen | None, *, judged_s: float = 0
) -> None:
    now_ns = time.time_ns()
    series = [*(groups.measurements() if groups else ()), *(transactions.measurements() if transactions else ())]
    published = Published(
        now_ns=now_ns, told_ns=now_ns, groups=groups, transactions=transactions, measurements=tuple(series)
    )
    store.views.save("prod", "canary-0", now_ns - int(judged_s * S), dumps(published))


def test_a_group_is_shown_by_partition_and_in_sums(client: Client, store: Store) -> None:
    shown(store, *seen())
    body = client.get("/api/v1/groups", cluster="prod").json()
    known, hidden = body["items"]
    assert (known["group"], known["members"], known["lag"], known["lag_seconds"], known["left_out"]) == (
        NAME,
        2,
        20,
        10.0,
        1,
    )
    assert known["partitions"] == [
        {
            "topic": "orders",
            "partition": 0,
            "committed": 90,
            "end": 100,
            "lag": 10,
            "lag_seconds": 10.0,
            "lag_seconds_at_least": True,
            "state": "ok",
        }
    ]
    assert known["states"]["ok"] == 2
    assert (hidden["group"], hidden["members"], hidden["error"]) == ("other", None, "GROUP_AUTHORIZATION_FAILED")
    assert body["unknown"] == []
    assert [one["group"] for one in client.get("/api/v1/groups", group="other").json()["items"]] == ["other"]
    text = client.get("/metrics").text
    for line in (
        'canary_group_lag_offsets{cluster="prod",group="billing",partition="0",topic="orders"} 10',
        'canary_group_lag_offsets_sum{cluster="prod",group="billing"} 20',
        'canary_group_lag_seconds_at_least{cluster="prod",group="billing"} 2',
        'canary_group_partitions{cluster="prod",group="billing",state="ok"} 2',
        'canary_group_partitions_left_out{cluster="prod",group="billing"} 1',
        'canary_groups_left_out{cluster="prod"} 3',
        'canary_groups_unknown{cluster="prod"} 1',
        'canary_hanging_transactions{cluster="prod"} 1',
        'canary_transactions_unknown{cluster="prod"} 0',
    ):
        assert f"\n{line}" in text
    assert 'partition="1"' not in text, "one partition of a group has series"


def test_a_transaction_is_shown_with_the_command_that_ends_it(client: Client, store: Store) -> None:
    shown(store, *seen())
    body = client.get("/api/v1/transactions").json()
    (found,) = body["items"]
    assert (found["topic"], found["partition"], found["start_offset"], found["producer_id"]) == ("orders", 0, 95, 7)
    assert (found["transactional_id"], found["coordinator"], found["known"]) == ("billing-1", 2, True)
    assert found["command"].endswith("abort --topic orders --partition 0 --start-offset 95")
    assert body["unknown"] == []


def test_what_nobody_looks_at_any_more_is_unknown(client: Client, store: Store) -> None:
    groups, transactions = seen()
    later_ns = groups.at_ns + 120 * S
    shown(store, groups.aged(later_ns, 100.0), transactions.aged(later_ns, 100.0))
    body = client.get("/api/v1/groups").json()
    assert [one["members"] for one in body["items"]] == [None, None]
    assert body["items"][0]["states"] | {"unknown": 2} == body["items"][0]["states"]
    assert body["unknown"] == [{"cluster": "prod", "reason": "not looked at for 120 s"}]
    text = client.get("/metrics").text
    assert "canary_group_lag_" not in text.replace("# ", "")
    assert 'canary_groups_unknown{cluster="prod"} 2' in text
    assert 'canary_transactions_unknown{cluster="prod"} 1' in text
    assert "\ncanary_hanging_transactions{" not in text


def test_a_runner_that_judges_no_more_knows_nothing_of_now(client: Client, store: Store) -> None:
    shown(store, *seen(), judged_s=60)
    assert client.get("/api/v1/groups").json()["items"] == []
    assert [one["cluster"] for one in client.get("/api/v1/transactions").json()["unknown"]] == ["prod"]
    assert "\ncanary_group_lag_offsets{" not in client.get("/metrics").text


def test_before_the_first_look_nothing_is_known(client: Client, store: Store) -> None:
    shown(store, replace(seen()[0], groups=(), unknown="no group is matched"), None)
    assert client.get("/api/v1/groups").json()["unknown"] == [{"cluster": "prod", "reason": "no group is matched"}]
    assert 'canary_groups_unknown{cluster="prod"} 1' in client.get("/metrics").text


def test_an_unknown_cluster_is_refused(client: Client, store: Store) -> None:
    shown(store, *seen())
    assert client.get("/api/v1/groups", cluster="nowhere").status_code == 404
    assert client.get("/api/v1/transactions", cluster="nowhere").status_code == 404
