"""`zkbroker replay`: copy the messages of a topic into another one."""

import click

from zkbroker.cli.connection import cluster_options, discovery_properties, open_cluster
from zkbroker.cli.output import say
from zkbroker.cli.security import use_security
from zkbroker.cli.settings import parse_settings, settings_option


@click.command(
    "replay",
    epilog="\b\nExamples:\n"
    "  zkbroker replay -b 127.0.0.1:9092 --from visits --to visits-again\n"
    "  zkbroker replay -z 127.0.0.1:2181 --from visits --to sample --messages 1000",
)
@cluster_options
@click.option("--from", "source", required=True, metavar="TOPIC", help="Topic to read.")
@click.option("--to", "target", required=True, metavar="TOPIC", help="Topic to publish to.")
@click.option("--messages", type=click.IntRange(-1), default=-1, help="How many; -1 for all.")
@click.option("--sync", is_flag=True, help="Wait for each message before the next.")
@settings_option("-X", text="A producer property.")
def command(
    bootstrap: str | None,
    zookeeper: str | None,
    source: str,
    target: str,
    messages: int,
    sync: bool,
    settings: tuple[str, ...],
) -> None:
    """Copy the present messages of a topic to another topic.

    Keys, headers and timestamps are kept; partitions are chosen by key.
    """
    from rich.console import Console
    from rich.progress import Progress

    from zkbroker.cli.reading import bounds_of
    from zkbroker.config.producer import ProducerConfig
    from zkbroker.consumer import AssignedConsumer
    from zkbroker.producer import KeyedMessage, Producer

    if source == target:
        raise click.UsageError("a topic cannot be replayed into itself: name another one with --to")
    given = parse_settings(settings, "-X")
    use_security(given)
    config = ProducerConfig.from_properties(
        {
            "producer.type": "sync" if sync else "async",
            "request.required.acks": "1",
            **discovery_properties(bootstrap, zookeeper),
            **given,
        }
    )
    copied = 0
    with open_cluster(bootstrap, zookeeper) as cluster:
        starts, stops = bounds_of(cluster, source)
        total = sum(stops.values()) - sum(starts.values())
        with (
            Progress(console=Console(stderr=True)) as progress,
            AssignedConsumer(cluster, starts, stop=stops) as consumer,
            Producer(config) as producer,
        ):
            bar = progress.add_task(source, total=total if messages < 0 else min(total, messages))
            for message in consumer:
                if copied == messages:
                    break
                producer.send(
                    KeyedMessage(
                        target,
                        message.value,
                        key=message.key,
                        timestamp_ms=message.timestamp if message.timestamp >= 0 else None,
                        headers=message.headers,
                    )
                )
                copied += 1
                progress.update(bar, completed=copied)
    say(f"replayed {copied} messages from {source} to {target}")
