"""Changes that only the controller may make.

Invariant: each change is one transaction that checks the version of `/controller_epoch` against the
one of this controller's election, so that a controller that was deposed without knowing it changes
nothing.
"""

from collections.abc import Sequence

from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.zookeeper.errors import TransactionFailed
from zkbroker.zookeeper.nodes import Check, Operation
from zkbroker.zookeeper.session import ZkSession


class ControllerMoved(RegistryError):
    """Another controller was elected; this one must make no more changes."""


def controller_transactions(
    session: ZkSession, operations: Sequence[Operation | Sequence[Operation]], epoch_version: int
) -> list[TransactionFailed | None]:
    """Make independent changes, pipelined and in order.

    Args:
        session: a started session.
        operations: the changes; the operations of a list are made together or not at all.
        epoch_version: version of `/controller_epoch` since this controller's election.

    Returns:
        for each change None if it was made, else the error.

    Raises:
        ControllerMoved: there is another controller.
        RegistryError: ZooKeeper does not answer; any of the changes may have been made.
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
    """Make sure that this controller was not deposed before the preceding reads.

    Args:
        session: a started session.
        epoch_version: version of `/controller_epoch` since this controller's election.

    Raises:
        ControllerMoved: there is another controller.
        RegistryError: ZooKeeper does not answer.
    """
    controller_transactions(session, [[]], epoch_version)
