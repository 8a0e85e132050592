"""Reads of nodes that may be missing, with and without a watch."""

import threading

import pytest

from zkbroker.registry.optional_nodes import children, read_node


def test_missing_node_is_none(session):
    assert read_node(session, "/p") is None
    session.create("/p", b"x")
    data, stat = read_node(session, "/p")
    assert (data, stat.version) == (b"x", 0)


@pytest.mark.parametrize("exists", [True, False])
def test_node_is_watched_even_if_it_is_missing(session, exists):
    if exists:
        session.create("/p", b"x")
    watch = threading.Event()
    assert (read_node(session, "/p", watch) is not None) is exists
    assert not watch.is_set()
    if exists:
        session.set("/p", b"y")
    else:
        session.create("/p")
    assert watch.is_set()


def test_node_that_is_deleted_while_it_is_read_is_none(session):
    session.create("/p")
    exists = session.exists

    def gone(path, watch):
        found = exists(path, watch)
        session.delete(path)
        return found

    session.exists = gone
    watch = threading.Event()
    assert read_node(session, "/p", watch) is None
    assert watch.is_set()


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
