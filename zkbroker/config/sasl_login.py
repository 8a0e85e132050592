"""How a client logs in: the mechanism, and user and password or tokens.

    sasl.mechanism=SCRAM-SHA-512
    sasl.jaas.config=org...ScramLoginModule required username="alice" password="...";
    or sasl.username=alice and sasl.password=...

Invariant: a login has a supported mechanism and everything that the mechanism needs. An error
message names the setting and never the password.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from zkbroker.config import schema
from zkbroker.config.jaas import JaasLine, parse_jaas_line
from zkbroker.config.sasl_options import MECHANISMS, OAUTHBEARER
from zkbroker.config.schema import Str, option
from zkbroker.config.secret import NO_SECRET, Secret, SecretText
from zkbroker.errors import ConfigError

_GIVE = "set sasl.mechanism to one of " + ", ".join(MECHANISMS)
_KERBEROS = "sasl.mechanism=GSSAPI is Kerberos, which is not supported: " + _GIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslLogin:
    """How a client logs in."""

    # fmt: off
    mechanism: str = option("sasl.mechanism sasl.mechanisms", Str(), "",
        f"Mechanism of the login: {', '.join(MECHANISMS[:-1])} or {MECHANISMS[-1]}.")
    jaas_config: Secret = option("sasl.jaas.config", SecretText(), NO_SECRET,
        "The login module's line with user and password, as Kafka's clients take it.")
    username: str = option("sasl.username", Str(), "",
        "User, in place of a line in sasl.jaas.config.")
    password: Secret = option("sasl.password", SecretText(), NO_SECRET,
        "Password of that user.")
    token_handler: str = option("sasl.login.callback.handler.class", Str(), "",
        "package.module:function that returns the token of OAUTHBEARER; asked for each connection.")
    token_url: str = option("sasl.oauthbearer.token.endpoint.url", Str(), "",
        "Source of OAUTHBEARER tokens: file:///... holds one, https://... issues them for "
        "clientId and clientSecret.")
    client_id: str = option("sasl.oauthbearer.client.id", Str(), "",
        "Client id for that page, where sasl.jaas.config has no clientId.")
    client_secret: Secret = option("sasl.oauthbearer.client.secret", SecretText(), NO_SECRET,
        "Secret of that client, where sasl.jaas.config has no clientSecret.")
    scope: str = option("sasl.oauthbearer.scope", Str(), "",
        "Scope to ask that page for, where sasl.jaas.config has no scope.")
    # fmt: on
    line: JaasLine | None = None
    """The login module's line, once it is read."""
    token: Callable[[], str] | None = field(default=None, repr=False)
    """Returns the token of OAUTHBEARER; for programs."""

    def __post_init__(self) -> None:
        schema.validate(self)
        name = self.mechanism.strip().upper()
        object.__setattr__(self, "mechanism", name)
        if name not in MECHANISMS:
            if name == "GSSAPI":
                raise ConfigError(_KERBEROS)
            given = (
                f"sasl.mechanism={name} is not supported" if name else "sasl.mechanism is missing"
            )
            raise ConfigError(f"{given}: {_GIVE}")
        if self.line is None and self.jaas_config:
            line = parse_jaas_line(self.jaas_config.reveal(), "sasl.jaas.config")
            object.__setattr__(self, "line", line)
        if name == OAUTHBEARER:
            self._check_token()
        else:
            self._check_user()

    @property
    def user(self) -> str:
        """The user of a login with a password; empty where the token names the user."""
        return self._option("username") or self.username

    @property
    def user_password(self) -> str:
        """The user's password."""
        return self._option("password") or self.password.reveal()

    @property
    def client(self) -> tuple[str, str, str]:
        """Client id, secret and scope for the page that issues tokens."""
        return (
            self._option("clientId") or self.client_id,
            self._option("clientSecret") or self.client_secret.reveal(),
            self._option("scope") or self.scope,
        )

    def _option(self, name: str) -> str:
        return "" if self.line is None else self.line.options.get(name, "")

    def _check_user(self) -> None:
        if self.line is not None and (self.username or self.password):
            raise ConfigError(
                "sasl.jaas.config and sasl.username or sasl.password are both set: give the user "
                "in one way"
            )
        for what, given, key in (
            ("user", self.user, "username"),
            ("password", self.user_password, "password"),
        ):
            if not given:
                where = f"add {key} to" if self.line is not None else f"set sasl.{key}, or"
                raise ConfigError(
                    f"sasl.mechanism={self.mechanism} needs a {what}: {where} sasl.jaas.config"
                )
            if "\0" in given:
                raise ConfigError(f"the {what} of the login holds a NUL, which no broker takes")

    def _check_token(self) -> None:
        unsecured = self.line is not None and any(
            name.startswith("unsecuredLogin") for name in self.line.options
        )
        if not (self.token or self.token_handler or self.token_url or unsecured):
            raise ConfigError(
                "sasl.mechanism=OAUTHBEARER needs tokens: set sasl.oauthbearer.token.endpoint.url "
                "(file:///... or https://...), or sasl.login.callback.handler.class="
                "package.module:function, or, for tests alone, unsecuredLoginStringClaim_sub in "
                "sasl.jaas.config"
            )
        if not self.token_url:
            return
        scheme = self.token_url.lower().partition(":")[0]
        if scheme not in ("file", "https", "http"):
            raise ConfigError(
                f"sasl.oauthbearer.token.endpoint.url={self.token_url} is not allowed: give "
                "https://... or file:///..."
            )
        client_id, secret, _ = self.client
        if scheme != "file" and not (client_id and secret):
            raise ConfigError(
                "sasl.oauthbearer.token.endpoint.url needs a client: add clientId and clientSecret "
                "to sasl.jaas.config, or set sasl.oauthbearer.client.id and .client.secret"
            )
