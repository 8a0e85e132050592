"""Compares the logs on a broker's disks with the cluster's state, before the broker registers.

Invariants: a broker never leads with an empty log in place of a lost one; leader epochs continue
above those in its logs.
"""

import logging

from zkbroker.broker.services import BrokerServices
from zkbroker.errors import RegistryError
from zkbroker.log import TopicPartition
from zkbroker.registry.notifications import note_isr_changes
from zkbroker.registry.partition_states import PartitionStates

logger = logging.getLogger(__name__)

EPOCH_ATTEMPTS = 5


def look_for_lost_logs(services: BrokerServices, states: PartitionStates) -> None:
    """Refuse to lead partitions whose logs were lost; if there are none, mark the directories.

    A replica in sync has all acknowledged messages. If its data directory is new and has no log, it
    has lost them: as leader, it would make the others truncate their logs to nothing. If others are
    in sync, it leaves the ISR, even as the stored leader, and copies the log like any follower.

    Raises:
        RegistryError: ZooKeeper does not answer.
        StorageError: no data directory can be written.
    """
    logs = services.logs
    new = logs.new_directories
    if not new:
        return
    assigned = [
        (topic, number)
        for topic, assignment in services.view.topics.assignments.items()
        for number, replicas in assignment.items()
        if services.broker_id in replicas and logs.get(TopicPartition(topic, number)) is None
    ]
    lost = states.leave_isrs(services.broker_id, assigned)
    # The controller informs the leaders, which otherwise still count this broker as in sync.
    note_isr_changes(services.session, assigned)
    if not lost.last and not lost.others:
        logs.write_meta(services.broker_id, services.view.cluster_id)
        return
    # The directories get no meta.properties, so that the next start checks again.
    services.replicas.opening.refuse_to_lead(lost.last, lost.others)
    if lost.last:
        logger.error(
            "logs lost count=%d first=%s-%d: %s had no meta.properties, and ZooKeeper names this "
            "broker alone in sync for them; it leads none of them",
            len(lost.last),
            *min(lost.last),
            ", ".join(new),
        )
    if lost.others:
        logger.warning(
            "logs missing count=%d first=%s-%d: %s had no meta.properties; they are copied from "
            "the replicas in sync",
            len(lost.others),
            *min(lost.others),
            ", ".join(new),
        )


def raise_epochs(services: BrokerServices, states: PartitionStates) -> None:
    """Raise leader epochs in ZooKeeper above those in the logs.

    Logs from another cluster may have epochs that this cluster does not know. Otherwise only
    controllers raise epochs.

    Raises:
        RegistryError: ZooKeeper does not answer.
    """
    logs = {(tp.topic, tp.partition): log for tp, log in services.logs.logs().items()}
    assignments = services.view.topics.assignments
    here = [
        (topic, number)
        for topic, number in logs
        if services.broker_id in assignments.get(topic, {}).get(number, ())
    ]
    floors = {key: floor for key in here if (floor := logs[key].epochs.latest) >= 0}
    for attempts_left in reversed(range(EPOCH_ATTEMPTS)):
        try:
            states.raise_epochs(floors)
        except RegistryError as error:
            if not attempts_left:
                raise
            # A controller decided at the same moment.
            logger.info("leader epochs will be checked again error=%s", error)
        else:
            return
