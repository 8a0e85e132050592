"""Turns errors of the library into HTTP answers.

Invariant: every error has a status, a short code and a sentence of its own.
"""

from zkbroker.errors import (
    ClientError,
    ConfigError,
    ErrorCode,
    ProtocolError,
    RegistryError,
    UnknownTopicOrPartition,
    UnsupportedVersion,
    ZkbrokerError,
)

_REFUSED = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)


def explain(error: ZkbrokerError) -> tuple[int, str, str]:
    """Return status, code and sentence."""
    text = str(error) or "the cluster refused without a reason"
    if isinstance(error, UnknownTopicOrPartition):
        return 404, "not_found", text
    if isinstance(error, ConfigError):
        return 400, "not_allowed", text
    if isinstance(error, UnsupportedVersion):
        return 501, "too_old", f"the cluster is too old for this: {text}"
    if isinstance(error, ProtocolError):
        if error.code in _REFUSED:
            return 403, "not_authorized", f"the console's own user may not do this: {text}"
        if error.code.retriable:
            return 503, "try_again", f"{text}: try again in some seconds"
        return 409, error.code.name.lower(), text
    if isinstance(error, RegistryError):
        return 503, "unreachable", text
    if isinstance(error, ClientError):
        return 409, "refused", text
    return 502, "failed", text
