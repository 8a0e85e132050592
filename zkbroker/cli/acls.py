"""`zkbroker acls`: list, add and remove ACLs, the permissions of clients."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click

from zkbroker.cli.acl_text import adding_lines, current_lines
from zkbroker.cli.connection import (
    NO_CLUSTER,
    cluster_options,
    open_cluster,
    open_empty_session,
)
from zkbroker.cli.output import json_option, print_rows, say, warn
from zkbroker.cli.settings import grouped
from zkbroker.errors import ClientError, ConfigError

if TYPE_CHECKING:
    from zkbroker.admin.acl_plan import AclPlan
    from zkbroker.admin.acls import Acls
    from zkbroker.security.acls import Binding

F = TypeVar("F", bound=Callable[..., Any])

_OPERATIONS = (
    *("All", "Alter", "AlterConfigs", "ClusterAction", "Create", "Delete", "Describe"),
    *("DescribeConfigs", "IdempotentWrite", "Read", "Write"),
)


@click.group(
    "acls",
    epilog="\b\nExamples:\n"
    "  zkbroker acls list -b 127.0.0.1:9092\n"
    "  zkbroker acls add --allow-principal User:alice --producer --topic orders \\\n"
    "      -z 127.0.0.1:2181\n"
    "  zkbroker acls remove --topic orders -b 127.0.0.1:9092",
)
def command() -> None:
    """List, add and remove ACLs, the permissions of clients.

    With -b a broker changes them, for a principal that may Alter the cluster. With -z any client
    that may write to ZooKeeper can change them, even before the first broker starts.
    """


def _several(
    name: str, parameter: str, text: str, *, metavar: str | None = None
) -> Callable[[F], F]:
    return click.option(name, parameter, multiple=True, metavar=metavar, help=text)


_resources = grouped(
    _several("--topic", "topics", "A topic, or '*'; repeatable."),
    _several("--group", "groups", "A consumer group; repeatable."),
    click.option("--cluster", is_flag=True, help="The cluster."),
    _several("--transactional-id", "transactional_ids", "A transactional id."),
    _several("--delegation-token", "tokens", "A delegation token."),
    click.option(
        "--resource-pattern-type",
        "pattern_type",
        type=click.Choice(["any", "match", "literal", "prefixed"], case_sensitive=False),
        help="Meaning of names. match: all patterns that apply to the name; any: any pattern.",
    ),
)


_clients = grouped(
    _several(
        "--allow-principal",
        "allowed",
        "A principal such as User:alice, or User:* for all.",
        metavar="TYPE:NAME",
    ),
    _several(
        "--deny-principal",
        "denied",
        "Denied, even if another ACL allows it.",
        metavar="TYPE:NAME",
    ),
    _several(
        "--allow-host",
        "allowed_hosts",
        "Only from this address; from all if none is given.",
        metavar="ADDRESS",
    ),
    _several("--deny-host", "denied_hosts", "Deny it only from this address.", metavar="ADDRESS"),
    click.option(
        "--operation",
        "operations",
        multiple=True,
        type=click.Choice(_OPERATIONS, case_sensitive=False),
        help="Repeatable; All if none is given.",
    ),
    click.option("--producer", is_flag=True, help="All permissions that a producer needs."),
    click.option("--consumer", is_flag=True, help="All permissions that a consumer needs."),
    click.option("--idempotent", is_flag=True, help="The producer has a producer id."),
)


@command.command(
    "list",
    epilog="\b\nExamples:\n"
    "  zkbroker acls list -b 127.0.0.1:9092\n"
    "  zkbroker acls list --topic orders --resource-pattern-type match -z 127.0.0.1:2181",
)
@_resources
@_several("--principal", "principals", "Only ACLs of this principal.", metavar="TYPE:NAME")
@cluster_options
@json_option
@click.option("--genuine-text", is_flag=True, hidden=True)
def list_command(
    bootstrap: str | None,
    zookeeper: str | None,
    principals: tuple[str, ...],
    as_json: bool,
    genuine_text: bool,
    **given: Any,
) -> None:
    """List ACLs: those of the named resources, or all.

    A name without --resource-pattern-type is literal.
    """
    plan = _plan(given, choosing=True)
    with _open(bootstrap, zookeeper) as acls:
        found = acls.find(plan.filters())
    found = [each for each in found if not principals or each.acl.principal in principals]
    if genuine_text:
        _say_current(found, through_broker=bootstrap is not None)
    else:
        _show(found, as_json=as_json)


@command.command(
    "add",
    epilog="\b\nExamples:\n"
    "  zkbroker acls add --allow-principal User:alice --producer --topic orders "
    "-b 127.0.0.1:9092\n"
    "  zkbroker acls add --allow-principal User:bob --consumer --topic team- --group team- \\\n"
    "      --resource-pattern-type prefixed -z 127.0.0.1:2181\n"
    "  zkbroker acls add --deny-principal User:mallory --topic '*' -z 127.0.0.1:2181",
)
@_clients
@_resources
@cluster_options
@click.option("--genuine-text", is_flag=True, hidden=True)
def add_command(
    bootstrap: str | None, zookeeper: str | None, genuine_text: bool, **given: Any
) -> None:
    """Add ACLs, and show what is added.

    A Deny wins over every Allow. To allow Read, Write, Delete or Alter is to allow Describe.
    """
    plan = _plan(given, choosing=False)
    bindings = plan.bindings()
    through_broker = bootstrap is not None
    if genuine_text:
        for line in adding_lines(bindings, through_broker=through_broker):
            say(line)
    with _open(bootstrap, zookeeper) as acls:
        acls.add(bindings)
        current = acls.find(_of_resources(plan)) if genuine_text else []
    if genuine_text:
        _say_current(current, through_broker=through_broker)
    else:
        say("added:")
        _show(bindings, as_json=False)


@command.command(
    "remove",
    epilog="\b\nExamples:\n"
    "  zkbroker acls remove --topic orders --allow-principal User:alice -b 127.0.0.1:9092\n"
    "  zkbroker acls remove --topic team- --resource-pattern-type prefixed --yes "
    "-z 127.0.0.1:2181",
)
@_clients
@_resources
@cluster_options
@click.option("-y", "--yes", "--force", is_flag=True, help="Do not ask.")
@click.option("--genuine-text", is_flag=True, hidden=True)
def remove_command(
    bootstrap: str | None, zookeeper: str | None, yes: bool, genuine_text: bool, **given: Any
) -> None:
    """Remove ACLs of resources.

    All of them, or those that principals, hosts and operations choose. They are shown, and
    removed when the question is answered with yes.
    """
    plan = _plan(given, choosing=True)
    if not plan.resources:
        raise ConfigError(
            "no resource is named: give --topic, --group, --cluster, --transactional-id or "
            "--delegation-token"
        )
    with _open(bootstrap, zookeeper) as acls:
        chosen = acls.find(plan.filters())
        if not chosen and not genuine_text:
            raise ClientError("there are no such ACLs; zkbroker acls list shows all ACLs")
        if not yes:
            _show(chosen, as_json=False)
            question = f"Remove {'this ACL' if len(chosen) == 1 else f'these {len(chosen)} ACLs'}?"
            if not click.confirm(question, err=True):
                raise click.Abort
        # Exactly the ACLs that were shown, not others added meanwhile.
        removed = acls.remove([_exactly(each) for each in chosen])
        current = acls.find(_of_resources(plan)) if genuine_text else []
    if genuine_text:
        _say_current(current, through_broker=bootstrap is not None)
    else:
        say("removed:")
        _show(removed, as_json=False)


def _plan(given: dict[str, Any], *, choosing: bool) -> "AclPlan":
    from zkbroker.admin.acl_plan import OPERATIONS, PATTERN_TYPES, AclPlan
    from zkbroker.security.acls import ANY
    from zkbroker.security.authorizer import CLUSTER, Resource, ResourceType

    resources = [
        Resource(kind, name)
        for kind, names in (
            (ResourceType.TOPIC, given["topics"]),
            (ResourceType.TRANSACTIONAL_ID, given["transactional_ids"]),
            (ResourceType.GROUP, given["groups"]),
            (ResourceType.DELEGATION_TOKEN, given["tokens"]),
        )
        for name in names
    ]
    if given["cluster"]:
        resources.append(CLUSTER)
    # Names are literal unless another pattern type is given; without names, any pattern matches.
    unsaid = ANY if choosing and not resources else PATTERN_TYPES["literal"]
    pattern_type = given["pattern_type"]
    return AclPlan(
        resources=resources,
        pattern_type=unsaid if pattern_type is None else PATTERN_TYPES[pattern_type.lower()],
        operations=[OPERATIONS[each.lower()] for each in given.get("operations", ())],
        **{
            name: given[name]
            for name in (
                *("allowed", "denied", "allowed_hosts", "denied_hosts"),
                *("producer", "consumer", "idempotent"),
            )
            if name in given
        },
    )


@contextmanager
def _open(bootstrap: str | None, zookeeper: str | None) -> "Iterator[Acls]":
    from zkbroker.admin.acls import BrokerAcls, ZooKeeperAcls
    from zkbroker.admin.cluster_tree import find_no_brokers

    if bootstrap is None and zookeeper is None:
        raise ConfigError(NO_CLUSTER)
    if bootstrap is not None:
        with open_cluster(bootstrap, None) as cluster:
            yield BrokerAcls(cluster)
        return
    with open_empty_session(zookeeper) as session:
        missing = find_no_brokers(session)
        if missing is not None:
            warn(missing.text)
        yield ZooKeeperAcls(session)


def _of_resources(plan: "AclPlan") -> list[Any]:
    """Return the filters of all ACLs of the changed resources."""
    from zkbroker.admin.acl_plan import AclPlan
    from zkbroker.security.authorizer import CLUSTER

    resources = [*plan.resources, *([CLUSTER] if plan.idempotent else [])]
    return AclPlan(resources=resources, pattern_type=plan.pattern_type).filters()


def _exactly(binding: "Binding") -> Any:
    from zkbroker.security.acls import BindingFilter

    (kind, name, form), acl = binding
    return BindingFilter(kind, name, form, acl.principal, acl.host, acl.operation, acl.permission)


def _show(bindings: "Sequence[Binding]", *, as_json: bool) -> None:
    rows = [
        (
            pattern.type.label,
            pattern.pattern_type.name.lower(),
            pattern.name,
            acl.principal,
            acl.permission.label,
            acl.operation.label,
            acl.host,
        )
        for pattern, acl in sorted(bindings)
    ]
    names = ("resource", "pattern", "name", "principal", "permission", "operation", "host")
    print_rows(names, rows, as_json=as_json)


def _say_current(bindings: "Sequence[Binding]", *, through_broker: bool) -> None:
    for line in current_lines(bindings, through_broker=through_broker):
        say(line)
