"""`zkbroker topics`: list, create, describe, alter and delete topics."""

from typing import TYPE_CHECKING

import click

from zkbroker.cli.connection import cluster_options, open_topics
from zkbroker.cli.output import json_option, print_json, say, warn
from zkbroker.cli.settings import parse_settings, settings_option
from zkbroker.errors import ClientError

if TYPE_CHECKING:
    from zkbroker.admin.topic_ways import TopicWay
    from zkbroker.admin.topics import PartitionDescription, TopicDescription

_config_option = settings_option(
    "--config", text="A setting of the topic's own, such as retention.ms=3600000; repeatable."
)


@click.group(
    "topics",
    epilog="\b\nExamples:\n"
    "  zkbroker topics list -z 127.0.0.1:2181\n"
    "  zkbroker topics create visits --partitions 8 --config retention.ms=86400000\n"
    "  zkbroker topics describe visits -b 127.0.0.1:9092",
)
def command() -> None:
    """List, create, describe, alter and delete topics.

    With -z the command uses ZooKeeper, with -b the brokers; or set ZKBROKER_ZOOKEEPER or
    ZKBROKER_BOOTSTRAP once. Both print the same, but only ZooKeeper knows which topics are marked
    for deletion.
    """


@command.command("list", epilog="\b\nExample:\n  zkbroker topics list -z 127.0.0.1:2181")
@cluster_options
@json_option
def list_command(bootstrap: str | None, zookeeper: str | None, as_json: bool) -> None:
    """List the names of all topics.

    With -z, topics that are being deleted are marked, except in JSON.
    """
    with open_topics(bootstrap, zookeeper) as way:
        names = way.names()
    if as_json:
        print_json(list(names))
    else:
        for name, marked in names.items():
            say(f"{name} - marked for deletion" if marked else name)


@command.command(
    "create",
    epilog="\b\nExamples:\n"
    "  zkbroker topics create visits --partitions 8\n"
    "  zkbroker topics create visits --replica-assignment 1,2,1,2",
)
@click.argument("topic")
@cluster_options
@click.option(
    "--partitions", type=click.IntRange(1), help="How many; the brokers' num.partitions by default."
)
@click.option(
    "--replication-factor",
    type=click.IntRange(1),
    help="Replicas of each partition; the brokers' default.replication.factor by default.",
)
@click.option("--replica-assignment", metavar="IDS", help="Brokers of each partition, as in 1,2,1.")
@_config_option
@click.option("--disable-rack-aware", is_flag=True, help="Ignore the brokers' racks; needs -z.")
@click.option("--if-not-exists", is_flag=True, help="Do nothing when the topic exists.")
def create_command(
    topic: str,
    bootstrap: str | None,
    zookeeper: str | None,
    partitions: int | None,
    replication_factor: int | None,
    replica_assignment: str | None,
    settings: tuple[str, ...],
    disable_rack_aware: bool,
    if_not_exists: bool,
) -> None:
    """Create a topic.

    The brokers' settings are the defaults.
    """
    from zkbroker.admin.topics import parse_assignment

    config = parse_settings(settings, "--config")
    given = None if replica_assignment is None else parse_assignment(replica_assignment)
    if given is not None and (partitions is not None or replication_factor is not None):
        raise click.UsageError(
            "--replica-assignment says how many partitions and replicas there are: leave out "
            "--partitions and --replication-factor"
        )
    _check_racks(bootstrap, disable_rack_aware=disable_rack_aware)
    with open_topics(bootstrap, zookeeper, needs_brokers=True) as way:
        if if_not_exists and way.assignment(topic) is not None:
            return
        if given is None:
            partitions, replication_factor = _counts(way, partitions, replication_factor)
        way.create(
            topic,
            partitions or 1,
            replication_factor or 1,
            given,
            config,
            rack_aware=not disable_rack_aware,
        )
        say(f'Created topic "{topic}".')
        _warn(way, topic)


def _check_racks(bootstrap: str | None, *, disable_rack_aware: bool) -> None:
    if bootstrap is not None and disable_rack_aware:
        raise click.UsageError(
            "--disable-rack-aware needs -z: with -b the controller places replicas, and uses "
            "racks. --replica-assignment places them by hand"
        )


def _counts(
    way: "TopicWay", partitions: int | None, replication_factor: int | None
) -> tuple[int, int]:
    """Return the numbers of partitions and replicas of a new topic.

    Raises:
        ClientError: one is not given, and no broker can be asked for its default.
    """
    from zkbroker.admin.cluster_settings import NUM_PARTITIONS, REPLICATION_FACTOR

    settings = {
        NUM_PARTITIONS: ("--partitions", partitions),
        REPLICATION_FACTOR: ("--replication-factor", replication_factor),
    }
    unknown = [name for name, (_, value) in settings.items() if value is None]
    try:
        found = way.defaults(unknown) if unknown else {}
    except ClientError as error:
        options = " and ".join(settings[name][0] for name in unknown)
        raise ClientError(
            f"{error}: give {options}, or start the brokers (those before 0.11 cannot be asked; "
            "with ACLs it takes DescribeConfigs on the cluster)"
        ) from error
    return (
        partitions or found[NUM_PARTITIONS],
        replication_factor or found[REPLICATION_FACTOR],
    )


def _warn(way: "TopicWay", topic: str) -> None:
    """Warn of anything that keeps a topic from being served or written to."""
    from zkbroker.client.topic_settings import MIN_ISR

    assigned = way.assignment(topic) or {}
    live = way.brokers()
    absent = sorted({each for replicas in assigned.values() for each in replicas} - set(live))
    if absent:
        warn(
            f"no broker {', '.join(map(str, absent))} is registered; registered are "
            f"{', '.join(map(str, live))}: replicas there begin when their broker starts"
        )
    least = _min_isr(way, topic)
    replicas = min(map(len, assigned.values()), default=0)
    if least is not None and replicas < least:
        warn(
            f"partitions of {topic} have {replicas} replica{'s' if replicas > 1 else ''} "
            f"and {MIN_ISR} is {least}: every message with acks=all is refused; give the topic "
            f"{least} replicas, or --config {MIN_ISR}={replicas}"
        )


def _min_isr(way: "TopicWay", topic: str) -> int | None:
    """Return `min.insync.replicas` of a topic; None if no broker describes its default."""
    from zkbroker.client.topic_settings import MIN_ISR

    (described,) = way.describe([topic])
    if MIN_ISR in described.config:
        return int(described.config[MIN_ISR])
    try:
        return way.defaults([MIN_ISR])[MIN_ISR]
    except ClientError:
        return None


@command.command("describe", epilog="\b\nExample:\n  zkbroker topics describe visits --json")
@click.argument("topics", nargs=-1)
@cluster_options
@click.option(
    "--unavailable-partitions", is_flag=True, help="Only partitions that no broker serves."
)
@click.option(
    "--under-replicated-partitions",
    is_flag=True,
    help="Only partitions with replicas that are not in sync.",
)
@click.option(
    "--under-min-isr-partitions",
    is_flag=True,
    help="Only partitions with fewer replicas in sync than min.insync.replicas.",
)
@click.option(
    "--topics-with-overrides", is_flag=True, help="Only topics with settings of their own."
)
@json_option
def describe_command(
    topics: tuple[str, ...],
    bootstrap: str | None,
    zookeeper: str | None,
    unavailable_partitions: bool,
    under_replicated_partitions: bool,
    under_min_isr_partitions: bool,
    topics_with_overrides: bool,
    as_json: bool,
) -> None:
    """Describe topics, in the form of the genuine topic tool."""
    from dataclasses import asdict, replace

    from zkbroker.admin.topics import describe_lines

    least: dict[str, int] = {}
    with open_topics(bootstrap, zookeeper) as way:
        described = way.describe(topics)
        if under_min_isr_partitions:
            least = _least_in_sync(way, described)
    if topics_with_overrides:
        described = [each for each in described if each.config]
    troubled = unavailable_partitions or under_replicated_partitions or under_min_isr_partitions
    if troubled:
        described = [
            replace(
                each,
                partitions=tuple(
                    part
                    for part in each.partitions
                    if (unavailable_partitions and not part.available)
                    or (under_replicated_partitions and part.under_replicated)
                    or _under(part, least.get(each.topic, 0))
                ),
            )
            for each in described
        ]
        described = [each for each in described if each.partitions]
    if as_json:
        print_json([asdict(each) for each in described])
        return
    for each in described:
        heading, *lines = describe_lines(each)
        if not troubled:
            say(heading)
        if troubled or not topics_with_overrides:
            for line in lines:
                say(line)


def _under(partition: "PartitionDescription", least: int) -> bool:
    """Whether acks=all fails for lack of replicas; a partition without a leader has none."""
    return (0 if partition.leader is None else len(partition.isr)) < least


def _least_in_sync(way: "TopicWay", described: "list[TopicDescription]") -> dict[str, int]:
    from zkbroker.admin.topic_ways import min_isr_of
    from zkbroker.client.topic_settings import MIN_ISR

    found, unknown = min_isr_of(way, described)
    if unknown:
        say(
            f"no broker could be asked for {MIN_ISR} of {len(unknown)} topics without a setting of "
            "their own: 1 is taken for them",
            err=True,
        )
    return {**dict.fromkeys(unknown, 1), **found}


@command.command(
    "alter",
    epilog="\b\nExamples:\n"
    "  zkbroker topics alter visits --partitions 16\n"
    "  zkbroker topics alter visits --config retention.ms=3600000 --delete-config flush.ms",
)
@click.argument("topic")
@cluster_options
@click.option("--partitions", type=click.IntRange(1), help="Grow the topic to this many.")
@click.option(
    "--replica-assignment",
    metavar="IDS",
    help="Brokers of each partition, also of the existing ones, as in 1,2,1.",
)
@click.option("--disable-rack-aware", is_flag=True, help="Ignore the brokers' racks; needs -z.")
@_config_option
@click.option("--delete-config", "deleted", metavar="KEY", multiple=True, help="Remove a setting.")
def alter_command(
    topic: str,
    bootstrap: str | None,
    zookeeper: str | None,
    partitions: int | None,
    replica_assignment: str | None,
    disable_rack_aware: bool,
    settings: tuple[str, ...],
    deleted: tuple[str, ...],
) -> None:
    """Add partitions to a topic, or change its settings."""
    from zkbroker.admin.topics import parse_assignment
    from zkbroker.client.topic_settings import MIN_ISR

    if partitions is None and not settings and not deleted:
        raise click.UsageError("give --partitions, --config or --delete-config")
    whole = None if replica_assignment is None else parse_assignment(replica_assignment)
    if whole is not None and len(whole) != partitions:
        raise click.UsageError(
            f"--replica-assignment names the brokers of {len(whole)} partitions, not of "
            f"{partitions}"
        )
    config = parse_settings(settings, "--config")
    if partitions is not None:
        _check_racks(bootstrap, disable_rack_aware=disable_rack_aware)
    with open_topics(bootstrap, zookeeper, needs_brokers=partitions is not None) as way:
        if settings or deleted:
            way.alter_config(topic, config, deleted)
            say(f'Updated config for topic "{topic}".')
        if partitions is not None:
            present = way.assignment(topic) or {}
            added = (
                None
                if whole is None
                else [whole[number] for number in sorted(whole) if number not in present]
            )
            way.grow(topic, partitions, added, rack_aware=not disable_rack_aware)
            say(
                f"Topic {topic} has {partitions} partitions now. Keys are spread over all of them "
                "from here on: messages of one key may lie in two partitions."
            )
        if partitions is not None or MIN_ISR in config:
            _warn(way, topic)


@command.command("delete", epilog="\b\nExample:\n  zkbroker topics delete visits")
@click.argument("topic")
@cluster_options
def delete_command(topic: str, bootstrap: str | None, zookeeper: str | None) -> None:
    """Delete a topic.

    Brokers with delete.topic.enable=true do so at once.
    """
    with open_topics(bootstrap, zookeeper) as way:
        way.delete(topic)
    say(f"Topic {topic} is marked for deletion.")
