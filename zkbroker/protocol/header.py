"""The header of a request."""

from dataclasses import dataclass


@dataclass(slots=True)
class RequestHeader:
    """The header of every request; its API and version may be unserved ones."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
