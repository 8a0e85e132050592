import ssl

import pytest

from zkbroker.config.tls import TlsSettings
from zkbroker.errors import ConfigError
from zkbroker.security.tls.ciphers import openssl_name, restrict

ALL_1_3 = "TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256"


def restricted(versions="TLSv1.2,TLSv1.3", suites=""):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    names = tuple(name for name in suites.split(",") if name)
    restrict(context, TlsSettings(versions=tuple(versions.split(",")), cipher_suites=names))
    return context


@pytest.mark.parametrize(
    ("name", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384", "ECDHE-ECDSA-AES256-SHA384"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305"),
        ("SSL_RSA_WITH_3DES_EDE_CBC_SHA", "DES-CBC3-SHA"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
    ],
)
def test_standard_cipher_names_become_openssl_names(name, openssl):
    assert openssl_name(name) == openssl


def test_tls_versions_follow_the_settings():
    usual = restricted()
    assert usual.minimum_version is ssl.TLSVersion.TLSv1_2
    assert usual.maximum_version is ssl.TLSVersion.TLSv1_3
    only = restricted("TLSv1.2")
    assert only.maximum_version is ssl.TLSVersion.TLSv1_2
    gap = restricted("TLSv1.1,TLSv1.3")
    assert gap.options & ssl.OP_NO_TLSv1_2


def test_cipher_suites_follow_the_settings():
    context = restricted(suites="TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256")
    # TLS 1.3 is left out with its suites.
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2
    older = {each["name"] for each in context.get_ciphers() if each["protocol"] != "TLSv1.3"}
    assert older == {"ECDHE-RSA-AES128-GCM-SHA256"}
    newest = restricted(suites=ALL_1_3)
    assert newest.minimum_version is ssl.TLSVersion.TLSv1_3


@pytest.mark.parametrize(
    ("versions", "suites", "message"),
    [
        ("TLSv1.2,TLSv1.3", "TLS_AES_128_GCM_SHA256", "cannot be chosen one by one"),
        ("TLSv1.2", ALL_1_3, "fits none of the versions"),
        ("TLSv1.2", "TLS_NOT_A_SUITE", "OpenSSL knows none"),
    ],
)
def test_impossible_cipher_settings_are_refused(versions, suites, message):
    with pytest.raises(ConfigError, match=message):
        restricted(versions, suites)
