"""`zkbroker mirror`: copy topics of any number of clusters into one, continuously."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from zkbroker.cli.foreign_text import harmless
from zkbroker.cli.output import json_option, print_json, print_table, say
from zkbroker.cli.settings import parse_settings, settings_option

if TYPE_CHECKING:
    from rich.console import RenderableType

    from zkbroker.client import Cluster
    from zkbroker.mirror import Mirror, MirrorConfig, TopicStatus
    from zkbroker.types import PartitionKey

F = TypeVar("F", bound=Callable[..., Any])

_TICK_S = 0.25


def _file(*names: str, text: str, multiple: bool = False) -> Callable[[F], F]:
    kind = click.Path(exists=True, dir_okay=False, path_type=Path)
    return click.option(*names, type=kind, multiple=multiple, help=text)


_CONFIG = _file("--config", "config_file", text="A property file with all settings.")
_CONSUMERS = _file(
    "--consumer-config",
    "--consumer.config",
    "consumer_configs",
    multiple=True,
    text="Property file of the consumer of a source; repeatable.",
)
_PRODUCER = _file(
    "--producer-config",
    "--producer.config",
    "producer_config",
    text="Property file of the producer, for the target.",
)
_SOURCE_NAMES = click.option(
    "--source-name",
    "source_names",
    multiple=True,
    help="Name of a source, in the order of --consumer-config; repeatable.",
)


@click.group(
    "mirror",
    invoke_without_command=True,
    epilog="\b\nExamples:\n"
    "  zkbroker mirror --consumer-config east.properties --producer-config here.properties "
    "--whitelist 'orders|visits'\n"
    "  zkbroker mirror --config mirror.properties --until-caught-up\n"
    "  zkbroker mirror offsets --config mirror.properties --group counters",
)
@_CONFIG
@_CONSUMERS
@_PRODUCER
@_SOURCE_NAMES
@click.option("--from-07", is_flag=True, help="The sources are clusters of Kafka 0.7.")
@click.option("--to-07", is_flag=True, help="The target is a cluster of Kafka 0.7.")
@click.option("--target-name", help="Name of the target; with names, messages carry their path.")
@click.option("--whitelist", help="Topics: a Java regular expression, or names with commas.")
@click.option("--blacklist", help="All topics but these.")
@click.option("--num-streams", "--num.streams", type=int, help="Consumers of each source.")
@click.option("--identity-partitions", is_flag=True, help="Keep partition counts and numbers.")
@click.option("--topic-prefix", help="Put before topic names; {source} is the source's name.")
@click.option(
    "--message-handler", "--message.handler", help="Import path of a handler for each message."
)
@click.option(
    "--exactly-once", is_flag=True, help="Store messages and source positions in one transaction."
)
@settings_option("-X", text="Any other setting.")
@click.option("--until-caught-up", is_flag=True, help="End when the present messages have arrived.")
@click.option("--top", "live", is_flag=True, help="Show topics, rates and lag, live.")
@click.option("--metrics-port", type=click.IntRange(1, 65535), help="Serve Prometheus metrics.")
@click.pass_context
def command(
    context: click.Context,
    config_file: Path | None,
    consumer_configs: tuple[Path, ...],
    producer_config: Path | None,
    source_names: tuple[str, ...],
    from_07: bool,
    to_07: bool,
    target_name: str | None,
    whitelist: str | None,
    blacklist: str | None,
    num_streams: int | None,
    identity_partitions: bool,
    topic_prefix: str | None,
    message_handler: str | None,
    exactly_once: bool,
    settings: tuple[str, ...],
    until_caught_up: bool,
    live: bool,
    metrics_port: int | None,
) -> None:
    """Copy topics of any number of clusters into one, until Ctrl-C.

    Each message arrives at least once: its offset is committed in the source once the target has
    stored it. With --exactly-once it arrives once, for readers of committed messages.
    """
    if context.invoked_subcommand is not None:
        return
    given = {
        "target.name": target_name,
        "whitelist": whitelist,
        "blacklist": blacklist,
        "num.streams": None if num_streams is None else str(num_streams),
        "identity.partitions": "true" if identity_partitions else None,
        "topic.prefix": topic_prefix,
        "message.handler": message_handler,
        "exactly.once": "true" if exactly_once else None,
    }
    options = {key: value for key, value in given.items() if value is not None}
    options |= parse_settings(settings, "-X")
    config = make_config(
        config_file,
        consumer_configs,
        producer_config,
        source_names,
        options,
        from_07=from_07,
        to_07=to_07,
    )
    run_mirror(config, until_caught_up=until_caught_up, live=live, metrics_port=metrics_port)


def make_config(
    config_file: Path | None,
    consumer_configs: Sequence[Path],
    producer_config: Path | None,
    source_names: Sequence[str],
    options: dict[str, str],
    *,
    from_07: bool = False,
    to_07: bool = False,
) -> "MirrorConfig":
    """Combine a mirror's settings; options override the file.

    Raises:
        ConfigError: they do not fit.
        click.UsageError: the numbers of names and sources differ.
    """
    from zkbroker.config import load_properties
    from zkbroker.config.generation import GENERATION
    from zkbroker.mirror import MirrorConfig, SourceConfig

    if source_names and len(source_names) != len(consumer_configs):
        raise click.UsageError("give one --source-name for each --consumer-config, or none")
    names = source_names or [""] * len(consumer_configs)
    every_source = {GENERATION: "0.7"} if from_07 else {}
    sources = [
        SourceConfig(
            properties={**every_source, **load_properties(path)},
            name=name,
            label=name or path.stem,
        )
        for path, name in zip(consumer_configs, names, strict=True)
    ]
    properties = load_properties(config_file) if config_file is not None else {}
    target = {GENERATION: "0.7"} if to_07 else {}
    if producer_config is not None:
        target |= load_properties(producer_config)
    return MirrorConfig.from_properties(
        {**properties, **options}, sources=sources, target=target, every_source=every_source
    )


def run_mirror(
    config: "MirrorConfig", *, until_caught_up: bool, live: bool, metrics_port: int | None
) -> None:
    """Run a mirror in the foreground."""
    import logging

    from zkbroker.cli.logs import configure_logging
    from zkbroker.mirror import Mirror

    if not live:
        configure_logging("WARNING", "text")
        logging.getLogger("zkbroker.mirror").setLevel(logging.INFO)
    with Mirror(config) as mirror:
        if metrics_port is not None:
            from zkbroker.monitoring import serve

            serve(metrics_port, mirror)
        if until_caught_up:
            _catch_up(mirror)
        elif live:
            _show(mirror)
        else:
            mirror.wait()
    metrics = mirror.metrics()
    if until_caught_up:
        say(f"mirrored {metrics['messages']} messages, {metrics['bytes']} bytes")
    if metrics["dropped_messages"]:
        say(f"dropped {metrics['dropped_messages']} messages that were refused", err=True)


def _catch_up(mirror: "Mirror") -> None:
    from rich.console import Console
    from rich.progress import Progress

    ends = mirror.ends()
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("mirroring", total=ends.total)
        while (left := ends.left()) > 0:
            progress.update(bar, completed=max(0, ends.total - left))
            mirror.wait(_TICK_S)
        progress.update(bar, completed=ends.total)


def _show(mirror: "Mirror") -> None:
    from rich.console import Console
    from rich.live import Live

    console = Console(markup=False)
    before, at = mirror.status(), time.monotonic()
    with Live(picture(before, before, 1.0), console=console, auto_refresh=False) as shown:
        try:
            while not mirror.wait(2.0):
                now = mirror.status()
                shown.update(picture(before, now, time.monotonic() - at), refresh=True)
                before, at = now, time.monotonic()
        finally:
            # The final state stays on the screen.
            shown.update(picture(before, mirror.status(), max(0.1, time.monotonic() - at)))


def picture(
    before: "Sequence[TopicStatus]", now: "Sequence[TopicStatus]", seconds: float
) -> "RenderableType":
    """Draw the progress between two moments."""
    from rich.table import Table

    earlier = {(each.source, each.topic): each for each in before}
    table = Table("source", "topic", "messages", "messages/s", "bytes/s", "lag", title="Mirror")
    for number in range(2, 6):
        table.columns[number].justify = "right"
    for each in now:
        last = earlier.get((each.source, each.topic), each)
        table.add_row(
            harmless(each.source),
            harmless(each.topic),
            f"{each.messages:,}",
            f"{(each.messages - last.messages) / seconds:,.0f}",
            f"{(each.bytes - last.bytes) / seconds:,.0f}",
            f"{each.lag:,}",
        )
    return table


@command.command(
    "offsets",
    epilog="\b\nExamples:\n"
    "  zkbroker mirror offsets --config mirror.properties --group counters\n"
    "  zkbroker mirror offsets --config mirror.properties --group counters --apply",
)
@_CONFIG
@_CONSUMERS
@_PRODUCER
@_SOURCE_NAMES
@click.option("-g", "--group", required=True, help="A group of the source.")
@click.option("--source", help="Name of the source; not needed if there is only one.")
@click.option(
    "--apply",
    "kept_by",
    is_flag=False,
    flag_value="auto",
    type=click.Choice(["auto", "zookeeper", "coordinator"]),
    help="Commit the offsets for the group in the target, in ZooKeeper if that is named.",
)
@settings_option("-X", text="Any other setting.")
@json_option
def offsets_command(
    config_file: Path | None,
    consumer_configs: tuple[Path, ...],
    producer_config: Path | None,
    source_names: tuple[str, ...],
    group: str,
    source: str | None,
    kept_by: str | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Print where a group of a source resumes in the target.

    It needs a mirror with --identity-partitions, which stores the offset pairs in a topic of the
    target. `-` marks a partition that is not mirrored that far.
    """
    from zkbroker.mirror import read_syncs, translate
    from zkbroker.mirror.source_cluster import MirrorSource
    from zkbroker.producer.assembly import make_cluster
    from zkbroker.runtime import get_runtime

    options = {"whitelist": ".*", **parse_settings(settings, "-X")}
    if config_file is not None:
        options.pop("whitelist")
    config = make_config(config_file, consumer_configs, producer_config, source_names, options)
    chosen = [each for each in config.sources if source in (None, each.label)]
    if len(chosen) != 1:
        labels = ", ".join(each.label for each in config.sources)
        raise click.UsageError(f"give --source, one of {labels}")
    if chosen[0].generation is not None:
        raise click.UsageError(
            f"source {chosen[0].label} is a cluster of Kafka {chosen[0].generation.name}: its "
            "positions have no counterpart in the target"
        )
    if config.target_generation is not None:
        raise click.UsageError(
            f"the target is a cluster of Kafka {config.target_generation.name}: a mirror stores no "
            "offset pairs there"
        )
    runtime = get_runtime("threads")
    with (
        MirrorSource(chosen[0], runtime) as there,
        make_cluster(config.producer(idempotent=False), runtime) as here,
    ):
        committed = there.committed(group)
        syncs = read_syncs(here, config.offset_syncs_topic, chosen[0].label)
        places = translate(committed, syncs)
        found = {
            (place.topic, place.partition): place.offset
            for place in places.values()
            if place is not None
        }
        if kept_by is not None and found:
            _apply(config, here, group, kept_by, found)
    rows = [
        (topic, number, committed[topic, number], place.topic, place.partition, place.offset)
        if place is not None
        else (topic, number, committed[topic, number], None, None, None)
        for (topic, number), place in sorted(places.items())
    ]
    names = ("topic", "partition", "offset", "target_topic", "target_partition", "target_offset")
    if as_json:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
        return
    print_table([name.replace("_", " ") for name in names], rows, numbers=(1, 2, 4, 5))
    if kept_by is not None:
        say(f"committed {len(found)} offsets for group {group} in the target")


def _apply(
    config: "MirrorConfig",
    cluster: "Cluster",
    group: str,
    kept_by: str,
    found: "dict[PartitionKey, int]",
) -> None:
    from zkbroker.admin import coordinator_groups, zk_groups
    from zkbroker.zookeeper import ZkSession

    zookeeper = config.target_zookeeper
    if kept_by == "coordinator" or (kept_by == "auto" and not zookeeper):
        coordinator_groups.set_offsets(cluster, group, found)
        return
    if not zookeeper:
        raise click.UsageError(
            "--apply zookeeper: the settings of the target name no ZooKeeper; add "
            "zookeeper.connect to them, or give --apply coordinator"
        )
    with ZkSession(zookeeper, security=config.target_security.zookeeper) as session:
        zk_groups.set_offsets(session, group, found)
