"""`zkbroker adopt`: serve a data directory of genuine Kafka."""

from pathlib import Path

import click

from zkbroker.cli.connection import open_empty_session, zookeeper_option
from zkbroker.cli.output import say


@click.command(
    "adopt",
    epilog="\b\nExamples:\n"
    "  zkbroker adopt /var/kafka-logs -z 127.0.0.1:2181\n"
    "  zkbroker adopt /disk1/kafka /disk2/kafka -z 127.0.0.1:2181/adopted --broker-id 1",
)
@click.argument(
    "directories",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)
@zookeeper_option
@click.option(
    "--broker-id", type=click.IntRange(0), help="The broker's id, if no directory stores it."
)
@click.option("--dry-run", is_flag=True, help="Only print the directories' partitions.")
def command(
    directories: tuple[Path, ...], zookeeper: str | None, broker_id: int | None, dry_run: bool
) -> None:
    """Assign the partitions in data directories of Kafka 0.8 to 2.x to their broker.

    Give all log.dirs of one broker. Nothing in them is changed; afterwards start the broker on
    them: zkbroker broker server.properties
    """
    from zkbroker.admin.adopt import adopt, survey

    found = survey(directories)
    count = sum(map(len, found.partitions.values()))
    say(
        f"{count} partitions of {len(found.partitions)} topics, of broker "
        f"{'unknown' if found.broker_id is None else found.broker_id}, cluster "
        f"{found.cluster_id or 'unknown'}"
    )
    if dry_run:
        for topic, numbers in found.partitions.items():
            say(f"  {topic}: {', '.join(map(str, numbers))}")
        return
    with open_empty_session(zookeeper) as session:
        done = adopt(session, found, broker_id=broker_id)
    say(f"{len(done.adopted)} assigned to broker {done.broker_id} now, {len(done.already)} before")
    for (topic, partition), other in done.elsewhere.items():
        say(f"  {topic}-{partition} is broker {other}'s; its data here is not served")
    for topic, partition in done.missing:
        say(f"  {topic}-{partition} is in none of these directories: adopt those that hold it")
