"""The authorization of a broker's clients: authorizer, source of ACLs, and guards of handlers.

    authorizer.class.name  ''                    no authorizer: handlers are not guarded
                           SimpleAclAuthorizer   super users and the ACLs in ZooKeeper
                           package.module:Name   the user's own

Invariant: the ACLs are read before the first request is served. A broker whose authorizer cannot be
created does not start.
"""

import logging
from collections.abc import Mapping
from typing import NamedTuple

from zkbroker.broker.dispatcher import Handler
from zkbroker.broker.guard import Permissions, guarded
from zkbroker.broker.handlers.acls import NO_ACLS, AclsHandlers
from zkbroker.broker.pacing import paced
from zkbroker.broker.permissions import WouldCreate
from zkbroker.config.broker import BrokerConfig
from zkbroker.config.import_path import import_instance
from zkbroker.config.levels import LEVELS
from zkbroker.config.security import PLAINTEXT, ClientSecurity
from zkbroker.errors import ConfigError
from zkbroker.protocol import ApiKey
from zkbroker.registry.acl_watch import AclWatch
from zkbroker.runtime import Runtime
from zkbroker.security import ANONYMOUS, CLUSTER, Authorizer, Operation, Principal
from zkbroker.security.audit import AuditLog
from zkbroker.security.simple_authorizer import SimpleAclAuthorizer, parse_super_users
from zkbroker.zookeeper.session import ZkSession

logger = logging.getLogger(__name__)

SIMPLE = (
    "kafka.security.auth.SimpleAclAuthorizer",
    "kafka.security.authorizer.AclAuthorizer",
)

_JAVA = ("kafka.", "org.apache.", "io.confluent.", "com.confluent.")


class Asker(NamedTuple):
    """A client of a permission check without a request."""

    principal: Principal
    peer: str
    client_id: str | None = None


def make_authorizer(config: BrokerConfig) -> Authorizer | None:
    """Create the authorizer that a broker is configured with; None for none.

    Raises:
        ConfigError: it cannot be created.
    """
    name = config.authorizer_class.strip()
    if not name:
        return None
    super_users = parse_super_users(config.super_users)
    if name in SIMPLE:
        return SimpleAclAuthorizer(super_users, allow_if_none=config.allow_if_no_acl)
    advice = f"give {SIMPLE[0]} for the ACLs in ZooKeeper; classes of Java are not run"
    if name.startswith(_JAVA):
        # Not imported: a Python package may have the name of a Java one.
        raise ConfigError(f"authorizer.class.name={name} is not allowed: {advice}")
    try:
        made = import_instance("authorizer.class.name", name)
    except ConfigError as error:
        raise ConfigError(f"{error}, or {advice}") from error
    if not callable(getattr(made, "allows", None)):
        raise ConfigError(
            f"authorizer.class.name={name} has no method allows(principal, operation, resource, "
            "host): see zkbroker.security.Authorizer"
        )
    configure = getattr(made, "configure", None)
    if configure is not None:
        try:
            configure(dict(config.given))
        except Exception as error:
            raise ConfigError(
                f"authorizer.class.name={name} refused the configuration: {error!r}"
            ) from error
    authorizer: Authorizer = made
    return authorizer


def own_principal(security: ClientSecurity) -> Principal | None:
    """Return this broker's principal at the other brokers; None if they determine it."""
    if security.protocol == PLAINTEXT:
        return ANONYMOUS
    login = security.sasl
    user = None if login is None else login.username
    if login is not None and login.line is not None:
        user = login.line.options.get("username", user)
    return Principal("User", user) if user else None


class Authorization:
    """The authorizer of a running broker, and its source of ACLs."""

    def __init__(
        self,
        config: BrokerConfig,
        authorizer: Authorizer | None,
        session: ZkSession,
        runtime: Runtime,
    ) -> None:
        self._config = config
        self._audit = AuditLog(runtime.now_ms, self._denied)
        self._warned_of: set[Principal] = set()
        self.permissions: Permissions | None = None
        self._watch: AclWatch | None = None
        if authorizer is not None:
            self.permissions = Permissions(authorizer, self._audit)
        self.handlers: Mapping[ApiKey, Handler] = NO_ACLS
        """The handlers of the ACL APIs."""
        if isinstance(authorizer, SimpleAclAuthorizer):
            self._watch = AclWatch(
                session, lambda acls: authorizer.take_all(acls, paced), authorizer.take
            )
            prefixed = config.inter_broker_protocol != LEVELS[0]
            self.handlers = AclsHandlers(
                lambda: authorizer.index, session, self._watch, prefixed=prefixed
            ).handlers()

    def start(self) -> None:
        """Read the ACLs and watch them.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        if self._watch is not None:
            self._watch.start()

    def close(self, timeout_s: float | None) -> None:
        """Stop watching."""
        if self._watch is not None:
            self._watch.close(timeout_s)
        self._audit.flush()

    def guard(
        self, handlers: Mapping[ApiKey, Handler], would_create: WouldCreate
    ) -> Mapping[ApiKey, Handler]:
        """Put guards in front of handlers, if there is an authorizer."""
        if self.permissions is None:
            return handlers
        return guarded(handlers, self.permissions, would_create)

    @property
    def hint(self) -> str:
        """Further advice for brokers that receive no state from the controller."""
        if self.permissions is None:
            return ""
        return ", and whether super.users holds the principals of all brokers"

    def check_own(self) -> None:
        """Log what to set if the other brokers would refuse this broker's requests.

        If the principal comes from a certificate, the other brokers determine it, and log refusals.
        """
        principal = own_principal(self._config.security.client)
        if self.permissions is None or principal is None:
            return
        host = self._config.host or "127.0.0.1"
        asker = Asker(principal, host, "this broker")
        if not self.permissions.allowed(asker, Operation.CLUSTER_ACTION, CLUSTER, audited=False):
            self._warn(principal)

    def _denied(self, principal: Principal, operation: Operation) -> None:
        if operation is Operation.CLUSTER_ACTION:
            self._warn(principal)

    def _warn(self, principal: Principal) -> None:
        if principal in self._warned_of or len(self._warned_of) > 100:
            return
        self._warned_of.add(principal)
        logger.error(
            "principal=%s may not act for the cluster; if brokers connect as it, set "
            "super.users=%s on every broker, or allow it: zkbroker acls add --allow-principal %s "
            "--operation ClusterAction --cluster",
            principal,
            principal,
            principal,
        )
