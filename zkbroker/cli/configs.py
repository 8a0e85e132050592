"""`zkbroker configs`: settings of topics, brokers, users, clients and addresses."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from zkbroker.cli.connection import cluster_options, open_cluster, open_empty_session, open_session
from zkbroker.cli.output import json_option, print_rows, say
from zkbroker.cli.settings import parse_settings, settings_option
from zkbroker.errors import ConfigError

if TYPE_CHECKING:
    from zkbroker.admin.entity_configs import Entity, Selection
    from zkbroker.registry.user_configs import Name

F = TypeVar("F", bound=Callable[..., Any])

KINDS = ("topic", "broker", "user", "client", "ip")
_EXAMPLES = (
    "\b\nExamples:\n"
    "  zkbroker configs describe --topic visits\n"
    "  zkbroker configs describe --users --clients\n"
    "  zkbroker configs alter --user alice --config producer_byte_rate=1048576\n"
    "  zkbroker configs alter --client-default --delete-config consumer_byte_rate\n"
    "  zkbroker configs alter -b 127.0.0.1:9092 --broker 1 --config log.cleaner.threads=2"
)


@click.group("configs", epilog=_EXAMPLES)
def command() -> None:
    """Describe and alter settings that change while brokers run, quotas among them.

    Settings of users, clients and addresses are in ZooKeeper: give -z. Settings of topics and
    brokers are there too; with -b the brokers show sources and defaults as well.
    """


def _entity_options(*, several: bool) -> Callable[[F], F]:
    """Add the options that name an entity; with `several`, also those that name all of a kind."""

    def add(command: F) -> F:
        for kind in reversed(KINDS):
            if several:
                command = click.option(f"--{kind}s", is_flag=True, help=f"All {kind}s.")(command)
            if kind != "topic":
                command = click.option(
                    f"--{kind}-default",
                    is_flag=True,
                    help=f"Every {kind} without settings of its own.",
                )(command)
            command = click.option(f"--{kind}", metavar="NAME", help=f"One {kind}.")(command)
        return command

    return add


def _selection(chosen: dict[str, Any]) -> "Selection":
    """Return the selection of the options.

    Raises:
        click.UsageError: no kind, the same kind twice, or kinds that do not go together.
    """
    from zkbroker.admin.entity_configs import Selection
    from zkbroker.registry.user_configs import DEFAULT

    kinds: list[str] = []
    names: list[Name | None] = []
    for kind in KINDS:
        named: list[Name | None] = []
        if chosen.get(kind) is not None:
            if not chosen[kind]:
                raise click.UsageError(f"--{kind} is empty: give a name, or --{kind}-default")
            named.append(chosen[kind])
        if chosen.get(f"{kind}_default"):
            named.append(DEFAULT)
        if chosen.get(f"{kind}s"):
            named.append(None)
        if len(named) > 1:
            raise click.UsageError(f"give one of --{kind}, --{kind}-default and --{kind}s")
        if named:
            kinds.append(f"{kind}s")
            names += named
    if not kinds:
        raise click.UsageError("give an entity, such as --topic NAME or --user NAME")
    if len(kinds) > 1 and kinds != ["users", "clients"]:
        raise click.UsageError("only a user and a client go together")
    return Selection(tuple(kinds), tuple(names))


@command.command("describe", epilog=_EXAMPLES)
@_entity_options(several=True)
@click.option("--all", "everything", is_flag=True, help="Defaults too; needs -b.")
@cluster_options
@click.option("--genuine-text", is_flag=True, hidden=True)
@json_option
def describe_command(
    everything: bool,
    bootstrap: str | None,
    zookeeper: str | None,
    genuine_text: bool,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Show settings, and where each comes from.

    Credentials are hidden.
    """
    selection = _selection(chosen)
    if bootstrap is not None and not {"users", "clients", "ips"} & set(selection.kinds):
        from zkbroker.cli.described_configs import describe_by_brokers

        describe_by_brokers(
            bootstrap, selection, everything=everything, genuine=genuine_text, as_json=as_json
        )
        return
    if everything:
        raise click.UsageError("--all needs -b: brokers know defaults, ZooKeeper does not")
    found = list(_stored(zookeeper, selection))
    if genuine_text:
        for entity, settings in found:
            settings_text = ",".join(f"{key}={value}" for key, value in settings.items())
            say(f"Configs for {_title(entity)} are {settings_text}")
        return
    rows = [
        [_title(entity), key, value, _source(entity)]
        for entity, settings in found
        for key, value in sorted(settings.items())
    ]
    print_rows(["entity", "setting", "value", "source"], rows, as_json=as_json)


def _stored(
    zookeeper: str | None, selection: "Selection"
) -> "Iterator[tuple[Entity, dict[str, str]]]":
    from zkbroker.admin.entity_configs import describe, shown

    if zookeeper is None:
        raise ConfigError(
            "settings of users, clients and addresses are kept in ZooKeeper: give -z "
            "HOST:PORT[/CHROOT] or set ZKBROKER_ZOOKEEPER; brokers also know "
            "those of topics and brokers: give -b HOST:PORT"
        )
    with open_session(zookeeper) as session:
        for entity, settings in describe(session, selection):
            yield entity, {key: shown(key, value) for key, value in settings.items()}


def _title(entity: "Entity") -> str:
    from zkbroker.admin.entity_configs import title

    return title(entity)


def _source(entity: "Entity") -> str:
    """Return the node that holds an entity's settings."""
    from zkbroker.admin.entity_configs import BrokerEntity, TopicEntity
    from zkbroker.registry import paths
    from zkbroker.registry.user_configs import Default

    if isinstance(entity, TopicEntity):
        return paths.topic_config(entity.name)
    if isinstance(entity, BrokerEntity):
        return paths.broker_config(None if isinstance(entity.id, Default) else entity.id)
    return entity.node


@command.command("alter", epilog=_EXAMPLES)
@_entity_options(several=False)
@settings_option("--config", text="Set this; repeatable.")
@click.option(
    "--config-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Set the properties of this file.",
)
@click.option("--delete-config", "deleted", metavar="KEY", multiple=True, help="Remove a setting.")
@cluster_options
@click.option("--genuine-text", is_flag=True, hidden=True)
def alter_command(
    settings: tuple[str, ...],
    config_file: Path | None,
    deleted: tuple[str, ...],
    bootstrap: str | None,
    zookeeper: str | None,
    genuine_text: bool,
    **chosen: Any,
) -> None:
    """Set and remove settings; others are kept. Changes take effect at once."""
    from zkbroker.config.properties import load_properties

    selection = _selection(chosen)
    added = {} if config_file is None else dict(load_properties(config_file))
    added |= parse_settings(settings, "--config")
    if not added and not deleted:
        raise click.UsageError("give --config, --config-file or --delete-config")
    entity = selection.entity
    if entity is None:
        raise click.UsageError("give the name of the entity, or its default")
    if bootstrap is not None and not {"users", "clients", "ips"} & set(selection.kinds):
        from zkbroker.admin.described_configs import change_described

        with open_cluster(bootstrap, None) as cluster:
            change_described(cluster, entity, add=added, delete=deleted)
    else:
        _change_stored(zookeeper, entity, added, deleted)
    if not genuine_text:
        say(f"Changed the settings of {_title(entity)}.")
    elif bootstrap is not None:
        say(_completed_by_brokers(entity))
    else:
        say(f"Completed Updating config for entity: {_title(entity)}.")


def _change_stored(
    zookeeper: str | None, entity: "Entity", added: dict[str, str], deleted: tuple[str, ...]
) -> None:
    from zkbroker.admin.entity_configs import change
    from zkbroker.registry.user_configs import ConfigEntity

    if zookeeper is None:
        raise ConfigError(
            f"settings of {_title(entity)} are kept in ZooKeeper: give -z HOST:PORT[/CHROOT] or "
            "set ZKBROKER_ZOOKEEPER"
        )
    # Users for brokers must exist before the first broker starts.
    opened = open_empty_session if isinstance(entity, ConfigEntity) else open_session
    with opened(zookeeper) as session:
        change(session, entity, add=added, delete=deleted)


def _completed_by_brokers(entity: "Entity") -> str:
    from zkbroker.admin.entity_configs import BrokerEntity, TopicEntity
    from zkbroker.registry.user_configs import Default

    if isinstance(entity, TopicEntity):
        return f"Completed updating config for topic {entity.name}."
    if isinstance(entity, BrokerEntity) and not isinstance(entity.id, Default):
        return f"Completed updating config for broker: {entity.id}."
    return "Completed updating default config for brokers in the cluster,"
