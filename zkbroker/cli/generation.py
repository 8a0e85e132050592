"""Other generations of Kafka in commands: `--kafka-generation`, and their partitions."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from zkbroker.cli.positions import Anchor, Range
from zkbroker.config.generation import GENERATION, PLUGINS, find_generation
from zkbroker.errors import ConfigError
from zkbroker.types import parse_partition

if TYPE_CHECKING:
    from zkbroker.config.zookeeper_security import ZooKeeperSecurity
    from zkbroker.consumer import MessageAndMetadata
    from zkbroker.consumer.streams.generation import ConsumerGeneration
    from zkbroker.producer.generation import ProducerGeneration

F = TypeVar("F", bound=Callable[..., Any])

_EARLIEST = -2
_LATEST = -1


class CommandGeneration(Protocol):
    """A generation other than 0.8 and later, as commands use it.

    Attributes:
        name: of the generation.
        has_headers: whether its messages have headers.
        offset_form: the form of an offset, for messages.
    """

    name: str
    has_headers: bool
    offset_form: str

    def consumer_config(
        self, properties: Mapping[str, str], warn: Callable[[str], None]
    ) -> "ConsumerGeneration":
        """Return the settings of a connector; raise `ConfigError` where they do not fit."""

    def command_producer(
        self,
        properties: Mapping[str, str],
        given: Mapping[str, str],
        warn: Callable[[str], None],
    ) -> "ProducerGeneration":
        """Return the settings of a producer of lines; raise `ConfigError` where they do not fit.

        Args:
            properties: of a producer for newer clusters.
            given: the properties that the user gave.
            warn: receives each warning.
        """

    def read_partitions(
        self,
        topic: str,
        partitions: Sequence[int],
        zookeeper: str,
        start: int,
        *,
        exit_at_end: bool,
        security: "ZooKeeperSecurity",
    ) -> AbstractContextManager[Iterator["MessageAndMetadata"]]:
        """Read partitions of a topic without a group; `start` is a result of `plain_start`."""


class PartitionNumber(click.ParamType[int]):
    """The number of a partition, or `broker-number` of Kafka 0.7.

    Args:
        least: the smallest number; -1 if -1 stands for any partition.
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
        metavar="|".join(PLUGINS),
        help="For a cluster of this generation; the property kafka.generation does the same.",
    )(command)


def command_generation(
    generation: str | None, properties: Mapping[str, str]
) -> CommandGeneration | None:
    """Return the generation of a cluster, None for 0.8 and later; the option overrides a property.

    Raises:
        ConfigError: the generation is not known.
    """
    given = {GENERATION: generation} if generation is not None else properties
    found: CommandGeneration | None = find_generation(given)
    return found


def require_zookeeper(generation: CommandGeneration, zookeeper: str | None) -> str:
    """Return the ZooKeeper of a cluster to read.

    Raises:
        ConfigError: none is given.
    """
    if zookeeper is None:
        raise ConfigError(
            f"a cluster of Kafka {generation.name} is read by its ZooKeeper: give -z "
            "HOST:PORT[/CHROOT]"
        )
    return zookeeper


def plain_start(generation: CommandGeneration, chosen: Range) -> int:
    """Return where to read from: an offset, or -2 for the beginning and -1 for the end.

    Raises:
        ConfigError: the generation does not support this position.
    """
    start = chosen.start
    if chosen.stop is None:
        if start.anchor is Anchor.BEGINNING:
            return _EARLIEST
        if start.anchor is Anchor.END and not start.value:
            return _LATEST
        if start.anchor is Anchor.OFFSET:
            return start.value
    raise ConfigError(
        f"-o of a cluster of Kafka {generation.name} is beginning, end or {generation.offset_form}"
    )
