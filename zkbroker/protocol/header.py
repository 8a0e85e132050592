"""The header of a request."""

from dataclasses import dataclass


@dataclass(slots=True)
class RequestHeader:
    """What precedes every request; api_key and api_version may be ones that are not served."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
