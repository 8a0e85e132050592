"""The children of nodes that may be missing, with and without a watch."""

import threading

from zkbroker.registry.children import children


def test_children_are_sorted(session):
    session.create("/p/b", parents=True)
    session.create("/p/a")
    assert children(session, "/p") == ["a", "b"]


def test_missing_node_has_no_children_and_is_not_created(session):
    assert children(session, "/p") == []
    assert session.exists("/p") is None


def test_missing_node_is_watched(session):
    watch = threading.Event()
    assert children(session, "/p", watch) == []
    watch.clear()
    session.create("/p/a")
    assert watch.is_set()


def test_child_that_comes_before_the_watch_is_returned(session):
    ensure_path = session.ensure_path

    def ensure(path):
        ensure_path(path)
        session.create(f"{path}/a")

    session.ensure_path = ensure
    watch = threading.Event()
    assert children(session, "/p", watch) == ["a"]
