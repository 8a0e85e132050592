from zkbroker.console.history import History


def test_series_share_times_and_begin_with_none():
    history = History(4, 10)
    history.record(1, {"a": 1.0})
    history.record(2, {"a": 2.0, "b": 5})
    history.record(3, {"a": None, "b": 6})
    assert history.read(["a", "b", "c"]) == (
        [1, 2, 3],
        {"a": [1.0, 2.0, None], "b": [None, 5.0, 6.0]},
    )
    assert history.read(["b"], since_ms=2) == ([3], {"b": [6.0]})


def test_only_the_last_samples_are_kept():
    history = History(3, 10)
    for time_ms in range(1, 8):
        history.record(time_ms, {"a": time_ms})
    assert history.read(["a"]) == ([5, 6, 7], {"a": [5.0, 6.0, 7.0]})


def test_ended_series_is_dropped_after_its_last_sample():
    history = History(3, 10)
    history.record(1, {"a": 1, "b": 1})
    for time_ms in range(2, 5):
        history.record(time_ms, {"b": 1})
    assert history.read("abc")[1].keys() == {"b"}


def test_first_series_are_kept_within_the_limit():
    history = History(3, 2)
    history.record(1, {"a": 1, "b": 1, "c": 1})
    assert history.read("abc")[1].keys() == {"a", "b"}
    history.record(2, {"c": 1, "a": 1, "b": 1})
    assert history.read("abc")[1].keys() == {"a", "c"}
