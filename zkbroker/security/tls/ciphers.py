"""Versions and cipher suites, by the names that Kafka's settings have, for OpenSSL.

    ssl.cipher.suites=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256    ->  ECDHE-RSA-AES128-GCM-SHA256
    ssl.enabled.protocols=TLSv1.2                              ->  lowest and highest version

Invariant: what is set is what is spoken. Python cannot choose among the suites of TLS 1.3, so a
list either names all of them, or TLS 1.3 is left out.
"""

import re
import ssl

from zkbroker.config.tls import TlsSettings
from zkbroker.errors import ConfigError

_VERSIONS = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_LEAVE_OUT = {
    "TLSv1.1": ssl.OP_NO_TLSv1_1,
    "TLSv1.2": ssl.OP_NO_TLSv1_2,
}
_OLD = ("TLSv1", "TLSv1.1")
_NEWEST = "TLSv1.3"
_SUITES_1_3 = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
_STANDARD = re.compile(r"(?:TLS|SSL)_(\w+)_WITH_(\w+)")
# OpenSSL refuses the signatures of TLS 1.0 and 1.1 at its usual level of security.
_LEVEL_FOR_OLD = "@SECLEVEL=0"


def restrict(context: ssl.SSLContext, tls: TlsSettings) -> None:
    """Let a context speak the versions and cipher suites of the settings, and no others.

    Raises:
        ConfigError: OpenSSL knows none of the suites, or no version is left for them.
    """
    versions = set(tls.versions)
    older = [name for name in tls.cipher_suites if name not in _SUITES_1_3]
    newest = [name for name in tls.cipher_suites if name in _SUITES_1_3]
    if tls.cipher_suites:
        if newest and len(set(newest)) < len(_SUITES_1_3) and _NEWEST in versions:
            raise ConfigError(
                f"ssl.cipher.suites={','.join(tls.cipher_suites)} is not allowed: the suites of "
                f"TLSv1.3 cannot be chosen one by one; name all of {', '.join(_SUITES_1_3)}, or "
                "none of them to leave TLSv1.3 out"
            )
        versions -= set() if newest else {_NEWEST}
        versions &= versions if older else {_NEWEST}
        if not versions:
            raise ConfigError(
                f"ssl.cipher.suites={','.join(tls.cipher_suites)} fits none of the versions in "
                f"ssl.enabled.protocols={','.join(tls.versions)}"
            )
    spoken = [name for name in _VERSIONS if name in versions]
    context.minimum_version = _VERSIONS[spoken[0]]
    context.maximum_version = _VERSIONS[spoken[-1]]
    between = tuple(_VERSIONS)
    for name in between[between.index(spoken[0]) : between.index(spoken[-1])]:
        if name not in versions:
            context.options |= _LEAVE_OUT[name]
    ciphers = ":".join(openssl_name(name) for name in older)
    if versions & set(_OLD):
        ciphers = f"{ciphers or 'DEFAULT'}:{_LEVEL_FOR_OLD}"
    if ciphers:
        try:
            context.set_ciphers(ciphers)
        except ssl.SSLError as error:
            raise ConfigError(
                f"ssl.cipher.suites={','.join(older)} is not allowed: OpenSSL knows none of "
                "them, or serves none at its level of security"
            ) from error


def openssl_name(suite: str) -> str:
    """Return OpenSSL's name of a suite of TLS 1.2 or older; other names as they are."""
    found = _STANDARD.fullmatch(suite)
    if found is None:
        return suite
    exchange, cipher = found.groups()
    cipher = re.sub(r"(AES|ARIA|CAMELLIA)_(\d+)", r"\1\2", cipher)
    cipher = cipher.replace("_CBC_", "_") if not cipher.startswith("3DES") else "DES_CBC3_SHA"
    if cipher.startswith("CHACHA20"):
        cipher = "CHACHA20_POLY1305"
    name = cipher if exchange == "RSA" else f"{exchange}_{cipher}"
    return name.replace("_", "-")
