"""`zkbroker log-levels`: the log levels of running brokers."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from zkbroker.cli.connection import cluster_options, open_cluster, open_session
from zkbroker.cli.output import json_option, print_rows, say
from zkbroker.config.logger_levels import LEVELS, LoggerLevels, is_logger

if TYPE_CHECKING:
    from zkbroker.admin.entity_configs import BrokerEntity, Entity
    from zkbroker.client import Cluster
    from zkbroker.zookeeper.session import ZkSession

_KEY = "logger.levels"
_DEFAULT = "default"


@click.command(
    "log-levels",
    epilog="\b\nExamples:\n"
    "  zkbroker log-levels -b 127.0.0.1:9092\n"
    "  zkbroker log-levels zkbroker.replica:debug --broker 1 -b 127.0.0.1:9092\n"
    "  zkbroker log-levels zkbroker.replica:default --broker 1 -b 127.0.0.1:9092",
)
@click.argument("levels", nargs=-1, metavar="[LOGGER:LEVEL]...")
@cluster_options
@click.option(
    "--broker", type=click.IntRange(0), help="Levels of this broker; of all if not given."
)
@json_option
def command(
    levels: tuple[str, ...],
    bootstrap: str | None,
    zookeeper: str | None,
    broker: int | None,
    as_json: bool,
) -> None:
    """Show or set the levels of loggers while brokers run.

    LOGGER is a module of the brokers, such as zkbroker.replica, or root; LEVEL is debug, info,
    warning, error, or default, which removes the level. Levels are kept in the setting
    logger.levels, and survive a restart. If a broker has levels of its own, those of all brokers do
    not apply to it.
    """
    from zkbroker.admin.entity_configs import BrokerEntity
    from zkbroker.registry.user_configs import DEFAULT

    changes = dict(_parsed(text) for text in levels)
    entity = BrokerEntity(DEFAULT if broker is None else broker)
    through_zookeeper = bootstrap is None and zookeeper is not None
    with (
        open_session(zookeeper) if through_zookeeper else open_cluster(bootstrap, zookeeper)
    ) as way:
        if not changes:
            _show(way, broker, as_json=as_json)
            return
        before = _levels(way, entity)
        merged = {**before, **changes}
        after = {name: level for name, level in merged.items() if level != _DEFAULT}
        if after != before:
            _set_levels(way, entity, after)
    whose = "all brokers" if broker is None else f"broker {broker}"
    for name, level in changes.items():
        dropped = f"the level of {name} is the default again"
        say(f"{whose}: {dropped if level == _DEFAULT else f'{name} logs from {level}'}")


def _parsed(text: str) -> tuple[str, str]:
    name, colon, level = text.rpartition(":")
    if not colon or not is_logger(name):
        raise click.UsageError(
            f"{text!r} does not name a logger: give LOGGER:LEVEL, as in zkbroker.replica:debug; "
            "loggers are root, zkbroker.audit and the modules of zkbroker"
        )
    if level.lower() == _DEFAULT:
        return name, _DEFAULT
    ((_, known),) = LoggerLevels().parse(text).items()
    if known not in LEVELS:
        raise click.UsageError(
            f"{level!r} is not a level: give {', '.join(LEVELS).lower()} or {_DEFAULT}"
        )
    return name, known


def _show(way: "Cluster | ZkSession", broker: int | None, *, as_json: bool) -> None:
    from zkbroker.admin.entity_configs import BrokerEntity

    rows: list[list[str]] = []
    for entity in _entities(way):
        whose = str(entity.id) if isinstance(entity.id, int) else "all"
        if broker is None or entity == BrokerEntity(broker):
            rows += [[whose, *each] for each in sorted(_levels(way, entity).items())]
    if rows or as_json:
        print_rows(["broker", "logger", "level"], rows, as_json=as_json)
    else:
        say("no levels are set: all loggers have that of --log-level")


def _entities(way: "Cluster | ZkSession") -> "list[BrokerEntity]":
    """Return the default of all brokers, and every broker that may have levels."""
    from zkbroker.admin.entity_configs import BrokerEntity, configured_brokers
    from zkbroker.client import Cluster
    from zkbroker.registry.user_configs import DEFAULT

    if isinstance(way, Cluster):
        return [BrokerEntity(DEFAULT), *map(BrokerEntity, sorted(way.brokers()))]
    return sorted(
        configured_brokers(way), key=lambda each: each.id if isinstance(each.id, int) else -1
    )


def _levels(way: "Cluster | ZkSession", entity: "Entity") -> dict[str, str]:
    """Return an entity's own levels."""
    from zkbroker.admin.described_configs import own_settings
    from zkbroker.admin.entity_configs import stored
    from zkbroker.client import Cluster

    settings: Mapping[str, str | None] = (
        {each.name: each.value for each in own_settings(way, entity)}
        if isinstance(way, Cluster)
        else stored(way, entity)
    )
    return LoggerLevels().parse(settings.get(_KEY) or "")


def _set_levels(way: "Cluster | ZkSession", entity: "Entity", levels: Mapping[str, str]) -> None:
    """Store the levels of an entity."""
    from zkbroker.admin.described_configs import change_described
    from zkbroker.admin.entity_configs import change
    from zkbroker.client import Cluster

    text = ",".join(f"{name}:{level}" for name, level in sorted(levels.items()))
    add = {_KEY: text} if levels else {}
    delete = () if levels else (_KEY,)
    if isinstance(way, Cluster):
        change_described(way, entity, add=add, delete=delete)
    else:
        change(way, entity, add=add, delete=delete)
