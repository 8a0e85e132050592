from zkbroker.client.watchers import Watchers
from zkbroker.runtime import get_runtime


def test_a_watcher_is_told_until_it_is_removed_also_from_within():
    watchers = Watchers(get_runtime("threads"))
    told = []
    removals = []

    def once():
        told.append("once")
        removals[0]()

    removals.append(watchers.add(once))
    remove = watchers.add(lambda: told.append("always"))
    watchers.tell()
    watchers.tell()
    assert told == ["once", "always", "always"]
    remove()
    remove()
    watchers.tell()
    assert told == ["once", "always", "always"]
