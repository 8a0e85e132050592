import pickle

from zkbroker.config.secret import NO_SECRET, Secret, SecretText


def test_secret_is_hidden_until_revealed():
    secret = Secret("hunter2")
    shown = [str(secret), repr(secret), f"{secret}", "%s" % secret, repr({"a": secret})]  # noqa: UP031
    assert all("hunter2" not in text and "[hidden]" in text for text in shown)
    assert secret.reveal() == "hunter2"


def test_secrets_are_compared_by_value():
    assert Secret("a") == Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert hash(Secret("a")) == hash(Secret("a"))
    assert not NO_SECRET
    assert Secret("a")
    assert pickle.loads(pickle.dumps(Secret("a"))) == Secret("a")


def test_secret_kind_parses_text_and_hides_invalid_values():
    kind = SecretText()
    assert kind.parse(" spaces count ").reveal() == " spaces count "
    assert not kind.accepts("plain")
