"""`zkbroker log-levels`: the log levels of running brokers."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
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
    with _opened(bootstrap, zookeeper) as settings:
        if not changes:
            _show(settings, broker, as_json=as_json)
            return
        before = settings.levels(entity)
        merged = {**before, **changes}
        after = {name: level for name, level in merged.items() if level != _DEFAULT}
        if after != before:
            settings.set_levels(entity, after)
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


def _show(settings: "_Settings", broker: int | None, *, as_json: bool) -> None:
    from zkbroker.admin.entity_configs import BrokerEntity

    rows: list[list[str]] = []
    for entity in settings.entities():
        whose = str(entity.id) if isinstance(entity.id, int) else "all"
        if broker is None or entity == BrokerEntity(broker):
            rows += [[whose, *each] for each in sorted(settings.levels(entity).items())]
    if rows or as_json:
        print_rows(["broker", "logger", "level"], rows, as_json=as_json)
    else:
        say("no levels are set: all loggers have that of --log-level")


class _Settings:
    """The setting, by brokers or by ZooKeeper; exactly one is given."""

    def __init__(self, cluster: "Cluster | None", session: "ZkSession | None") -> None:
        self._cluster = cluster
        self._session = session

    def entities(self) -> "list[BrokerEntity]":
        """Return the default of all brokers, and every broker that may have levels."""
        from zkbroker.admin.entity_configs import BrokerEntity, configured_brokers
        from zkbroker.registry.user_configs import DEFAULT

        if self._cluster is not None:
            ids = sorted(self._cluster.brokers())
            return [BrokerEntity(DEFAULT), *(BrokerEntity(each) for each in ids)]
        assert self._session is not None
        found = configured_brokers(self._session)
        return sorted(found, key=lambda each: each.id if isinstance(each.id, int) else -1)

    def levels(self, entity: "Entity") -> dict[str, str]:
        """Return an entity's own levels."""
        from zkbroker.admin.described_configs import own_settings
        from zkbroker.admin.entity_configs import stored

        settings: Mapping[str, str | None]
        if self._cluster is not None:
            settings = {each.name: each.value for each in own_settings(self._cluster, entity)}
        else:
            assert self._session is not None
            settings = stored(self._session, entity)
        return LoggerLevels().parse(settings.get(_KEY) or "")

    def set_levels(self, entity: "Entity", levels: Mapping[str, str]) -> None:
        """Store the levels of an entity."""
        from zkbroker.admin.described_configs import change_described
        from zkbroker.admin.entity_configs import change

        add = {_KEY: ",".join(f"{name}:{level}" for name, level in sorted(levels.items()))}
        delete = () if levels else (_KEY,)
        if self._cluster is not None:
            change_described(self._cluster, entity, add=add if levels else {}, delete=delete)
        else:
            assert self._session is not None
            change(self._session, entity, add=add if levels else {}, delete=delete)


@contextmanager
def _opened(bootstrap: str | None, zookeeper: str | None) -> Iterator[_Settings]:
    if bootstrap is None and zookeeper is not None:
        with open_session(zookeeper) as session:
            yield _Settings(None, session)
    else:
        with open_cluster(bootstrap, zookeeper) as cluster:
            yield _Settings(cluster, None)
