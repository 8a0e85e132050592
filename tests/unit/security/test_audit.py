"""Each denial is logged once a minute, and counted beyond that."""

import logging

import pytest

from tests.support.clocks import Clock
from zkbroker.security import Operation, Principal, Resource, ResourceType
from zkbroker.security.audit import MAX_LINES, WINDOW_MS, AuditLog

BOB = Principal("User", "bob")


def topic(name):
    return Resource(ResourceType.TOPIC, name)


@pytest.fixture
def clock():
    return Clock(0)


@pytest.fixture
def denied():
    return []


@pytest.fixture
def audit(clock, denied, caplog):
    caplog.set_level(logging.INFO, "zkbroker.audit")
    return AuditLog(clock, lambda *given: denied.append(given))


def note(audit, name="orders", *, allowed=False):
    audit.note(BOB, Operation.WRITE, topic(name), "10.0.0.7", allowed=allowed, client="app")


def test_denial_is_logged_as_a_warning(audit, caplog, denied):
    note(audit)
    (message,) = caplog.messages
    assert message == (
        "denied principal=User:bob operation=Write resource=Topic:orders host=10.0.0.7 "
        "client_id=app"
    )
    assert caplog.records[0].levelno == logging.WARNING
    assert denied == [(BOB, Operation.WRITE)]


def test_repeated_denials_are_counted_for_a_minute(audit, caplog, clock):
    for _ in range(1000):
        note(audit)
    assert len(caplog.messages) == 1
    clock.now = WINDOW_MS
    note(audit)
    assert caplog.messages[1:] == [
        "denied again principal=User:bob operation=Write resource=Topic:orders times=999",
        caplog.messages[0],
    ]


def test_number_of_logged_denials_is_bounded(audit, caplog):
    for number in range(10 * MAX_LINES):
        note(audit, f"t{number}")
    assert len(caplog.messages) == MAX_LINES
    audit.flush()
    assert caplog.messages[MAX_LINES:] == [
        f"denied more times={9 * MAX_LINES}: too many different ones for a line each"
    ]


def test_allowed_requests_are_logged_at_debug(audit, caplog):
    note(audit, allowed=True)
    assert caplog.messages == []
    caplog.set_level(logging.DEBUG, "zkbroker.audit")
    note(audit, allowed=True)
    assert caplog.messages[0].startswith("allowed principal=User:bob")


def test_resource_name_cannot_forge_or_flood_log_lines(audit, caplog):
    note(audit, "x\ndenied principal=User:alice")
    note(audit, "y" * 30_000)
    assert all("\n" not in message for message in caplog.messages)
    assert all(len(message) < 500 for message in caplog.messages)


def test_denials_are_logged_after_the_clock_goes_back(audit, caplog, clock):
    clock.now = 10 * WINDOW_MS
    note(audit)
    clock.now = 0
    note(audit)
    assert len(caplog.messages) == 2
