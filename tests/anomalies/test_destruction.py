"""Random lives in which data is destroyed: all of it is said, nothing else, and each by its name and place.

300 lives are a part of every run; 60,000 are ``pytest tests/anomalies/test_destruction.py --explore 200``.
"""

from __future__ import annotations

from collections import Counter

import pytest

from simulation.destruction.lives import judged, lived
from tests.support.seeds import cases

LIVES = 300


@pytest.mark.dear("three hundred lives")
def test_what_was_destroyed_is_said_and_nothing_else_whatever_else_happens() -> None:
    out_of_order_by_a_cut_and_expired = 786808643, 3006460, 932478807, 612563607, 829064752
    out_of_order_with_one_that_a_leader_acknowledged_alone = 2137857213
    in_doubt_before_one_that_was_lost = 111931595
    written_under_a_consumer_by_a_generation_that_was_forgotten = 1961138345
    dated_by_a_clock_that_was_ahead = 1336820596
    acknowledged_after_the_cut_that_destroyed_it = 16172623
    cut_when_the_epoch_went_back_and_filled_again_below = 966045359
    read_by_one_consumer_after_its_generation_was_forgotten = 234346
    in_the_place_of_another_record_in_a_topic_that_was_made_again = 1108297047
    ended_where_it_did_before_its_epoch_was_taken_up_again = 492456826, 1852410906
    emptied_while_a_clock_that_was_set_back_was_ahead_again = 2075786962
    emptied_when_the_first_had_been_in_doubt = 490046553
    written_over_in_a_lower_epoch_among_records_of_the_present_one = 1960554629
    known = (
        *out_of_order_by_a_cut_and_expired,
        out_of_order_with_one_that_a_leader_acknowledged_alone,
        in_doubt_before_one_that_was_lost,
        written_under_a_consumer_by_a_generation_that_was_forgotten,
        dated_by_a_clock_that_was_ahead,
        acknowledged_after_the_cut_that_destroyed_it,
        cut_when_the_epoch_went_back_and_filled_again_below,
        read_by_one_consumer_after_its_generation_was_forgotten,
        in_the_place_of_another_record_in_a_topic_that_was_made_again,
        *ended_where_it_did_before_its_epoch_was_taken_up_again,
        emptied_while_a_clock_that_was_set_back_was_ahead_again,
        emptied_when_the_first_had_been_in_doubt,
        written_over_in_a_lower_epoch_among_records_of_the_present_one,
    )
    happened: Counter[str] = Counter()
    for seed in cases("destruction", LIVES, *known):
        life = lived(seed)
        assert judged(life) == [], seed
        happened += life.truth.happened
        happened["said"] += sum(v.kind == "lost-write" for v in life.said.values())
    often = ("cut", "wipe", "hole", "expire", "recreate", "epoch", "restart")
    assert min(happened[what] for what in often) > LIVES / 20
    assert happened["said"] > LIVES
