from zkbroker.security.sasl.mechanism import MAX_TOKEN_BYTES, invalid_credentials


def test_wrong_credentials_have_one_answer():
    assert str(invalid_credentials("SCRAM-SHA-256")) == (
        "Authentication failed during authentication due to invalid credentials with SASL "
        "mechanism SCRAM-SHA-256"
    )


def test_a_token_has_the_length_that_genuine_brokers_take():
    assert MAX_TOKEN_BYTES == 512 * 1024
