"""Password hashes: made, parsed, compared, and loaded from files."""

import pytest

from zkbroker.errors import ConfigError
from zkbroker.security import password_hashes
from zkbroker.security.password_hashes import PasswordHash, load_users, password_fits

# Made by passlib 1.7.4: pbkdf2_sha256.using(rounds=1000, salt=b"0123456789abcdef").hash("pässwörd")
OF_PASSLIB = (
    "$pbkdf2-sha256$1000$MDEyMzQ1Njc4OWFiY2RlZg$Kfxd4gVEVJAUWyEM9/KuB1B0aQFq.qVyrFi44QnyZ4k"
)


def test_hash_matches_only_its_password():
    made = PasswordHash.of("secret", iterations=10)
    assert PasswordHash.parse(str(made)) == made
    assert made.fits("secret")
    assert not made.fits("Secret")
    assert made != PasswordHash.of("secret", iterations=10)
    assert "secret" not in repr(made)


def test_passlib_hashes_are_parsed():
    found = PasswordHash.parse(OF_PASSLIB)
    assert found.fits("pässwörd")
    assert str(found) == OF_PASSLIB


def test_password_is_checked_for_known_users():
    users = {"alice": PasswordHash.of("secret", iterations=10)}
    assert password_fits(users, "alice", "secret")
    assert not password_fits(users, "alice", "other")
    assert not password_fits(users, "bob", "secret")


def test_unknown_user_costs_the_same_hash_rounds(monkeypatch):
    rounds = []
    monkeypatch.setattr(
        password_hashes, "_derive", lambda *given: rounds.append(given[2]) or bytes(32)
    )
    users = {"alice": PasswordHash(10, b"salt", bytes(32))}
    password_fits(users, "alice", "x")
    password_fits(users, "bob", "x")
    assert rounds == [10, 10]
    assert not password_fits({}, "bob", "x")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "secret",
        "$apr1$salt$hash",
        "$pbkdf2-sha256$0$AAAA$AAAA",
        "$pbkdf2-sha256$x$AAAA$AAAA",
        "$pbkdf2-sha256$10$AAAA$AAAA",
        "$pbkdf2-sha256$99999999999$AAAA$" + "A" * 43,
        "$pbkdf2-sha256$10$$" + "A" * 43,
        "$pbkdf2-sha256$10$A!AA$" + "A" * 43,
        "x$pbkdf2-sha256$10$AAAA$" + "A" * 43,
    ],
)
def test_malformed_hash_is_refused(text):
    with pytest.raises(ValueError):
        PasswordHash.parse(text)


def test_user_file_is_loaded_or_refused_by_line(tmp_path):
    line = f"alice:{PasswordHash.of('secret', iterations=10)}"
    file = tmp_path / "users"
    file.write_text(f"# who may see it\n\n{line}\n")
    assert list(load_users(str(file), "admin.users.file")) == ["alice"]
    for text, message in (
        (f"{line}\nbob:secret\n", "line 2 is not user:[$]pbkdf2-sha256"),
        (f"{line}\n{line}\n", "line 2 has no user, or a repeated one"),
        ("# nobody\n", "has no user: add a line made with zkbroker hash-password USER"),
    ):
        file.write_text(text)
        with pytest.raises(ConfigError, match=message) as refused:
            load_users(str(file), "admin.users.file")
        assert "secret" not in str(refused.value).replace("pbkdf2", "")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_users("/nowhere/users", "admin.users.file")
