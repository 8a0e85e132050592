"""`zkbroker topics`: list, create, describe, alter and delete topics."""

import click

from zkbroker.cli.connection import open_session, zookeeper_option
from zkbroker.cli.output import json_option, print_json
from zkbroker.cli.settings import parse_settings

_CONFIG_HELP = "A setting of the topic's own, such as retention.ms=3600000; repeatable."


@click.group(
    "topics",
    epilog="\b\nExamples:\n"
    "  zkbroker topics list -z 127.0.0.1:2181\n"
    "  zkbroker topics create visits --partitions 8 --config retention.ms=86400000\n"
    "  zkbroker topics describe visits",
)
def command() -> None:
    """List, create, describe, alter and delete topics.

    Topics are kept in ZooKeeper: give -z, or set ZKBROKER_ZOOKEEPER once.
    """


@command.command("list", epilog="\b\nExample:\n  zkbroker topics list -z 127.0.0.1:2181")
@zookeeper_option
@json_option
def list_command(zookeeper: str | None, as_json: bool) -> None:
    """List the names of all topics."""
    from zkbroker.registry.topics import list_topics

    with open_session(zookeeper) as session:
        names = list_topics(session)
    if as_json:
        print_json(names)
    else:
        for name in names:
            click.echo(name)


@command.command(
    "create",
    epilog="\b\nExamples:\n"
    "  zkbroker topics create visits --partitions 8\n"
    "  zkbroker topics create visits --replica-assignment 1,2,1,2",
)
@click.argument("topic")
@zookeeper_option
@click.option("--partitions", type=click.IntRange(1), default=1, show_default=True)
@click.option("--replication-factor", type=click.IntRange(1), default=1, show_default=True)
@click.option("--replica-assignment", metavar="IDS", help="Brokers of each partition, as in 1,2,1.")
@click.option("--config", "settings", metavar="KEY=VALUE", multiple=True, help=_CONFIG_HELP)
@click.option("--disable-rack-aware", is_flag=True, help="Do not look at the brokers' racks.")
@click.option("--if-not-exists", is_flag=True, help="Do nothing when the topic exists.")
def create_command(
    topic: str,
    zookeeper: str | None,
    partitions: int,
    replication_factor: int,
    replica_assignment: str | None,
    settings: tuple[str, ...],
    disable_rack_aware: bool,
    if_not_exists: bool,
) -> None:
    """Create a topic."""
    from zkbroker.admin.topics import create_topic, parse_assignment
    from zkbroker.registry.topics import assignment

    config = parse_settings(settings, "--config")
    with open_session(zookeeper) as session:
        if if_not_exists and assignment(session, topic) is not None:
            return
        create_topic(
            session,
            topic,
            partitions=partitions,
            replication_factor=replication_factor,
            assignment=None if replica_assignment is None else parse_assignment(replica_assignment),
            config=config,
            rack_aware=not disable_rack_aware,
        )
    click.echo(f'Created topic "{topic}".')


@command.command("describe", epilog="\b\nExample:\n  zkbroker topics describe visits --json")
@click.argument("topics", nargs=-1)
@zookeeper_option
@click.option(
    "--unavailable-partitions", is_flag=True, help="Only partitions that no broker serves."
)
@click.option("--topics-with-overrides", is_flag=True, help="Only topics with own settings.")
@json_option
def describe_command(
    topics: tuple[str, ...],
    zookeeper: str | None,
    unavailable_partitions: bool,
    topics_with_overrides: bool,
    as_json: bool,
) -> None:
    """Describe topics, in the form of the genuine topic tool."""
    from dataclasses import asdict

    from zkbroker.admin.topics import describe, describe_lines

    with open_session(zookeeper) as session:
        described = describe(session, topics)
    if topics_with_overrides:
        described = [each for each in described if each.config]
    if as_json:
        print_json([asdict(each) for each in described])
        return
    for each in described:
        heading, *lines = describe_lines(each)
        if unavailable_partitions:
            lines = [line for line in lines if "\tLeader: none\t" in line]
        elif topics_with_overrides:
            lines = []
        if not unavailable_partitions:
            click.echo(heading)
        for line in lines:
            click.echo(line)


@command.command(
    "alter",
    epilog="\b\nExamples:\n"
    "  zkbroker topics alter visits --partitions 16\n"
    "  zkbroker topics alter visits --config retention.ms=3600000 --delete-config flush.ms",
)
@click.argument("topic")
@zookeeper_option
@click.option("--partitions", type=click.IntRange(1), help="Let the topic grow to this many.")
@click.option("--config", "settings", metavar="KEY=VALUE", multiple=True, help=_CONFIG_HELP)
@click.option("--delete-config", "deleted", metavar="KEY", multiple=True, help="Drop a setting.")
def alter_command(
    topic: str,
    zookeeper: str | None,
    partitions: int | None,
    settings: tuple[str, ...],
    deleted: tuple[str, ...],
) -> None:
    """Let a topic grow, or change its settings."""
    from zkbroker.admin.topics import add_partitions, alter_config

    if partitions is None and not settings and not deleted:
        raise click.UsageError("give --partitions, --config or --delete-config")
    config = parse_settings(settings, "--config")
    with open_session(zookeeper) as session:
        if settings or deleted:
            alter_config(session, topic, add=config, delete=deleted)
            click.echo(f'Updated config for topic "{topic}".')
        if partitions is not None:
            add_partitions(session, topic, partitions)
            click.echo(
                f"Topic {topic} has {partitions} partitions now. Keys are spread anew from here "
                "on: messages of one key may lie in two partitions."
            )


@command.command("delete", epilog="\b\nExample:\n  zkbroker topics delete visits")
@click.argument("topic")
@zookeeper_option
def delete_command(topic: str, zookeeper: str | None) -> None:
    """Delete a topic; brokers with delete.topic.enable=true do so at once."""
    from zkbroker.admin.topics import delete_topic

    with open_session(zookeeper) as session:
        delete_topic(session, topic)
    click.echo(f"Topic {topic} is marked for deletion.")
