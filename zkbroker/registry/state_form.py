"""Which form of partition state a cluster has: ephemeral znodes, or those of genuine brokers.

    /brokers/topics   {"version":1,"partition_state_znodes":"ephemeral"}, or empty

Invariant: all brokers of a cluster keep their decisions in one form. The ephemeral one is noted in
the data of `/brokers/topics`, which genuine brokers never look at; where brokers live without that
note they are genuine, and the form is theirs.
"""

from enum import StrEnum

from zkbroker.errors import RegistryError
from zkbroker.registry import paths
from zkbroker.zookeeper.errors import TransactionFailed
from zkbroker.zookeeper.nodes import SetData
from zkbroker.zookeeper.session import ZkSession


class StateForm(StrEnum):
    """The values of `partition.state.znodes`."""

    EPHEMERAL = "ephemeral"
    PERSISTENT = "persistent"


def declare_form(session: ZkSession, form: StateForm, broker_id: int) -> None:
    """Make sure that every broker of the cluster keeps its decisions in the same form.

    The ephemeral form is noted in the data of `/brokers/topics`, which genuine brokers never look
    at, by the first broker; brokers that live without that note are genuine. To be called before
    the broker registers.

    Raises:
        RegistryError: the cluster has the other form; the message says what to set.
    """
    session.ensure_path(paths.TOPICS)
    session.ensure_path(paths.BROKER_IDS)
    while True:
        data, stat = session.get(paths.TOPICS)
        noted = b"ephemeral" in data
        if noted is (form is StateForm.EPHEMERAL):
            return
        others = sorted(set(session.children(paths.BROKER_IDS)) - {str(broker_id)})
        if others:
            there = StateForm.EPHEMERAL if noted else StateForm.PERSISTENT
            raise RegistryError(
                f"the brokers {', '.join(others)} keep partition state in {there} znodes: set "
                f"partition.state.znodes={there} to join them, or stop them first"
            )
        if _note_form(session, form, stat.version):
            return


def withdraw_form(session: ZkSession) -> None:
    """Take the note back, after the last broker has left persistent nodes behind."""
    data, stat = session.get(paths.TOPICS)
    if data:
        _note_form(session, StateForm.PERSISTENT, stat.version)


def _note_form(session: ZkSession, form: StateForm, version: int) -> bool:
    note = b'{"version":1,"partition_state_znodes":"ephemeral"}'
    try:
        session.transaction(
            [SetData(paths.TOPICS, note if form is StateForm.EPHEMERAL else b"", version)]
        )
    except TransactionFailed:
        return False  # another broker was faster: look again
    return True
