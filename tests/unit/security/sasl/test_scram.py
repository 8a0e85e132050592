import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkbroker.errors import ConfigError
from zkbroker.security.sasl.scram import (
    HASHES,
    MAX_ITERATIONS,
    SHA_256,
    SHA_512,
    base36,
    escaped_name,
    make_credential,
    nonce,
    parse_credential,
    unescaped_name,
    xor,
)

# RFC 7677, section 3: user "user", password "pencil".
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")


def test_keys_match_the_rfc_example():
    made = make_credential(SHA_256, "pencil", 4096, lambda: SALT)
    message = (
        b"n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
        b"s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,"
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    signature = base64.b64encode(SHA_256.mac(made.server_key, message))
    assert signature == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    client_key = xor(proof, SHA_256.mac(made.stored_key, message))
    assert SHA_256.hash(client_key) == made.stored_key


@pytest.mark.parametrize("hashes", HASHES.values())
def test_credential_is_parsed_with_fields_in_any_order(hashes):
    made = make_credential(hashes, "p,w=x d", 5000)
    assert parse_credential(made.text(), hashes) == made
    assert parse_credential(",".join(reversed(made.text().split(","))), hashes) == made
    assert len(made.stored_key) == hashes.size
    assert "key=" not in repr(made)
    assert made.text().split(",")[1] not in repr(made)


GOOD = make_credential(SHA_256, "pw").text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has the fields"),
        ("salt=eA==", "stored_key, server_key, iterations is missing"),
        (GOOD + ",salt=eA==", "once each"),
        (GOOD + ",more=1", "has the fields"),
        (GOOD.replace("4096", "4095"), "at least 4096"),
        (GOOD.replace("4096", "many"), "is not a number"),
        (GOOD.replace("4096", "9" * 11), "is not a number"),
        (GOOD.replace("salt=", "salt=?"), "salt is not base64"),
        (make_credential(SHA_512, "pw").text(), "not those of SCRAM-SHA-256"),
    ],
)
def test_invalid_credential_error_hides_its_keys(text, message):
    with pytest.raises(ValueError, match=message) as raised:
        parse_credential(text, SHA_256)
    assert not any(part in str(raised.value) for part in GOOD.split(",")[:3])


def test_iterations_out_of_bounds_are_refused():
    with pytest.raises(ConfigError, match="Iterations 1000 is less than the minimum 4096"):
        make_credential(SHA_256, "x", 1000)
    with pytest.raises(ConfigError, match="at most"):
        make_credential(SHA_256, "x", MAX_ITERATIONS + 1)
    with pytest.raises(ConfigError, match="empty"):
        make_credential(SHA_256, "")


@given(st.text("a23CD=,é\0"))
def test_escaped_names_round_trip(name):
    assert unescaped_name(escaped_name(name)) == name
    assert "," not in escaped_name(name)


@pytest.mark.parametrize("text", ["=", "a=2", "=2c", "=3d"])
def test_invalid_name_escape_is_refused(text):
    with pytest.raises(ValueError, match="escape"):
        unescaped_name(text)


def test_nonces_are_unique_and_alphanumeric():
    made = {nonce() for _ in range(100)}
    assert len(made) == 100
    assert all(15 < len(each) <= 26 and each.isalnum() for each in made)
    assert not any(each.isupper() for each in made)
    assert [base36(number) for number in (0, 35, 36**3 + 35)] == ["0", "z", "100z"]
