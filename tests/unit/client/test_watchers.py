from zkbroker.client.watchers import Watchers
from zkbroker.runtime import get_runtime


def test_a_watcher_is_called_until_it_is_removed_also_from_within():
    watchers = Watchers(get_runtime("threads"))
    called = []
    removals = []

    def once():
        called.append("once")
        removals[0]()

    removals.append(watchers.add(once))
    remove = watchers.add(lambda: called.append("always"))
    watchers.notify()
    watchers.notify()
    assert called == ["once", "always", "always"]
    remove()
    remove()
    watchers.notify()
    assert called == ["once", "always", "always"]
