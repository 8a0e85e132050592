"""The identity of a request's sender."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Principal:
    """An identity: a kind, `User` for people and programs, and a name.

    A connection that has not authenticated is `User:ANONYMOUS`.
    """

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS = Principal("User", "ANONYMOUS")
