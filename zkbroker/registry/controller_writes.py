"""Changes that only the controller may make.

Invariant: each is one transaction with a check of the version that `/controller_epoch` has had
since this controller's election, so that a controller which was deposed, and does not know it yet,
changes nothing.
"""

from collections.abc import Sequence

from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.zookeeper.errors import TransactionFailed
from zkbroker.zookeeper.nodes import Check, Operation
from zkbroker.zookeeper.session import ZkSession


class ControllerMoved(RegistryError):
    """Another controller was elected; this one must change nothing any more."""


def controller_transactions(
    session: ZkSession, operations: Sequence[Operation | Sequence[Operation]], epoch_version: int
) -> list[TransactionFailed | None]:
    """Make changes, each for itself, in one flight and in order.

    Args:
        session: a started session.
        operations: the changes; several in a list are made together or not at all.
        epoch_version: version of `/controller_epoch` since this controller's election.

    Returns:
        for each, None when it was made and else why it was refused.

    Raises:
        ControllerMoved: there is another controller.
        RegistryError: ZooKeeper does not answer; what was made is unknown.
    """
    check = Check(paths.CONTROLLER_EPOCH, epoch_version)
    batches: list[list[Operation]] = [
        [check, *(each if isinstance(each, Sequence) else (each,))] for each in operations
    ]
    answers = session.transactions(batches) if batches else []
    if any(refused is not None and refused.path == check.path for refused in answers):
        raise ControllerMoved("another controller was elected")
    return answers


def check_elected(session: ZkSession, epoch_version: int) -> None:
    """Make sure that what was read before this is not of a later controller.

    Args:
        session: a started session.
        epoch_version: version of `/controller_epoch` since this controller's election.

    Raises:
        ControllerMoved: there is another controller.
        RegistryError: ZooKeeper does not answer.
    """
    controller_transactions(session, [[]], epoch_version)
