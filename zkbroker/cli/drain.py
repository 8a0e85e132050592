"""`zkbroker drain`: empty a broker before it is taken away."""

from pathlib import Path

import click

from zkbroker.cli.connection import open_session, zookeeper_option
from zkbroker.cli.output import say
from zkbroker.cli.reassign import rack_option, racks_counted, start, throttle_option
from zkbroker.errors import ClientError, ConfigError


@click.command(
    "drain",
    epilog="\b\nExamples:\n"
    "  zkbroker drain 3 -z 127.0.0.1:2181 --dry-run\n"
    "  zkbroker drain 3 -z 127.0.0.1:2181 --throttle 50000000",
)
@click.argument("broker", type=click.IntRange(0))
@zookeeper_option
@throttle_option
@rack_option
@click.option(
    "--plan",
    "file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the plan is kept, for verify; drain-BROKER.json without it.",
)
@click.option("--dry-run", is_flag=True, help="Only print the plan.")
def command(
    broker: int,
    zookeeper: str | None,
    throttle: int | None,
    disable_rack_aware: bool,
    file: Path | None,
    dry_run: bool,
) -> None:
    """Move all replicas of a broker to the others.

    Nothing else is moved. When `zkbroker reassign verify` says that it is done, the broker holds
    nothing any more and may be stopped.
    """
    from zkbroker.admin.reassignment import current_assignment, encode_target
    from zkbroker.admin.reassignment_plan import plan_reassignment
    from zkbroker.registry.brokers import list_brokers

    file = file or Path(f"drain-{broker}.json")
    with open_session(zookeeper, needs_brokers=True) as session:
        current = current_assignment(session)
        held = {key: replicas for key, replicas in current.items() if broker in replicas}
        registered = list_brokers(session)
        if not held:
            if broker not in registered:
                raise ClientError(
                    f"there is no broker {broker}; registered are {', '.join(map(str, registered))}"
                )
            say(f"broker {broker} holds no replica")
            return
        others = {b.id: b.rack for b in registered.values() if b.id != broker}
        # All partitions count for the brokers' loads; brokers that are down keep their replicas.
        down = {each for replicas in current.values() for each in replicas} - {broker, *others}
        plan = plan_reassignment(
            {
                key: [each for each in replicas if each not in down]
                for key, replicas in current.items()
            },
            racks_counted(others, disable_rack_aware),
            balance=False,
        )
        target = {
            key: (*replicas, *(each for each in current[key] if each in down))
            for key, replicas in plan.items()
        }
        if dry_run:
            say(encode_target(target).decode())
            return
        # Written before the reassignment starts, and in place only once it is accepted.
        written = file.with_name(f"{file.name}.new")
        written.write_bytes(encode_target(target) + b"\n")
        rollback = file.with_name(f"{file.name}.rollback")
        try:
            start(session, target, throttle, rollback, genuine_text=False)
        except (ClientError, ConfigError):
            written.unlink()
            raise
        written.replace(file)
    say(f"zkbroker reassign verify {file} says when broker {broker} is empty")
