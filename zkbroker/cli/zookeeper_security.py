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
    help="For a cluster without a chroot: also change the node /, which all programs share.",
)
@click.option("--enable.path.check", "check", is_flag=True, hidden=True)
@click.option("--dry-run", is_flag=True, help="Only count the nodes that would be changed.")
def command(
    action: str | None,
    zookeeper: str | None,
    connect: str | None,
    acl: str | None,
    with_root: bool,
    check: bool,  # Accepted for the genuine tool's users; the tree is always checked.
    dry_run: bool,
) -> None:
    """Give the nodes of a cluster to the brokers' login, or back to all clients.

    With `secure`, every client may read the nodes, but only this command's login, which must be the
    brokers', may change them and read the secrets under /config/users and /config/brokers. Set
    zookeeper.set.acl=true for every broker first, and restart them one by one. `unsecure` undoes
    it. After an interruption run it again.
    """
    from zkbroker.admin.zookeeper_rights import secure, unsecure

    chosen = action or acl
    if chosen is None:
        raise click.UsageError("choose secure or unsecure")
    with open_session(connect or zookeeper) as session:
        walk = secure if chosen == "secure" else unsecure
        report = walk(session, with_root=with_root, dry_run=dry_run)
        _say_report(report, chosen, dry_run=dry_run)


def _say_report(report: "RightsReport", chosen: str, *, dry_run: bool) -> None:
    verb = "would be changed" if dry_run else "changed"
    say(f"{report.changed} nodes {verb}, {report.kept} had these rights already")
    if report.left:
        say(f"not Kafka's, and not changed: {', '.join(report.left)}")
    if chosen == "secure" and report.root_open and not dry_run:
        say(
            "warning: everybody may still remove nodes directly under the root, such as "
            "/controller: --with-root closes it, if no other program makes nodes there",
            err=True,
        )
