"""ApiVersions (18): the APIs and versions that a broker serves.

A request of an unserved version is answered too, in the layout of version 0 with error 35 and the
table, so that a newer client can fall back.
"""

from zkbroker.protocol.api import SUPPORTED_VERSIONS
from zkbroker.protocol.schema import Request, array, int16, int32, keyword_message, wire_message


@wire_message
class ApiVersionsRequest(Request):
    """It has no fields."""


@keyword_message
class ApiVersion:
    key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


@wire_message
class ApiVersionsResponse:
    error_code: int = int16()
    versions: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32(since=1)


def served_versions() -> list[ApiVersion]:
    """Return the served APIs and versions in the form of the answer."""
    return [
        ApiVersion(key=key, min_version=low, max_version=high)
        for key, (low, high) in SUPPORTED_VERSIONS.items()
    ]
