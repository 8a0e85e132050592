"""Access to the admin page: the users of a file, with a bound on failed logins of an address."""

import base64
import threading

import pytest

from tests.support.clocks import Clock
from zkbroker.broker import admin_access
from zkbroker.broker.admin_access import FAILURES, WINDOW_S, AccessDecision, AdminAccess
from zkbroker.errors import ConfigError
from zkbroker.security.password_hashes import PasswordHash


class CountingRuntime:
    """Runs offloaded functions in place, and counts them."""

    def __init__(self):
        self.offloads = 0

    def offload(self, function, *args):
        self.offloads += 1
        return function(*args)

    def lock(self):
        return threading.Lock()


def header(user, password):
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "users"
    path.write_text(f"alice:{PasswordHash.of('sécret:x', iterations=10)}\n")
    return path


@pytest.fixture
def clock():
    return Clock(1000)


@pytest.fixture
def runtime():
    return CountingRuntime()


@pytest.fixture
def access(file, runtime, clock):
    return AdminAccess(str(file), runtime, clock)


def test_password_of_a_user_is_hashed_once(access, runtime):
    for _ in range(3):
        assert access.check(header("alice", "sécret:x"), "1.2.3.4") is AccessDecision.GRANTED
    assert runtime.offloads == 1


@pytest.mark.parametrize(
    "sent",
    [
        None,
        "",
        "Basic",
        "Basic !",
        "Bearer x",
        "Basic " + base64.b64encode(b"alice").decode(),
        "Basic " + base64.b64encode(b"\xff:\xff").decode(),
        "Basic " + "A" * 5000,
        header("alice", "secret"),
        header("bob", "sécret:x"),
        header("", ""),
    ],
)
def test_invalid_credentials_are_denied(access, sent):
    assert access.check(sent, "1.2.3.4") is AccessDecision.DENIED


def test_address_with_too_many_failures_must_wait(access, clock, runtime, caplog):
    for _ in range(FAILURES):
        assert access.check(header("alice", "no"), "1.2.3.4") is AccessDecision.DENIED
    assert "sécret" not in caplog.text
    assert access.check(header("alice", "sécret:x"), "1.2.3.4") is AccessDecision.TOO_MANY
    assert access.check(header("alice", "sécret:x"), "1.2.3.5") is AccessDecision.GRANTED
    assert access.check(None, "1.2.3.4") is AccessDecision.DENIED
    compared = runtime.offloads
    clock.now += WINDOW_S + 1
    assert access.check(header("alice", "sécret:x"), "1.2.3.4") is AccessDecision.GRANTED
    assert runtime.offloads == compared


def test_number_of_remembered_addresses_is_bounded(access, monkeypatch):
    monkeypatch.setattr(admin_access, "ADDRESSES", 3)
    for number in range(10):
        access.check(header("alice", "no"), f"1.2.3.{number}")
    assert len(access._failures) == 3


def test_changed_user_file_applies_at_once_unless_broken(access, file, caplog):
    assert access.check(header("alice", "sécret:x"), "a") is AccessDecision.GRANTED
    file.write_text("broken\n")
    assert access.check(header("alice", "sécret:x"), "a") is AccessDecision.GRANTED
    assert "users of the admin page kept as they were" in caplog.text
    file.write_text(f"bob:{PasswordHash.of('new', iterations=10)}\n")
    assert access.check(header("alice", "sécret:x"), "a") is AccessDecision.DENIED
    assert access.check(header("bob", "new"), "a") is AccessDecision.GRANTED


def test_unreadable_user_file_is_refused(runtime, clock):
    with pytest.raises(ConfigError, match=r"admin\.users\.file=/nowhere cannot be read"):
        AdminAccess("/nowhere", runtime, clock)
