"""Viewers and their roles.

    no users      every client that can connect is a viewer; --allow-changes lets it change things
    users         a login with a password of the users file; operators are named
    mounted       a broker's admin page asks for the login: its user is the viewer

Invariant: a session is identified by a random token, which only its cookie holds. It ends after
    `LASTS_S`, at a logout, and when its user's line in the file is removed or changed. At most
    `SESSIONS` are kept; the oldest are dropped first.
"""

import base64
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum

from zkbroker.broker.admin_access import AccessDecision, AdminAccess
from zkbroker.security.password_hashes import PasswordHash

LASTS_S = 12 * 3600.0
SESSIONS = 1000
ANYONE = "*"
"""As an operator: every viewer."""


class ViewerRole(Enum):
    """The role of a viewer."""

    VIEWER = "viewer"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Visitor:
    """A viewer. Args: csrf is the token that requests for changes must contain."""

    user: str | None
    role: ViewerRole
    csrf: str


@dataclass(frozen=True, slots=True)
class _Session:
    user: str
    csrf: str
    ends_s: float
    line: PasswordHash | None


class Logins:
    """The sessions of viewers.

    Args:
        access: checks passwords; None without users.
        operators: users that may change things; `ANYONE` for all.
        now_s: a clock that never goes back, in seconds.
    """

    def __init__(
        self, access: AdminAccess | None, operators: Collection[str], now_s: Callable[[], float]
    ) -> None:
        self._access = access
        self._operators = frozenset(operators)
        self._now_s = now_s
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._secret = secrets.token_bytes(32)

    @property
    def needed(self) -> bool:
        """Whether there is a login."""
        return self._access is not None

    def visitor(self, token: str | None, user: str | None = None) -> Visitor | None:
        """Return the viewer of a cookie, or of the admin page; None if a login is needed first."""
        if user is not None or self._access is None:
            return Visitor(user, self._role(user), self._constant(user))
        session = None if token is None else self._sessions.get(token)
        if session is None or token is None:
            return None
        if session.ends_s <= self._now_s() or session.line != self._access.line(session.user):
            del self._sessions[token]
            return None
        return Visitor(session.user, self._role(session.user), session.csrf)

    def log_in(self, user: str, password: str, address: str) -> str | AccessDecision:
        """Return the token of a new session, or the reason for a refusal."""
        assert self._access is not None
        if ":" in user:
            return AccessDecision.DENIED  # basic authentication would end the name there
        # Before the check: a session never outlasts a change of the line that was checked.
        line = self._access.line(user)
        pair = base64.b64encode(f"{user}:{password}".encode(errors="surrogatepass")).decode()
        decided = self._access.check(f"Basic {pair}", address)
        if decided is not AccessDecision.GRANTED:
            return decided
        token = secrets.token_urlsafe(32)
        self._sessions[token] = _Session(
            user, secrets.token_urlsafe(24), self._now_s() + LASTS_S, line
        )
        while len(self._sessions) > SESSIONS:
            self._sessions.popitem(last=False)
        return token

    def log_out(self, token: str | None) -> None:
        """End a session."""
        if token is not None:
            self._sessions.pop(token, None)

    def _role(self, user: str | None) -> ViewerRole:
        allowed = ANYONE in self._operators or (user is not None and user in self._operators)
        return ViewerRole.OPERATOR if allowed else ViewerRole.VIEWER

    def _constant(self, user: str | None) -> str:
        """Return a token that a page of another origin cannot know."""
        return hmac.digest(self._secret, f"csrf {user!r}".encode(), "sha256").hex()
