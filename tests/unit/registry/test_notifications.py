import json
import threading

import pytest

from tests.support.instant_session import children_data
from zkbroker.registry import notifications, paths


@pytest.fixture
def session(controller_session):
    return controller_session


def test_notifications_have_genuine_form(session):
    notifications.note_isr_changes(session, [("t", 0), ("u", 7)])
    notifications.note_log_dir_failure(session, 3)
    (isr,) = session.children(paths.ISR_CHANGES)
    assert isr.startswith("isr_change_")
    assert json.loads(session.get(f"{paths.ISR_CHANGES}/{isr}")[0]) == {
        "version": 1,
        "partitions": [{"topic": "t", "partition": 0}, {"topic": "u", "partition": 7}],
    }
    (event,) = session.children(paths.LOG_DIR_EVENTS)
    assert event.startswith("log_dir_event_")
    assert children_data(session, paths.LOG_DIR_EVENTS) == [b'{"version":1,"broker":3,"event":1}']


def test_large_isr_notification_is_split(session):
    keys = [("t" * 249, number) for number in range(4500)]
    notifications.note_isr_changes(session, keys)
    notes, found = notifications.isr_changes(session)
    assert len(notes) == 3
    assert set(found) == set(keys)
    assert all(len(session.get(note)[0]) < 1_000_000 for note in notes)
    notifications.note_isr_changes(session, [])
    assert len(session.children(paths.ISR_CHANGES)) == 3


def test_notifications_are_read_and_removed(session):
    notifications.note_log_dir_failure(session, 3)
    notifications.note_log_dir_failure(session, 3)
    session.create(paths.LOG_DIR_EVENT_PREFIX, b"?", sequential=True)
    notes, brokers = notifications.log_dir_failures(session)
    assert list(brokers) == [3]
    assert len(notes) == 3
    notifications.remove_notes(session, notes, 0)
    assert notifications.log_dir_failures(session) == ([], {})


def test_missing_notification_parent_is_created(session):
    session.delete(paths.ISR_CHANGES)
    assert notifications.isr_changes(session, threading.Event()) == ([], {})
    assert session.exists(paths.ISR_CHANGES) is not None
