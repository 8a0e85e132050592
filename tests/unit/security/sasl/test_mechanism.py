from zkbroker.security.sasl.mechanism import MAX_TOKEN_BYTES, invalid_credentials


def test_invalid_credentials_message_names_the_mechanism():
    assert str(invalid_credentials("SCRAM-SHA-256")) == (
        "Authentication failed during authentication due to invalid credentials with SASL "
        "mechanism SCRAM-SHA-256"
    )


def test_token_limit_is_that_of_genuine_brokers():
    assert MAX_TOKEN_BYTES == 512 * 1024
