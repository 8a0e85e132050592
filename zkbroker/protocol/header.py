"""The header of a request."""

from dataclasses import dataclass


@dataclass(slots=True)
class RequestHeader:
    """The header before every request; its API and version need not be served."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
