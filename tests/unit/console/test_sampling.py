from zkbroker.console.sampling import MOVES_FOR_MS, Look, choose, choose_starts

NOW = 1_000_000


def keys(count):
    return [("t", number) for number in range(count)]


def test_all_partitions_of_a_small_cluster_are_chosen():
    looks = {key: Look() for key in keys(5)}
    assert choose(looks, keys(5), NOW, 5) == keys(5)


def test_budget_covers_all_partitions_in_turn():
    looks = {key: Look() for key in keys(100)}
    rounds = 0
    while any(not each.seen_ms for each in looks.values()):
        rounds += 1
        chosen = choose(looks, list(looks), NOW + rounds, 10)
        assert len(chosen) == len(set(chosen)) == 10
        for key in chosen:
            looks[key].saw_end(1, NOW + rounds)
    assert rounds == 10


def test_moving_partitions_get_half_of_the_budget():
    looks = {key: Look(seen_ms=NOW - 1000, end=1) for key in keys(100)}
    moving = keys(20)
    for key in moving:
        looks[key].moved_ms = NOW - 10
    seen = set()
    for step in range(16):
        chosen = choose(looks, list(looks), NOW + step, 10)
        assert len(set(chosen) & set(moving)) == 5
        seen |= set(chosen)
        for key in chosen:
            looks[key].saw_end(1, NOW + step)
    assert seen == set(looks)


def test_moving_partitions_get_the_unused_budget():
    looks = {key: Look(seen_ms=NOW, moved_ms=NOW, end=1) for key in keys(20)}
    looks["t", 0].moved_ms = NOW - MOVES_FOR_MS - 1
    chosen = choose(looks, list(looks), NOW, 10)
    assert len(chosen) == 10
    assert ("t", 0) in chosen


def test_rate_of_two_readings_is_never_negative():
    look = Look()
    look.saw_end(100, NOW)
    assert look.rate is None
    look.saw_end(150, NOW + 500)
    assert look.rate == 100
    look.saw_end(10, NOW + 1500)  # cut after an unclean election
    assert look.rate == 0
    look.saw_end(None, NOW + 2000)
    assert (look.rate, look.end) == (None, 10)


def test_log_starts_are_read_once_a_minute():
    looks = {key: Look() for key in keys(3)}
    looks["t", 1].saw_start(7, NOW)
    assert choose_starts(looks, list(looks), NOW + 59_000, 9) == [("t", 0), ("t", 2)]
    assert len(choose_starts(looks, list(looks), NOW + 61_000, 9)) == 3
    assert len(choose_starts(looks, list(looks), NOW + 61_000, 2)) == 2
