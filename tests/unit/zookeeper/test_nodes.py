"""Errors, transactions and watches of kazoo in terms of this project."""

import kazoo.exceptions as kz
import pytest

from zkbroker.errors import RegistryError
from zkbroker.zookeeper import (
    BadVersion,
    Check,
    ConnectionLost,
    Create,
    Delete,
    NodeExists,
    NoNode,
    NotEmpty,
    NotPermitted,
    SessionLost,
    SetData,
    ZkLoginRefused,
)
from zkbroker.zookeeper.nodes import Watcher, fill_transaction, library_error, refusal, watcher


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (kz.NoNodeError, NoNode),
        (kz.NodeExistsError, NodeExists),
        (kz.BadVersionError, BadVersion),
        (kz.NotEmptyError, NotEmpty),
        (kz.ConnectionLoss, ConnectionLost),
        (kz.OperationTimeoutError, ConnectionLost),
        (kz.SessionExpiredError, SessionLost),
        (kz.ConnectionClosedError, SessionLost),
        (kz.APIError, RegistryError),
        (kz.NoAuthError, NotPermitted),
        (kz.AuthFailedError, ZkLoginRefused),
        (kz.SessionClosedRequireSaslError, ZkLoginRefused),
    ],
)
def test_kazoo_errors_are_mapped_with_path(theirs, ours):
    error = library_error(theirs(), "/a")
    assert type(error) is ours
    assert str(error).startswith("/a: ")


def test_transaction_is_filled_in_order():
    class Recorder:
        def __init__(self):
            self.steps = []

        def __getattr__(self, name):
            return lambda *given, **options: self.steps.append((name, given, options))

    recorder = Recorder()
    fill_transaction(
        recorder,
        [Create("/a", b"x", True), SetData("/b", b"y", 2), Delete("/c", 3), Check("/d", 4)],
        {"/a": ["rights"]}.get,
    )
    assert recorder.steps == [
        ("create", ("/a", b"x"), {"acl": ["rights"], "ephemeral": True}),
        ("set_data", ("/b", b"y", 2), {}),
        ("delete", ("/c", 3), {}),
        ("check", ("/d", 4), {}),
    ]


def test_refusal_names_failed_operation():
    operations = [Create("/a"), Check("/b"), Create("/c")]
    assert refusal(operations, ["/a", None, "/c"]) is None
    refused = refusal(
        operations, [kz.RolledBackError(), kz.BadVersionError(), kz.RuntimeInconsistency()]
    )
    assert refused is not None
    assert (refused.index, refused.path, type(refused.cause)) == (1, "/b", BadVersion)


def test_watchers_of_same_event_are_equal():
    class Event:
        count = 0

        def set(self):
            self.count += 1

    event = Event()
    assert watcher(None) is None
    assert len({Watcher(event), Watcher(event), Watcher(Event())}) == 2
    Watcher(event)("event")
    assert event.count == 1
