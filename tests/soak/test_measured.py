from tests.soak.measured import Held, growth


def test_what_a_part_held_once_it_had_settled_is_compared_with_the_end_of_the_same_process() -> None:
    before = [Held(at_s, 1, 10**9, 500, 90) for at_s in range(0, 600, 5)]  # another process, killed
    found = before + [Held(at_s, 2, 200_000_000 + 1000 * at_s, 100, 30 + at_s // 3600) for at_s in range(600, 3601, 5)]
    grown = growth("run", found, 600, 3600)
    assert grown is not None
    assert grown.memory == (200_780_000.0, 203_420_000.0)
    assert grown.descriptors == (100.0, 100.0)
    assert grown.threads == (30.0, 30.0)
    assert 0.013 < grown.memory_ratio < 0.0132
    assert str(grown) == "run: memory 191 -> 194 MiB (+1.3 %), descriptors 100 -> 100, threads 30 -> 30"


def test_a_process_that_is_younger_than_that_is_not_judged() -> None:
    assert growth("run", [Held(3000, 2, 1, 1, 1), Held(3600, 2, 1, 1, 1)], 600, 3600) is None
