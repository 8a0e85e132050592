"""Notices are read once, under a watch, and deleted when they are old."""

import threading

import pytest

from zkbroker.registry.notices import KEPT_MS, Notices
from zkbroker.zookeeper import ConnectionLost

PARENT = "/changes"


@pytest.fixture
def notices(session):
    return Notices(session, PARENT)


def write(session, data):
    return session.create(f"{PARENT}/c_", data, sequential=True, parents=True)


def test_each_notice_is_read_once(session, notices):
    watch = threading.Event()
    assert notices.read_new(watch) == []
    first, second = write(session, b"1"), write(session, b"2")
    assert watch.is_set()
    assert notices.read_new(watch) == [(first, b"1"), (second, b"2")]
    third = write(session, b"3")
    session.asked.clear()
    assert notices.read_new(watch) == [(third, b"3")]
    assert first not in session.asked


def test_notices_of_a_failed_reading_are_read_again(session, notices):
    path = write(session, b"1")
    get_many = session.get_many

    def fail(paths):
        raise ConnectionLost("no answer")

    session.get_many = fail
    with pytest.raises(ConnectionLost):
        notices.read_new(threading.Event())
    session.get_many = get_many
    assert notices.read_new(threading.Event()) == [(path, b"1")]


def test_only_old_notices_are_purged(session, notices, monkeypatch):
    # Nodes of this session are written at 0 ms.
    monkeypatch.setattr(type(session.runtime), "now_ms", lambda self: now_ms)
    path = write(session, b"1")
    notices.read_new(threading.Event())
    now_ms = KEPT_MS
    notices.purge()
    assert session.exists(path)
    now_ms = KEPT_MS + 1
    notices.purge()
    assert session.exists(path) is None


def test_failed_purge_is_repeated(session, notices):
    paths = [write(session, b"1"), write(session, b"2")]
    notices.read_new(threading.Event())
    delete = session.delete

    def fail(path, **options):
        if path == paths[0]:
            raise ConnectionLost("no answer")
        delete(path, **options)

    session.delete = fail
    notices.purge()
    assert [session.exists(path) is None for path in paths] == [False, True]
    session.delete = delete
    notices.purge()
    assert session.exists(paths[0]) is None


def test_failed_deletion_is_logged_and_repeated(session, notices, monkeypatch, caplog):
    monkeypatch.setattr(type(session.runtime), "now_ms", lambda self: KEPT_MS + 1)
    path = write(session, b"1")
    notices.read_new(threading.Event())
    with monkeypatch.context() as patch:

        def fail(*arguments, **options):
            raise ConnectionLost("no answer")

        patch.setattr(session, "delete", fail)
        notices.purge()
    assert "old notice not deleted" in caplog.text
    notices.purge()
    assert session.exists(path) is None
