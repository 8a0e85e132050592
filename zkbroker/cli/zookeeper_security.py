"""`zkbroker zookeeper-security`: give the nodes of a cluster to the brokers' login, or back."""

from typing import TYPE_CHECKING

import click

from zkbroker.cli.connection import open_session, zookeeper_option
from zkbroker.cli.output import say

if TYPE_CHECKING:
    from zkbroker.admin.zookeeper_rights import RightsReport

_ACTIONS = ("secure", "unsecure")


@click.command(
    "zookeeper-security",
    epilog="\b\nExamples:\n"
    "  zkbroker zookeeper-security secure -z 127.0.0.1:2181/kafka --command-config zk.properties\n"
    "  zkbroker zookeeper-security --zookeeper.acl=secure --zookeeper.connect=127.0.0.1:2181/kafka",
)
@click.argument("action", type=click.Choice(_ACTIONS), required=False)
@zookeeper_option
@click.option("--zookeeper.connect", "connect", hidden=True)
@click.option("--zookeeper.acl", "acl", type=click.Choice(_ACTIONS), hidden=True)
@click.option(
    "--with-root",
    "with_root",
    is_flag=True,
    help="For a cluster without chroot: also change the node /, which all programs share.",
)
@click.option("--enable.path.check", "check", is_flag=True, hidden=True)
@click.option("--dry-run", is_flag=True, help="Only count the nodes that would be changed.")
def command(
    action: str | None,
    zookeeper: str | None,
    connect: str | None,
    acl: str | None,
    with_root: bool,
    check: bool,  # The tree is always looked for.
    dry_run: bool,
) -> None:
    """Give the nodes of a cluster to the brokers' login, or back to all clients.

    With `secure`, every client may read the nodes, and only this command's login, which must be
    that of the brokers, may change them, and read the secrets under /config/users and
    /config/brokers.
    Set zookeeper.set.acl=true for every broker first, and restart them one by one. `unsecure` is
    the way back. After an interruption run it again.
    """
    from zkbroker.admin.zookeeper_rights import secure, unsecure

    chosen = action or acl
    if chosen is None:
        raise click.UsageError("say what to do: secure or unsecure")
    with open_session(connect or zookeeper) as session:
        walk = secure if chosen == "secure" else unsecure
        report = walk(session, with_root=with_root, dry_run=dry_run)
        _say_report(report, chosen, dry_run=dry_run)


def _say_report(report: "RightsReport", chosen: str, *, dry_run: bool) -> None:
    verb = "would be changed" if dry_run else "changed"
    say(f"{report.changed} nodes {verb}, {report.kept} had these rights already")
    if report.left:
        say(f"not Kafka's, and left alone: {', '.join(report.left)}")
    if chosen == "secure" and report.root_open and not dry_run:
        say(
            "warning: everybody may still remove nodes directly under the root, such as "
            "/controller: --with-root closes it, if no other program makes nodes there",
            err=True,
        )
