"""The output of `zkbroker configs describe -b`: settings and their sources, from brokers."""

from typing import TYPE_CHECKING

import click

from zkbroker.cli.connection import open_cluster
from zkbroker.cli.output import print_rows, say

if TYPE_CHECKING:
    from zkbroker.admin.entity_configs import Entity, Selection
    from zkbroker.client import Cluster
    from zkbroker.protocol.messages.configs import ConfigEntry

_SOURCES = {
    0: ("unknown", "UNKNOWN"),
    1: ("topic", "DYNAMIC_TOPIC_CONFIG"),
    2: ("broker", "DYNAMIC_BROKER_CONFIG"),
    3: ("all brokers", "DYNAMIC_DEFAULT_BROKER_CONFIG"),
    4: ("property file", "STATIC_BROKER_CONFIG"),
    5: ("default", "DEFAULT_CONFIG"),
}


def describe_by_brokers(
    bootstrap: str, selection: "Selection", *, everything: bool, genuine: bool, as_json: bool
) -> None:
    """Print settings of topics or brokers, with `everything` also those not set for them."""
    from zkbroker.admin.described_configs import described, own_settings
    from zkbroker.admin.entity_configs import title

    rows: list[list[str | None]] = []
    with open_cluster(bootstrap, None) as cluster:
        for entity in _entities(cluster, selection):
            entries = described(cluster, entity) if everything else own_settings(cluster, entity)
            if genuine:
                say(_heading(entity))
                for entry in entries:
                    say(_genuine_line(entry))
            rows += [
                [title(entity), entry.name, _value(entry), _SOURCES[entry.source][0]]
                for entry in entries
            ]
    if genuine:
        return
    if not as_json:
        rows = [["" if each is None else each for each in row] for row in rows]
    print_rows(["entity", "setting", "value", "source"], rows, as_json=as_json)


def _entities(cluster: "Cluster", selection: "Selection") -> "list[Entity]":
    from zkbroker.admin.entity_configs import BrokerEntity, TopicEntity
    from zkbroker.registry.user_configs import DEFAULT

    entity = selection.entity
    if entity is not None:
        return [entity]
    if selection.kinds == ("topics",):
        return [TopicEntity(name) for name in sorted(cluster.topics())]
    if selection.kinds == ("brokers",):
        return [*(BrokerEntity(each) for each in sorted(cluster.brokers())), BrokerEntity(DEFAULT)]
    raise click.UsageError("brokers show settings of topics and brokers only")


def _value(entry: "ConfigEntry") -> str | None:
    return "[hidden]" if entry.is_sensitive else entry.value


def _heading(entity: "Entity") -> str:
    from zkbroker.admin.entity_configs import BrokerEntity, TopicEntity
    from zkbroker.registry.user_configs import Default

    if isinstance(entity, TopicEntity):
        return f"Configs for topic {entity.name} are:"
    if isinstance(entity, BrokerEntity) and not isinstance(entity.id, Default):
        return f"Configs for broker {entity.id} are:"
    return "Default config for brokers in the cluster are:"


def _genuine_line(entry: "ConfigEntry") -> str:
    synonyms = ", ".join(
        f"{_SOURCES[each.source][1]}:{each.name}={_or_null(each.value)}" for each in entry.synonyms
    )
    return (
        f"  {entry.name}={_or_null(entry.value)} sensitive={str(entry.is_sensitive).lower()} "
        f"synonyms={{{synonyms}}}"
    )


def _or_null(value: str | None) -> str:
    return "null" if value is None else value
