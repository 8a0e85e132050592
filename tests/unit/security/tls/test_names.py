"""Subjects of certificates as Java writes them, for ACLs and super.users."""

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.certificates import Authority
from zkbroker.security.tls.names import BadCertificate, subject_name

AUTHORITY = Authority()


def named(*names):
    key = ec.generate_private_key(ec.SECP256R1())
    issued = AUTHORITY.issue("CN=x").chain[0]
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name(names))
        .issuer_name(issued.issuer)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(issued.not_valid_before_utc)
        .not_valid_after(issued.not_valid_after_utc)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.DER)
    )


def one(kind, text):
    return x509.RelativeDistinguishedName([x509.NameAttribute(kind, text)])


def test_subject_is_written_in_reverse_order():
    certificate = named(
        one(NameOID.COUNTRY_NAME, "DE"),
        one(NameOID.STATE_OR_PROVINCE_NAME, "Berlin"),
        one(NameOID.LOCALITY_NAME, "Berlin"),
        one(NameOID.ORGANIZATION_NAME, "Example GmbH"),
        one(NameOID.ORGANIZATIONAL_UNIT_NAME, "Zähler"),
        one(NameOID.USER_ID, "u1"),
        one(NameOID.DOMAIN_COMPONENT, "example"),
        one(NameOID.COMMON_NAME, "alice"),
    )
    assert subject_name(certificate) == (
        "CN=alice,DC=example,UID=u1,OU=Zähler,O=Example GmbH,L=Berlin,ST=Berlin,C=DE"
    )


def test_attribute_without_keyword_is_written_as_oid():
    certificate = named(one(NameOID.EMAIL_ADDRESS, "a@b"), one(NameOID.COMMON_NAME, "a"))
    assert subject_name(certificate) == "CN=a,1.2.840.113549.1.9.1=#1603614062"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("a,b", "a\\,b"),
        ('"+<>;\\', '\\"\\+\\<\\>\\;\\\\'),
        ("#a=b", "\\#a\\=b"),
        (" a b ", "\\ a b\\ "),
        ("  ", "\\ \\ "),
        ("", ""),
    ],
)
def test_special_characters_are_escaped(text, written):
    assert subject_name(
        named(one(NameOID.COMMON_NAME, text) if text else one(NameOID.ORGANIZATION_NAME, "o"))
    ) == (f"CN={written}" if text else "O=o")


def test_multivalued_rdn_is_joined():
    level = x509.RelativeDistinguishedName(
        [
            x509.NameAttribute(NameOID.COMMON_NAME, "a"),
            x509.NameAttribute(NameOID.USER_ID, "u"),
        ]
    )
    assert subject_name(named(level)) in ("CN=a+UID=u", "UID=u+CN=a")


def test_malformed_certificate_is_refused():
    whole = named(one(NameOID.COMMON_NAME, "a"))
    for size in range(0, 200, 7):
        with pytest.raises(BadCertificate):
            subject_name(whole[:size])
