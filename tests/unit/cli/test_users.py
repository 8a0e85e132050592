import contextlib
from contextlib import nullcontext

import pytest
from click.testing import CliRunner

from tests.support.instant_session import InstantSession
from zkbroker.cli import users
from zkbroker.errors import ClientError, ConfigError
from zkbroker.registry.scram_users import ScramCredentials, scram_users
from zkbroker.registry.user_configs import read_user_configs
from zkbroker.security.sasl import SCRAM_SHA_256, SCRAM_SHA_512
from zkbroker.security.sasl.scram import SHA_256
from zkbroker.zookeeper import session as zookeeper_session


@pytest.fixture
def session(monkeypatch):
    session = InstantSession()
    monkeypatch.delenv(users.PASSWORD_VARIABLE, raising=False)
    monkeypatch.setattr(
        users, "open_empty_session", lambda zookeeper, **given: nullcontext(session)
    )
    return session


def run(*arguments, text="", **variables):
    done = CliRunner().invoke(users.command, arguments, input=text, env=variables)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.output


def has_password(session, user, password):
    known = ScramCredentials()
    known.take(read_user_configs(session))
    stored = known.credential(SCRAM_SHA_256, user)
    salted = SHA_256.salted_password(password, stored.salt, stored.iterations)
    return SHA_256.hash(SHA_256.mac(salted, b"Client Key")) == stored.stored_key


def test_password_comes_from_file_standard_input_or_environment(session, tmp_path):
    path = tmp_path / "password"
    path.write_bytes("p,w é\r\n".encode())
    assert run("add", "alice", "--password-file", str(path)) == (
        "Added user 'alice' for SCRAM-SHA-256 and SCRAM-SHA-512.\n"
    )
    assert has_password(session, "alice", "p,w é")
    run("alter", "alice", text="second\n")
    assert has_password(session, "alice", "second")
    run("alter", "alice", "--password-file", "-", text="third")
    assert has_password(session, "alice", "third")
    run("alter", "alice", **{users.PASSWORD_VARIABLE: "fourth"})
    assert has_password(session, "alice", "fourth")
    assert b"fourth" not in session.get("/config/users/alice")[0]


def test_mechanism_and_iteration_options(session):
    run("add", "alice", "--mechanism", "scram-sha-512", "--iterations", "5000", text="x")
    assert scram_users(session) == {"alice": {SCRAM_SHA_512: 5000}}
    run("alter", "alice", "--iterations", "6000", text="x")
    assert scram_users(session) == {"alice": {SCRAM_SHA_512: 6000}}
    run("add", "alice", "--mechanism", SCRAM_SHA_256, text="x")
    assert run("list") == (
        "alice  SCRAM-SHA-256 (4096 iterations), SCRAM-SHA-512 (6000 iterations)\n"
    )
    assert '"SCRAM-SHA-512": 6000' in run("list", "--json")
    run("delete", "alice", "--mechanism", SCRAM_SHA_512)
    assert scram_users(session) == {"alice": {SCRAM_SHA_256: 4096}}
    run("delete", "alice")
    assert run("list") == ""


@pytest.mark.parametrize(
    ("arguments", "text", "error", "message"),
    [
        (("alter", "bob"), "x", ClientError, "no user 'bob'"),
        (("delete", "bob"), "", ClientError, "no user 'bob'"),
        (("delete", "alice", "--mechanism", SCRAM_SHA_512), "", ClientError, "SCRAM-SHA-512"),
        (("add", "alice"), "x", ClientError, "zkbroker users alter"),
        (("add", "bob"), "", ConfigError, "password is empty"),
        (("add", "bob"), "a\nb", ConfigError, "several lines"),
        (("add", "bob", "--iterations", "100"), "x", ConfigError, "less than the minimum 4096"),
        (("add", "bob", "--password-file", "/none"), "", ConfigError, "cannot read the password"),
        (("add", ""), "x", ConfigError, "no name"),
        (("add", "bob"), "x" * 70_000, ConfigError, "more than a password"),
    ],
)
def test_refused_command_changes_no_user(session, arguments, text, error, message):
    run("add", "alice", "--mechanism", SCRAM_SHA_256, text="x")
    before = scram_users(session)
    with pytest.raises(error, match=message):
        run(*arguments, text=text)
    assert scram_users(session) == before


@pytest.mark.parametrize(
    "arguments", [("add", "bob"), ("alter", "bob"), ("list",), ("delete", "bob")]
)
def test_user_commands_use_the_zookeeper_login(arguments, monkeypatch, tmp_path):
    seen = []

    def session(connect, *, make_chroot=True, security):
        seen.append((security.set_acl, security.logins))
        return nullcontext(InstantSession())

    monkeypatch.setattr(zookeeper_session, "ZkSession", session)
    login = tmp_path / "zk.properties"
    login.write_text("zookeeper.auth.digest=broker:secret\nzookeeper.set.acl=true\n")
    given = ("-z", "zk:2181", "--command-config", str(login))
    with contextlib.suppress(ClientError):
        run(*arguments, *given, text="x\n")
    assert seen == [(True, seen[0][1])]
    assert "broker" in seen[0][1]
