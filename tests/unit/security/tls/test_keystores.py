"""Private keys and authorities in every supported format, and errors for the others."""

import ssl
import subprocess
import sys

import pytest

from tests.support.certificates import Authority
from zkbroker.config.secret import Secret
from zkbroker.config.tls import TlsSettings
from zkbroker.errors import ConfigError
from zkbroker.security.tls.keystores import load_authorities, load_key

AUTHORITY = Authority()
OWN = AUTHORITY.issue("CN=own")


def key_of(**settings):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load_key(context, TlsSettings(**settings))
    return context


def trusted_by(**settings):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    load_authorities(context, TlsSettings(**settings))
    return len(context.get_ca_certs())


def test_key_is_loaded_from_every_format(tmp_path):
    chain, key = OWN.files(tmp_path)
    stored = {"keystore_location": OWN.pkcs12(tmp_path, "pw"), "keystore_password": Secret("pw")}
    one_line = OWN.key_pem().replace("\n", " "), OWN.chain_pem().replace("\n", " ")
    for settings in (
        {"keystore_location": OWN.pem(tmp_path)},
        {"keystore_location": OWN.pem(tmp_path, "t.pem"), "keystore_type": "PEM"},
        {"keystore_location": OWN.pem(tmp_path, "e.pem", "pw"), "key_password": Secret("pw")},
        {"key_location": key, "certificate_location": chain},
        {"keystore_key": Secret(OWN.key_pem()), "keystore_chain": OWN.chain_pem()},
        {"keystore_key": Secret(one_line[0]), "keystore_chain": one_line[1]},
        stored,
        stored | {"keystore_type": "JKS"},  # Java's default, with which it reads PKCS#12 as well
    ):
        key_of(**settings)


def test_authorities_are_loaded_from_every_format(tmp_path):
    pem = AUTHORITY.trusted(tmp_path)
    stored = AUTHORITY.trusted_pkcs12(tmp_path, "pw")
    assert trusted_by(truststore_location=pem) == 1
    assert trusted_by(truststore_certificates=AUTHORITY.chain_pem()) == 1
    assert trusted_by(truststore_certificates=AUTHORITY.chain_pem().replace("\n", "")) == 1
    assert trusted_by(truststore_location=stored, truststore_password=Secret("pw")) == 1
    # A key that lies beside its certificates is left alone.
    assert trusted_by(truststore_location=AUTHORITY.pem(tmp_path)) == 1


def write(path, data):
    path.write_bytes(data)
    return str(path)


def test_unusable_key_error_names_the_remedy(tmp_path):
    other = AUTHORITY.issue("CN=other")
    missing = str(tmp_path / "none.pem")
    jks = write(tmp_path / "store.jks", b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    rubbish = write(tmp_path / "rubbish", b"hello")
    pem = OWN.pem(tmp_path)
    p12 = OWN.pkcs12(tmp_path, "pw")
    mixed = write(tmp_path / "mixed.pem", (OWN.key_pem() + other.chain_pem()).encode())
    locked = OWN.pem(tmp_path, "locked.pem", "pw")
    bare = write(tmp_path / "bare.pem", OWN.key_pem().encode())
    for settings, message in (
        ({"keystore_location": missing}, "cannot be read: No such file"),
        ({"keystore_location": jks}, f"keytool -importkeystore -srckeystore {jks}"),
        ({"keystore_location": rubbish}, "neither a PEM nor a PKCS#12 file"),
        ({"keystore_location": pem, "keystore_type": "PKCS12"}, "set ssl.keystore.type=PEM"),
        ({"keystore_location": p12, "keystore_type": "PEM"}, "set ssl.keystore.type=PKCS12"),
        ({"keystore_location": p12, "keystore_password": Secret("no")}, "the password is wrong"),
        ({"keystore_location": mixed}, "does not match its first certificate"),
        ({"keystore_location": locked}, "is encrypted: set ssl.key.password"),
        ({"keystore_location": locked, "key_password": Secret("no")}, "ssl.key.password is wrong"),
        ({"keystore_location": bare}, "holds no certificate"),
        ({"keystore_location": AUTHORITY.trusted(tmp_path)}, "holds no private key"),
        ({"key_location": rubbish, "certificate_location": pem}, "is not a PEM file"),
    ):
        with pytest.raises(ConfigError) as refused:
            key_of(**settings)
        assert message in str(refused.value)


def test_unusable_truststore_is_refused(tmp_path):
    bare = write(tmp_path / "bare.pem", OWN.key_pem().encode())
    with pytest.raises(ConfigError, match="holds no certificate of an authority"):
        trusted_by(truststore_location=bare)
    with pytest.raises(ConfigError, match="cannot be read"):
        trusted_by(truststore_location=str(tmp_path / "none"))
    broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    with pytest.raises(ConfigError, match="cannot be used"):
        trusted_by(truststore_certificates=broken)
    damaged = write(tmp_path / "damaged.pem", broken.encode().replace(b"AAAA", b"A\xffAA"))
    with pytest.raises(ConfigError, match="cannot be used: a certificate has signs that no PEM"):
        trusted_by(truststore_location=damaged)


def test_pkcs12_without_cryptography_names_the_extra(tmp_path, monkeypatch):
    path = OWN.pkcs12(tmp_path, "pw")
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization.pkcs12", None)
    with pytest.raises(ConfigError, match=r"pip install 'zkbroker\[security\]'"):
        key_of(keystore_location=path, keystore_password=Secret("pw"))


def test_suggested_keytool_command_works(tmp_path):
    store = tmp_path / "store.jks"
    made = ["keytool", "-genkeypair", "-keystore", str(store), "-storetype", "JKS", "-alias", "b"]
    made += ["-keyalg", "EC", "-dname", "CN=b", "-storepass", "secret", "-keypass", "secret"]
    subprocess.run(made, check=True, capture_output=True)
    with pytest.raises(ConfigError) as refused:
        key_of(keystore_location=str(store))
    line = str(refused.value).partition("convert it: ")[2].partition(", and set")[0]
    passwords = ["-srcstorepass", "secret", "-deststorepass", "secret"]
    subprocess.run([*line.split(), *passwords], check=True, capture_output=True)
    key_of(
        keystore_location=str(tmp_path / "store.p12"),
        keystore_type="PKCS12",
        keystore_password=Secret("secret"),
    )
