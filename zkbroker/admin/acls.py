"""ACLs of a cluster, looked up and changed through a broker or through ZooKeeper.

Invariant: both ways show and store the same ACLs. A broker asks its authorizer. The other way is
    guarded only by ZooKeeper's own rights, and works before the first broker has started.
"""

from collections.abc import Iterator, Sequence
from dataclasses import astuple
from typing import Any, TypeVar

from zkbroker.client import Cluster
from zkbroker.errors import ClientError, ErrorCode, ProtocolError, protocol_error
from zkbroker.network.client.connection import BrokerConnection
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from zkbroker.protocol.messages.acls import AclCreation, AclFilter
from zkbroker.registry.acls import add_acls, ensure_acl_tree, read_all_acls, remove_acls
from zkbroker.security.acl_index import AclIndex
from zkbroker.security.acls import (
    Acl,
    Binding,
    BindingFilter,
    Pattern,
    PatternType,
    Permission,
    check_acl,
    check_pattern,
)
from zkbroker.security.authorizer import Operation, ResourceType
from zkbroker.zookeeper.session import ZkSession

_AT_ONCE = 500
"""ACLs in one request: a broker must write them within the request's timeout."""
TIMEOUT_S = 60.0
_PATTERNS_SINCE = 1

T = TypeVar("T")


class ZooKeeperAcls:
    """Through ZooKeeper."""

    def __init__(self, session: ZkSession) -> None:
        self._session = session

    def find(self, filters: Sequence[BindingFilter]) -> list[Binding]:
        """Return the bindings that any of the filters chooses, each once."""
        index = AclIndex()
        index.replace(read_all_acls(self._session))
        return list(dict.fromkeys(each for wanted in filters for each in index.find(wanted)))

    def add(self, bindings: Sequence[Binding]) -> None:
        """Add bindings; those that exist stay.

        Raises:
            ProtocolError: an ACL cannot be stored; nothing was written.
        """
        for pattern, acl in bindings:
            check_pattern(pattern)
            check_acl(acl)
        ensure_acl_tree(self._session)
        for pattern, acls in _by_pattern(bindings).items():
            add_acls(self._session, pattern, acls)

    def remove(self, filters: Sequence[BindingFilter]) -> list[Binding]:
        """Remove the bindings that the filters choose, and return them."""
        found = self.find(filters)
        for pattern, acls in _by_pattern(found).items():
            remove_acls(self._session, pattern, acls)
        return found


class BrokerAcls:
    """Through any broker, which asks its authorizer: Describe or Alter on the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def find(self, filters: Sequence[BindingFilter]) -> list[Binding]:
        """See `ZooKeeperAcls.find`.

        Raises:
            ProtocolError: the broker refuses (31), or has no authorizer (54).
        """
        found: dict[Binding, None] = {}
        for wanted in filters:
            request = DescribeAclsRequest(*astuple(wanted))
            answer = self._ask(request, [wanted.pattern_type])
            _raise(answer, "DescribeAcls")
            for resource in answer.resources:
                pattern = _pattern(resource)
                if pattern is not None:
                    acls = (_acl(each) for each in resource.acls)
                    found.update((Binding(pattern, acl), None) for acl in acls if acl is not None)
        return list(found)

    def add(self, bindings: Sequence[Binding]) -> None:
        """See `ZooKeeperAcls.add`.

        Raises:
            ProtocolError: the broker refuses one.
        """
        for some in _pieces(bindings):
            creations = [
                AclCreation(*pattern, acl.principal, acl.host, acl.operation, acl.permission)
                for pattern, acl in some
            ]
            forms = [pattern.pattern_type for pattern, _ in some]
            answer = self._ask(CreateAclsRequest(creations), forms)
            for result, (pattern, acl) in zip(answer.results, some, strict=True):
                _raise(result, f"ACL of {acl.principal} on {pattern.type.label} {pattern.name}")

    def remove(self, filters: Sequence[BindingFilter]) -> list[Binding]:
        """See `ZooKeeperAcls.remove`.

        Raises:
            ProtocolError: the broker refuses one.
        """
        removed: dict[Binding, None] = {}
        for some in _pieces(filters):
            request = DeleteAclsRequest([AclFilter(*astuple(each)) for each in some])
            answer = self._ask(request, [each.pattern_type for each in some])
            for result in answer.results:
                _raise(result, "DeleteAcls")
                for each in result.matching:
                    _raise(each, f"ACL of {each.principal} on {each.resource_name}")
                    pattern, acl = _pattern(each), _acl(each)
                    if pattern is not None and acl is not None:
                        removed[Binding(pattern, acl)] = None
        return list(removed)

    def _ask(self, request: Any, forms: Sequence[int]) -> Any:
        def ask(connection: BrokerConnection, timeout_s: float) -> Any:
            version = connection.best_version(request.api_key)
            if version < _PATTERNS_SINCE and any(form != PatternType.LITERAL for form in forms):
                name = ApiKey(request.api_key).name
                raise ClientError(
                    f"the broker {connection.address} speaks {name} of before Kafka 2.0, which "
                    "supports only literal names: give --resource-pattern-type literal"
                )
            return connection.request(request, version, timeout_s)

        return self._cluster.ask_any(ask, timeout_s=TIMEOUT_S)


Acls = ZooKeeperAcls | BrokerAcls


def _by_pattern(bindings: Sequence[Binding]) -> dict[Pattern, list[Acl]]:
    found: dict[Pattern, list[Acl]] = {}
    for pattern, acl in bindings:
        found.setdefault(pattern, []).append(acl)
    return found


def _pieces(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), _AT_ONCE):
        yield items[start : start + _AT_ONCE]


def _pattern(found: Any) -> Pattern | None:
    """Return the pattern in an answer; None for one of a later version."""
    try:
        return Pattern(
            ResourceType(found.resource_type), found.resource_name, PatternType(found.pattern_type)
        )
    except ValueError:
        return None


def _acl(found: Any) -> Acl | None:
    try:
        return Acl(
            found.principal,
            Permission(found.permission_type),
            Operation(found.operation),
            found.host,
        )
    except ValueError:
        return None


def _raise(answer: Any, what: str) -> None:
    code = answer.error_code
    if code == ErrorCode.SECURITY_DISABLED:
        raise ProtocolError(
            "the broker has no authorizer that keeps ACLs: set authorizer.class.name, or reach "
            "ZooKeeper with -z",
            code=ErrorCode.SECURITY_DISABLED,
        )
    if code:
        raise protocol_error(code, ": ".join(filter(None, (what, answer.error_message))))
