"""A text that is never shown: passwords, private keys, tokens.

Invariant: only `reveal` returns the text. Everything else (`str`, `repr`, formatting, logging, an
error message) gives `[hidden]`.
"""

import hmac
from dataclasses import dataclass
from typing import Any

HIDDEN = "[hidden]"


class Secret:
    """A secret text."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__


NO_SECRET = Secret("")


@dataclass(frozen=True, slots=True)
class SecretText:
    """The kind of an option that holds a secret: text, kept as a `Secret`."""

    def parse(self, text: str) -> Secret:
        return Secret(text)

    def accepts(self, value: Any) -> bool:
        return isinstance(value, Secret)

    @property
    def allowed(self) -> str:
        return "text, which is never shown"
