"""What commands say of Kafka 0.7: its generation, its partitions."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

from zkbroker.config.generation import GENERATION, generation_name
from zkbroker.errors import ConfigError
from zkbroker.types import parse_partition

F = TypeVar("F", bound=Callable[..., Any])


class PartitionNumber(click.ParamType[int]):
    """The number of a partition, or `broker-number` of Kafka 0.7.

    Args:
        least: the smallest number; -1 where that stands for any.
    """

    name = "partition"

    def __init__(self, least: int = 0) -> None:
        self._least = least

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        if isinstance(value, int):
            return value
        text = str(value)
        try:
            if text.removeprefix("-").isdecimal() and int(text) >= self._least:
                return int(text)
            return parse_partition(text)
        except ValueError:
            self.fail(
                f"{text!r} is not a partition: give its number, or BROKER-NUMBER of Kafka 0.7",
                param,
                ctx,
            )


def generation_option(command: F) -> F:
    """Add `--kafka-generation`, given to the command as `generation`."""
    return click.option(
        "--kafka-generation",
        "generation",
        metavar="0.7",
        help="For a cluster of Kafka 0.7; the property kafka.generation does the same.",
    )(command)


def is_legacy07(generation: str | None, properties: Mapping[str, str]) -> bool:
    """Whether a command is about a cluster of Kafka 0.7; the option goes before the property.

    Raises:
        ConfigError: the generation is not known.
    """
    given = {GENERATION: generation} if generation is not None else properties
    return generation_name(given) == "0.7"


def broker_list_07(bootstrap: str) -> str:
    """Return brokers as 0.7 lists them, `id:host:port`; those without an id are numbered."""
    addresses = [each.strip() for each in bootstrap.split(",") if each.strip()]
    if all(each.count(":") == 1 for each in addresses):
        return ",".join(f"{number}:{each}" for number, each in enumerate(addresses))
    return ",".join(addresses)


def require_zookeeper_07(zookeeper: str | None) -> str:
    """Return the ZooKeeper of a 0.7 cluster.

    Raises:
        ConfigError: none is given.
    """
    if zookeeper is None:
        raise ConfigError(
            "a cluster of Kafka 0.7 is read by its ZooKeeper: give -z HOST:PORT[/CHROOT]"
        )
    return zookeeper
