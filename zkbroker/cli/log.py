"""`zkbroker log`: check, repair and compact the logs of a broker that does not run."""

import sys
from pathlib import Path

import click

from zkbroker.cli.output import say

_PATHS = click.argument(
    "paths",
    nargs=-1,
    required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIRECTORY...",
)


@click.group(
    "log",
    epilog="\b\nExamples:\n"
    "  zkbroker log check /var/lib/zkbroker\n"
    "  zkbroker log repair /var/lib/zkbroker/visits-0",
)
def command() -> None:
    """Check, repair and compact logs, and end transactions left open.

    Give data directories or single partitions. Stop their broker first.
    """


@command.command("check", epilog="\b\nExample:\n  zkbroker log check /var/lib/zkbroker")
@_PATHS
def check_command(paths: tuple[Path, ...]) -> None:
    """Verify every entry and index.

    Changes nothing. Exit status 1 when something is wrong.
    """
    from zkbroker.admin.log_check import check_logs

    wrong = 0
    for check in check_logs(paths):
        say(
            f"{check.directory}: {check.segments} segments, {check.entries} entries, "
            f"{check.size_bytes} bytes, offsets {check.log_start_offset} to {check.log_end_offset}"
        )
        for first, last in check.holes:
            say(f"  offsets {first} to {last} are missing: compacted away, or lost")
        for finding in check.findings:
            say(f"  {finding}")
            wrong += 1
    if wrong:
        say("zkbroker log repair cuts and rebuilds; the cut bytes are kept aside", err=True)
        sys.exit(1)


@command.command("repair", epilog="\b\nExample:\n  zkbroker log repair /var/lib/zkbroker")
@_PATHS
def repair_command(paths: tuple[Path, ...]) -> None:
    """Cut damaged parts and rebuild indexes.

    A log keeps its longest valid prefix, as in a broker's recovery. The bytes that are cut go to
    `*.corrupt-*` beside the segment.
    """
    from zkbroker.admin.log_check import repair_logs

    cuts = repair_logs(paths)
    for cut in cuts:
        say(cut)
    say(f"{len(cuts)} cuts")


@command.command(
    "clean",
    epilog="\b\nExamples:\n"
    "  zkbroker log clean --dry-run /var/lib/zkbroker/users-0\n"
    "  zkbroker log clean /var/lib/zkbroker/users-0",
)
@_PATHS
@click.option("--dry-run", is_flag=True, help="Only print what would be removed.")
@click.option(
    "--delete-retention-ms",
    type=click.IntRange(min=0),
    default=86_400_000,
    show_default=True,
    help="How long messages without a value are kept after their first compaction.",
)
@click.option(
    "--segment-bytes",
    type=click.IntRange(min=14, max=2**31 - 1),
    default=1024**3,
    show_default=True,
    help="Largest segment that others are joined to.",
)
def clean_command(
    paths: tuple[Path, ...], dry_run: bool, delete_retention_ms: int, segment_bytes: int
) -> None:
    """Compact logs: keep the latest message of each key.

    It also compacts topics with cleanup.policy=delete: name only logs to be compacted. Messages
    without a key are removed. The active segment, and messages after the start of an open
    transaction, are kept.
    """
    from zkbroker.admin.log_clean import clean_logs
    from zkbroker.config.log import LogConfig

    config = LogConfig(delete_retention_ms=delete_retention_ms, segment_bytes=segment_bytes)
    for each in clean_logs(paths, config=config, only_look=dry_run):
        stats = each.stats
        if stats is None:
            say(f"{each.partition}: nothing to compact")
            continue
        copied = stats.copied
        verb = "would go" if dry_run else "removed"
        say(
            f"{each.partition}: offsets {stats.start_offset} to {stats.end_offset}, "
            f"{copied.records_seen - copied.records_kept} of {copied.records_seen} messages and "
            f"{stats.bytes_before - stats.bytes_after} of {stats.bytes_before} bytes {verb}, "
            f"{stats.segments_before} segments become {stats.segments_after}, {stats.keys} keys"
        )


@command.command(
    "abort-transactions",
    epilog="\b\nExamples:\n"
    "  zkbroker log abort-transactions /var/lib/zkbroker --dry-run\n"
    "  zkbroker log abort-transactions /var/lib/zkbroker/visits-0",
)
@_PATHS
@click.option("--dry-run", is_flag=True, help="Only list the transactions that are open.")
def abort_transactions_command(paths: tuple[Path, ...], dry_run: bool) -> None:
    """Abort transactions that were left open.

    Readers with isolation.level=read_committed stop at the first message of an open transaction.
    Its coordinator would end it, but that stayed with the genuine cluster.
    """
    from zkbroker.admin.transactions import abort_transactions

    found = abort_transactions(paths, dry_run=dry_run)
    for each in found:
        say(
            f"{each.partition}: producer {each.producer_id}, "
            f"offsets {each.first_offset} to {each.last_offset}"
        )
    say(f"{len(found)} transactions {'open' if dry_run else 'aborted'}")
