"""Changes that only the controller may make.

Invariant: each is one transaction that checks the version of `/controller_epoch` since this
controller's election, so that a controller that does not know yet that it is deposed changes
nothing.
"""

from collections.abc import Sequence

from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.zookeeper.errors import TransactionFailed
from zkbroker.zookeeper.nodes import Check, Operation
from zkbroker.zookeeper.session import ZkSession


class ControllerMoved(RegistryError):
    """Another controller was elected; this one must not change anything."""


def controller_transactions(
    session: ZkSession, operations: Sequence[Operation | Sequence[Operation]], epoch_version: int
) -> list[TransactionFailed | None]:
    """Make changes, each on its own, in one flight and in order.

    Args:
        session: a started session.
        operations: the changes; those in one list are made together or not at all.
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
    """Make sure that nothing read before this call is a later controller's.

    Args:
        session: a started session.
        epoch_version: version of `/controller_epoch` since this controller's election.

    Raises:
        ControllerMoved: there is another controller.
        RegistryError: ZooKeeper does not answer.
    """
    controller_transactions(session, [[]], epoch_version)
