"""Loads private keys, certificates and authorities from PEM, PKCS#12 and inline text.

    ssl.keystore.location               one PEM file (key and chain), or PKCS#12
    ssl.keystore.key, .certificate...   PEM text
    ssl.key.location, .certificate...   two PEM files (librdkafka)

Invariant: the format of a file is recognized by its content; a private key is never written to a
disk. If something cannot be used, a `ConfigError` names the setting and the file.
"""

import importlib
import os
import re
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from zkbroker.config.secret import Secret
from zkbroker.config.tls import TlsSettings
from zkbroker.errors import ConfigError

_PEM = b"-----BEGIN "
_JKS = b"\xfe\xed\xfe\xed"
_DER_SEQUENCE = 0x30
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
_ENCRYPTED = ("ENCRYPTED PRIVATE KEY", "Proc-Type: 4,ENCRYPTED")
_MOST_BYTES = 4 * 1024 * 1024


def load_key(context: ssl.SSLContext, tls: TlsSettings) -> None:
    """Load the private key and its certificates into a context.

    Raises:
        ConfigError: they cannot be read, or do not belong together.
    """
    if tls.keystore_key:
        named = "ssl.keystore.key"
        pem = _one_line(tls.keystore_key.reveal()) + "\n" + _one_line(tls.keystore_chain)
    elif tls.key_location:
        named = f"ssl.key.location={tls.key_location}"
        pem = _pem_file("ssl.key.location", tls.key_location) + "\n"
        pem += _pem_file("ssl.certificate.location", tls.certificate_location)
    else:
        named = f"ssl.keystore.location={tls.keystore_location}"
        pem = _store(
            "ssl.keystore", tls.keystore_location, tls.keystore_type, tls.keystore_password
        )
    kinds = [found.group(1) for found in _BLOCK.finditer(pem)]
    if not any(kind.endswith("PRIVATE KEY") for kind in kinds):
        raise ConfigError(f"{named} holds no private key: give the key and its certificates")
    if "CERTIFICATE" not in kinds:
        raise ConfigError(
            f"{named} holds no certificate: give the key and its certificates, its own one first"
        )
    encrypted = any(mark in pem for mark in _ENCRYPTED)
    if encrypted and not tls.key_password:
        raise ConfigError(f"the private key of {named} is encrypted: set ssl.key.password")
    with _in_memory(pem.encode()) as path:
        try:
            # The function is called only for an encrypted key; without it OpenSSL would ask at the
            # terminal.
            context.load_cert_chain(path, password=tls.key_password.reveal)
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(_bad_key(named, error, encrypted=encrypted)) from error


def load_authorities(context: ssl.SSLContext, tls: TlsSettings) -> None:
    """Load the authorities of the settings into a context, by default the system's.

    Raises:
        ConfigError: they cannot be read, or hold no certificate.
    """
    if tls.truststore_certificates:
        named, pem = "ssl.truststore.certificates", _one_line(tls.truststore_certificates)
    elif tls.truststore_location:
        named = f"ssl.truststore.location={tls.truststore_location}"
        path = Path(tls.truststore_location)
        if path.is_dir():
            # As with librdkafka: one file for each authority, named by its hash.
            context.load_verify_locations(capath=str(path))
            return
        pem = _store(
            "ssl.truststore", tls.truststore_location, tls.truststore_type, tls.truststore_password
        )
    else:
        context.load_default_certs()
        return
    certificates = "\n".join(
        found.group(0) for found in _BLOCK.finditer(pem) if found.group(1) == "CERTIFICATE"
    )
    if not certificates:
        raise ConfigError(f"{named} holds no certificate of an authority, as PEM text")
    if not certificates.isascii():
        raise ConfigError(f"{named} cannot be used: a certificate has signs that no PEM text has")
    try:
        context.load_verify_locations(cadata=certificates)
    except ssl.SSLError as error:
        raise ConfigError(f"{named} cannot be used: {_reason(error)}") from error


def _store(key: str, path: str, kind: str, password: Secret) -> str:
    """Read a file in any format; return it as PEM."""
    data = _read(f"{key}.location", path)
    if _is_pem(key, path, data, kind):
        return data.decode("utf-8", "replace")
    return _from_pkcs12(path, data, password)


def _read(key: str, path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{key}={path} cannot be read: {error.strerror or error}") from error
    if len(data) > _MOST_BYTES:
        raise ConfigError(f"{key}={path} is larger than 4 MiB: it is not a key file")
    return data


def _pem_file(key: str, path: str) -> str:
    data = _read(key, path)
    if _PEM not in data:
        raise ConfigError(f"{key}={path} is not a PEM file")
    return data.decode("utf-8", "replace")


def _is_pem(key: str, path: str, data: bytes, kind: str) -> bool:
    """Tell PEM (True) from PKCS#12 (False) by the content of a file; refuse others."""
    if data.startswith(_JKS):
        raise ConfigError(
            f"{key}.location={path} is a JKS file, which only Java reads; convert it: keytool "
            f"-importkeystore -srckeystore {path} -destkeystore {Path(path).with_suffix('.p12')} "
            f"-deststoretype PKCS12, and set {key}.type=PKCS12"
        )
    if _PEM in data:
        if kind not in ("", "PEM"):
            raise ConfigError(f"{key}.location={path} is a PEM file: set {key}.type=PEM")
        return True
    if data and data[0] == _DER_SEQUENCE:
        # Java also reads PKCS#12 if the type is JKS, so that is accepted.
        if kind == "PEM":
            raise ConfigError(f"{key}.location={path} is a PKCS#12 file: set {key}.type=PKCS12")
        return False
    raise ConfigError(f"{key}.location={path} is neither a PEM nor a PKCS#12 file")


def _from_pkcs12(path: str, data: bytes, password: Secret) -> str:
    try:
        # An optional package, of the extra `security`; hence untyped.
        pkcs12: Any = importlib.import_module("cryptography.hazmat.primitives.serialization.pkcs12")
        serialization: Any = importlib.import_module("cryptography.hazmat.primitives.serialization")
    except ImportError as error:
        raise ConfigError(
            f"{path} is a PKCS#12 file, which needs cryptography: pip install "
            "'zkbroker[security]', or convert it: openssl pkcs12 -in "
            f"{path} -out {Path(path).with_suffix('.pem')} -nodes"
        ) from error
    try:
        store = pkcs12.load_pkcs12(data, password.reveal().encode() or None)
    except ValueError as error:
        raise ConfigError(
            f"{path} cannot be opened as PKCS#12: the password is wrong, or the file is damaged"
        ) from error
    encoding = serialization.Encoding.PEM
    certificates = [] if store.cert is None else [store.cert.certificate]
    certificates += [each.certificate for each in store.additional_certs]
    parts = [each.public_bytes(encoding) for each in certificates]
    if store.key is not None:
        parts.insert(
            0,
            store.key.private_bytes(
                encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
        )
    return b"".join(parts).decode()


def _one_line(pem: str) -> str:
    """Return inline PEM with its line breaks, which property files may have lost."""
    if "\n" in pem.strip():
        return pem

    def broken(found: re.Match[str]) -> str:
        kind = found.group(1)
        body = found.group(0)[len(f"-----BEGIN {kind}-----") : -len(f"-----END {kind}-----")]
        return f"-----BEGIN {kind}-----\n" + "\n".join(body.split()) + f"\n-----END {kind}-----\n"

    return _BLOCK.sub(broken, pem)


@contextmanager
def _in_memory(data: bytes) -> Iterator[str]:
    """Provide bytes as a file in memory; Python's ssl reads keys from files only."""
    descriptor = os.memfd_create("key", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, data)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _bad_key(named: str, error: Exception, *, encrypted: bool) -> str:
    reason = _reason(error)
    if "KEY_VALUES_MISMATCH" in reason:
        return (
            f"the private key of {named} does not match its first certificate: put the certificate "
            "of this key first"
        )
    if encrypted:
        return f"the private key of {named} cannot be decrypted: ssl.key.password is wrong"
    return f"{named} cannot be used: {reason}"


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or str(error)
