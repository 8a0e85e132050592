"""`zkbroker log`: check, repair and settle the logs of a broker that does not run."""

import sys
from pathlib import Path

import click

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
    """Check, repair and settle logs: data directories or single partitions, broker stopped."""


@command.command("check", epilog="\b\nExample:\n  zkbroker log check /var/lib/zkbroker")
@_PATHS
def check_command(paths: tuple[Path, ...]) -> None:
    """Verify every entry and index, and change nothing. Exit status 1 when something is wrong."""
    from zkbroker.admin.log_check import check_logs

    wrong = 0
    for check in check_logs(paths):
        click.echo(
            f"{check.directory}: {check.segments} segments, {check.entries} entries, "
            f"{check.size_bytes} bytes, offsets {check.log_start_offset} to {check.log_end_offset}"
        )
        for finding in check.findings:
            click.echo(f"  {finding}")
            wrong += 1
    if wrong:
        click.echo("zkbroker log repair cuts and rebuilds; what it cuts is kept aside", err=True)
        sys.exit(1)


@command.command("repair", epilog="\b\nExample:\n  zkbroker log repair /var/lib/zkbroker")
@_PATHS
def repair_command(paths: tuple[Path, ...]) -> None:
    """Cut logs to their longest valid prefix and rebuild indexes, as a broker's recovery does.

    What is cut is kept in `*.log.corrupt-*` beside the segment.
    """
    from zkbroker.admin.log_check import repair_logs

    cuts = repair_logs(paths)
    for cut in cuts:
        click.echo(cut)
    click.echo(f"{len(cuts)} cuts")


@command.command(
    "abort-transactions",
    epilog="\b\nExamples:\n"
    "  zkbroker log abort-transactions /var/lib/zkbroker --dry-run\n"
    "  zkbroker log abort-transactions /var/lib/zkbroker/visits-0",
)
@_PATHS
@click.option("--dry-run", is_flag=True, help="Only list the transactions that are open.")
def abort_transactions_command(paths: tuple[Path, ...], dry_run: bool) -> None:
    """End the transactions that a genuine broker left open, by aborting them.

    Readers with isolation.level=read_committed stop at the first message of an open transaction.
    Its coordinator would end it; it was left behind with the genuine cluster.
    """
    from zkbroker.admin.transactions import abort_transactions

    found = abort_transactions(paths, dry_run=dry_run)
    for each in found:
        click.echo(
            f"{each.partition}: producer {each.producer_id}, "
            f"offsets {each.first_offset} to {each.last_offset}"
        )
    click.echo(f"{len(found)} transactions {'open' if dry_run else 'aborted'}")
