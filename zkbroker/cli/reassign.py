"""`zkbroker reassign`: move replicas when brokers come or go."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from zkbroker.cli.connection import open_session, zookeeper_option
from zkbroker.cli.output import name_partitions, say
from zkbroker.errors import ClientError, ConfigError

if TYPE_CHECKING:
    from zkbroker.zookeeper.session import ZkSession

throttle_option = click.option(
    "--throttle",
    type=click.IntRange(1),
    metavar="BYTES",
    help="Most bytes a second that each broker copies; no limit by default.",
)
rack_option = click.option("--disable-rack-aware", is_flag=True, help="Ignore the brokers' racks.")
_FILE = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))


@click.group(
    "reassign",
    epilog="\b\nExamples:\n"
    "  zkbroker reassign plan -z 127.0.0.1:2181 > plan.json\n"
    "  zkbroker reassign execute plan.json --throttle 50000000\n"
    "  zkbroker reassign verify plan.json",
)
def command() -> None:
    """Move replicas when brokers come or go.

    Make a plan, execute it, and verify until it is done. The files are those of the genuine tool.
    """


@command.command(
    "plan",
    epilog="\b\nExamples:\n"
    "  zkbroker reassign plan > plan.json                  # brokers were added: even out\n"
    "  zkbroker reassign plan --remove 3 > plan.json\n"
    "  zkbroker reassign plan -t visits --replication-factor 3 > plan.json",
)
@zookeeper_option
@click.option("-t", "--topic", "topics", multiple=True, help="Only this topic; repeatable.")
@click.option(
    "--topics-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='Only the topics of this file, in the genuine form: {"topics":[{"topic":"visits"}]}.',
)
@click.option(
    "--brokers",
    "allowed",
    metavar="IDS",
    help="Brokers to use, as in 1,2,3; all running ones by default.",
)
@click.option(
    "--remove", "removed", type=int, multiple=True, help="A broker to leave empty; repeatable."
)
@click.option(
    "--replication-factor",
    type=click.IntRange(1),
    help="Replicas of each partition; unchanged by default.",
)
@rack_option
@click.option("--with-current", is_flag=True, hidden=True)
def plan_command(
    zookeeper: str | None,
    topics: tuple[str, ...],
    topics_file: Path | None,
    allowed: str | None,
    removed: tuple[int, ...],
    replication_factor: int | None,
    disable_rack_aware: bool,
    with_current: bool,
) -> None:
    """Print a plan with the fewest moves.

    It balances the brokers, empties those to be removed and respects racks. It changes nothing.
    """
    from zkbroker.admin.reassignment import current_assignment, encode_target
    from zkbroker.admin.reassignment_plan import moved_replicas, plan_reassignment

    chosen = [*topics, *(_topics_of(topics_file) if topics_file else [])]
    with open_session(zookeeper, needs_brokers=True) as session:
        current = current_assignment(session, chosen or None)
        brokers = _brokers(session, allowed, removed)
    brokers = racks_counted(brokers, disable_rack_aware)
    plan = plan_reassignment(current, brokers, replication_factor=replication_factor)
    if with_current:
        say("Current partition replica assignment")
        say(encode_target(current).decode())
        say()
        say("Proposed partition reassignment configuration")
        say(encode_target({**current, **plan}).decode())
        return
    say(encode_target(plan).decode())
    say(
        f"{len(plan)} of {len(current)} partitions change, {moved_replicas(current, plan)} replicas"
        f" are copied; brokers {', '.join(map(str, sorted(brokers)))}",
        err=True,
    )


@command.command(
    "execute",
    epilog="\b\nExample:\n  zkbroker reassign execute plan.json --throttle 50000000",
)
@_FILE
@zookeeper_option
@throttle_option
@click.option(
    "--rollback",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for the present replicas, which cancel needs; FILE.rollback by default.",
)
@click.option("--no-rollback", is_flag=True, hidden=True)
def execute_command(
    file: Path,
    zookeeper: str | None,
    throttle: int | None,
    rollback: Path | None,
    no_rollback: bool,
) -> None:
    """Start a reassignment.

    Run verify from time to time: it also removes the throttle once all is done.
    """
    from zkbroker.admin.reassignment import decode_target

    target = decode_target(_read(file))
    kept = None if no_rollback else rollback or file.with_name(f"{file.name}.rollback")
    with open_session(zookeeper, needs_brokers=True) as session:
        start(session, target, throttle, kept)


@command.command("verify", epilog="\b\nExample:\n  zkbroker reassign verify plan.json")
@_FILE
@zookeeper_option
@click.option("--status-zero", is_flag=True, hidden=True)
def verify_command(file: Path, zookeeper: str | None, status_zero: bool) -> None:
    """Show the progress of a reassignment.

    Once it is over the throttle is removed. Exit status 1 while partitions are not in place.
    """
    from zkbroker.admin.reassignment import MoveState, decode_target, verify

    target = decode_target(_read(file))
    with open_session(zookeeper) as session:
        found = verify(session, target)
    say("Status of partition reassignment: ")
    for (topic, partition), progress in found.partitions.items():
        say(f"Reassignment of partition {topic}-{partition} {progress.value}")
    if found.throttles_removed:
        say("Throttle was removed.")
    if set(found.partitions.values()) - {MoveState.DONE} and not status_zero:
        sys.exit(1)


@command.command("cancel", epilog="\b\nExample:\n  zkbroker reassign cancel plan.json.rollback")
@_FILE
@zookeeper_option
def cancel_command(file: Path, zookeeper: str | None) -> None:
    """Cancel a running reassignment.

    FILE is the rollback file that execute wrote. Finished moves stay: execute the rollback file to
    undo them.
    """
    from zkbroker.admin.reassignment import cancel, decode_target

    rollback = decode_target(_read(file))
    with open_session(zookeeper) as session:
        turned = cancel(session, rollback)
    for topic, partition in sorted(turned):
        say(f"Reassignment of partition {topic}-{partition} is being reverted")
    say(f"{len(rollback) - len(turned)} of {len(rollback)} partitions were not being reassigned")


def racks_counted(brokers: dict[int, str | None], disabled: bool) -> dict[int, str | None]:
    """Return brokers with their racks, or with None if racks do not count.

    Raises:
        ProtocolError: racks count, and only some brokers name one.
    """
    from zkbroker.registry.topic_rules import check_racks

    if disabled:
        return dict.fromkeys(brokers)
    check_racks(brokers)
    return brokers


def start(
    session: "ZkSession",
    target: dict[tuple[str, int], tuple[int, ...]],
    throttle: int | None,
    rollback: Path | None,
    *,
    genuine_text: bool = True,
) -> None:
    """Start a reassignment; print its partitions and how to revert it.

    Args:
        session: a started session.
        target: partition → replicas.
        throttle: bytes a second, None for no limit.
        rollback: a file to create with the present replicas; None for no file.
        genuine_text: print the genuine tool's output, which names all partitions; else a few lines.

    Raises:
        ConfigError: the file exists, or the target is impossible.
        ClientError: a reassignment is under way.
    """
    from zkbroker.admin.reassignment import current_assignment, encode_target, execute

    if rollback is not None and rollback.exists():
        raise ConfigError(
            f"{rollback} exists: it may be needed to revert an earlier reassignment; remove it, "
            "or name another file with --rollback"
        )
    known = current_assignment(session, sorted({topic for topic, _ in target}))
    before = {key: known[key] for key in target if key in known}
    if rollback is not None:
        # Written before anything changes.
        rollback.write_bytes(encode_target(before) + b"\n")
    try:
        execute(session, target, throttle=throttle)
    except (ClientError, ConfigError):
        # Refused. After any other error it may have been started, and the file is needed.
        if rollback is not None:
            rollback.unlink(missing_ok=True)
        raise
    if genuine_text:
        say("Current partition replica assignment")
        say()
        say(encode_target(known).decode())
        say()
        say("Save this to use as the --reassignment-json-file option during rollback")
    if rollback is not None:
        say(f"Saved for zkbroker reassign cancel: {rollback}")
    if throttle is not None:
        say(
            "Warning: You must run verify periodically, until the reassignment completes, to ensure"
            " the throttle is removed."
        )
        say(f"The inter-broker throttle limit was set to {throttle} B/s")
    if genuine_text:
        names = ",".join(f"{topic}-{partition}" for topic, partition in target)
        say(f"Successfully started reassignment of partitions {names}.")
    else:
        say(f"Successfully started reassignment of {name_partitions(target)}")


def _brokers(
    session: "ZkSession", allowed: str | None, removed: tuple[int, ...]
) -> dict[int, str | None]:
    from zkbroker.registry.brokers import list_brokers

    live = {broker.id: broker.rack for broker in list_brokers(session).values()}
    try:
        wanted = set(live) if allowed is None else {int(each) for each in allowed.split(",")}
    except ValueError:
        raise ConfigError(f"brokers {allowed!r} are not allowed: give ids, as in 1,2,3") from None
    away = wanted - set(live)
    if away:
        raise ConfigError(
            f"broker {min(away)} is not running; running are {', '.join(map(str, live)) or 'none'}"
        )
    return {broker: live[broker] for broker in sorted(wanted - set(removed))}


def _topics_of(file: Path) -> list[str]:
    import json

    try:
        return [str(each["topic"]) for each in json.loads(_read(file))["topics"]]
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError(f'{file} names no topics: give {{"topics":[{{"topic":"t"}}]}}') from error


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")
