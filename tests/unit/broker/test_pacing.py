import gevent

from zkbroker.broker import pacing


def test_short_loop_returns_the_items_themselves():
    items = [1, 2, 3]
    assert pacing.paced(items) is items


def test_long_loop_lets_other_tasks_run(monkeypatch):
    monkeypatch.setattr(pacing, "RUN_S", 0.0)
    others = []
    gevent.spawn(others.append, "ran")
    seen = [(item, bool(others)) for item in pacing.paced(range(100))]
    assert [item for item, _ in seen] == list(range(100))
    assert seen[-1][1]
