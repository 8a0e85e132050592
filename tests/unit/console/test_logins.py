import pytest

from zkbroker.broker.admin_access import AccessDecision, AdminAccess
from zkbroker.console.logins import LASTS_S, Logins, ViewerRole
from zkbroker.runtime import get_runtime
from zkbroker.security.password_hashes import PasswordHash


def line(user, password):
    return f"{user}:{PasswordHash.of(password, iterations=1)}\n"


ANN = line("ann", "right")


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def users(tmp_path):
    file = tmp_path / "users"
    file.write_text(ANN + line("bob", "builder"))
    return file


@pytest.fixture
def logins(users, clock):
    access = AdminAccess(str(users), get_runtime("threads"), lambda: clock[0])
    return Logins(access, {"bob"}, lambda: clock[0])


def test_role_without_users_is_viewer(clock):
    visitor = Logins(None, (), lambda: 0).visitor(None)
    assert (visitor.user, visitor.role) == (None, ViewerRole.VIEWER)
    assert len(visitor.csrf) == 64


def test_role_with_wildcard_operator_is_operator():
    assert Logins(None, {"*"}, lambda: 0).visitor(None).role is ViewerRole.OPERATOR


def test_login_creates_a_session_with_a_role(logins):
    assert logins.visitor(None) is None
    assert logins.visitor("made up") is None
    ann, bob = (logins.log_in(*each, "1.2.3.4") for each in (("ann", "right"), ("bob", "builder")))
    assert logins.visitor(ann).role is ViewerRole.VIEWER
    assert logins.visitor(bob).role is ViewerRole.OPERATOR
    assert logins.visitor(ann).csrf != logins.visitor(bob).csrf


def test_session_ends_by_timeout_and_logout(logins, clock):
    first = logins.log_in("ann", "right", "a")
    second = logins.log_in("ann", "right", "a")
    logins.log_out(first)
    logins.log_out(None)
    assert logins.visitor(first) is None
    assert logins.visitor(second) is not None
    clock[0] += LASTS_S
    assert logins.visitor(second) is None


def test_session_ends_if_its_user_line_changes(logins, users):
    token = logins.log_in("bob", "builder", "a")
    users.write_text(ANN + line("bob", "another") + "# changed\n")
    assert logins.visitor(token) is None
    ann = logins.log_in("ann", "right", "a")
    users.write_text(line("bob", "another"))
    assert logins.visitor(ann) is None


def test_oldest_sessions_are_dropped_beyond_the_limit(logins, monkeypatch):
    monkeypatch.setattr("zkbroker.console.logins.SESSIONS", 3)
    tokens = [logins.log_in("ann", "right", "a") for _ in range(5)]
    assert [logins.visitor(each) is not None for each in tokens] == [False] * 2 + [True] * 3


def test_login_is_only_that_of_the_named_user(logins, users):
    users.write_text(line("ann", "x:secret"))
    assert isinstance(logins.log_in("ann", "x:secret", "a"), str)
    # With a colon in the name, the same bytes would be the credentials of another user.
    assert logins.log_in("ann:x", "secret", "a") is AccessDecision.DENIED


@pytest.mark.parametrize("login", [("ann\ud800", "right"), ("ann", "right\udcff")])
def test_login_that_is_no_text_is_denied(logins, login):
    assert logins.log_in(*login, "a") is AccessDecision.DENIED
