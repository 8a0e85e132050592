import pytest

from zkbroker.config.jaas import JaasLine
from zkbroker.config.sasl_login import SaslLogin
from zkbroker.config.secret import Secret
from zkbroker.security.sasl.client_mechanisms import client_mechanism


@pytest.mark.parametrize(
    ("mechanism", "begins"),
    [("PLAIN", b"\0alice\0pw"), ("SCRAM-SHA-256", b"n,,n=alice,r="), ("SCRAM-SHA-512", b"n,,n=al")],
)
def test_password_mechanisms_send_the_user(mechanism, begins):
    login = SaslLogin(mechanism=mechanism, username="alice", password=Secret("pw"))
    assert client_mechanism(login).first().startswith(begins)


def test_oauthbearer_sends_extensions():
    line = JaasLine("OAuthBearerLoginModule", {"unsecuredLoginExtension_tenant": "x"})
    login = SaslLogin(mechanism="OAUTHBEARER", token=lambda: "t", line=line)
    assert client_mechanism(login).first() == b"n,,\x01auth=Bearer t\x01tenant=x\x01\x01"
