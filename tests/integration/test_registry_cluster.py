import threading

from tests.support.zookeeper import expire, until
from zkbroker.registry import paths
from zkbroker.registry.controller_election import (
    ControllerElection,
    controller_epoch,
)
from zkbroker.registry.producer_ids import ProducerIds, claim_block, raise_above
from zkbroker.zookeeper import ZkSession


def register(session: ZkSession, broker_id: int) -> None:
    session.create(paths.broker(broker_id), ephemeral=True, parents=True)


def test_producer_ids_are_unique_in_the_cluster(zk: ZkSession, chroot: str) -> None:
    with ZkSession(chroot) as other:
        supplies = [ProducerIds(zk, 0), ProducerIds(other, 1)]
        taken: list[int] = []

        def take(supply: ProducerIds) -> None:
            taken.extend([supply.next_id() for _ in range(1500)])

        tasks = [threading.Thread(target=take, args=(s,)) for s in supplies for _ in range(2)]
        for task in tasks:
            task.start()
        for task in tasks:
            task.join()
    assert len(taken) == len(set(taken)) == 6000


def test_controller_is_elected_again_with_new_epoch_after_lost_session(zk: ZkSession) -> None:
    elected: list[int] = []
    election = ControllerElection(zk, 1, on_elected=elected.append)
    register(zk, 1)
    election.start()
    expire(zk)
    until(lambda: not election.is_controller)
    assert elected == [1]
    assert zk.wait_connected(30)
    register(zk, 1)
    until(lambda: len(elected) == 2)
    assert election.is_controller
    assert elected == [1, 2]
    election.close()


def test_controller_node_of_own_dead_session_is_replaced(zk: ZkSession, chroot: str) -> None:
    with ZkSession(chroot) as predecessor, ZkSession(chroot) as other:
        first = ControllerElection(predecessor, 1)
        register(predecessor, 1)
        first.start()
        register(other, 2)
        rival = ControllerElection(other, 2)
        rival.start()
        second = ControllerElection(zk, 1)
        second.start()
        assert not second.is_controller, "its id is not registered by this session"
        predecessor.delete(paths.broker(1))
        register(zk, 1)
        until(lambda: second.is_controller)
        assert controller_epoch(zk) == 2
        assert not rival.is_controller
        first._loop.close()
        second.close()
        until(lambda: rival.is_controller)
        rival.close()


def test_controller_is_elected_again_after_node_is_deleted(zk: ZkSession, chroot: str) -> None:
    resigned: list[int] = []
    election = ControllerElection(zk, 1, on_resigned=lambda: resigned.append(1))
    register(zk, 1)
    election.start()
    with ZkSession(chroot) as other:
        other.delete(paths.CONTROLLER)
        until(lambda: controller_epoch(other) == 2)
    until(lambda: election.is_controller)
    assert resigned == [1]
    election.close()


def test_producer_ids_found_in_logs_are_not_given_out(zk: ZkSession) -> None:
    raise_above(zk, 3, -1)
    assert zk.exists(paths.PRODUCER_ID_BLOCK) is None
    raise_above(zk, 3, 4711)
    assert claim_block(zk, 3) == range(4712, 5712)
    raise_above(zk, 3, 5711)
    assert claim_block(zk, 3) == range(5712, 6712)
    # An id below the claimed blocks changes nothing.
    raise_above(zk, 3, 6711)
    raise_above(zk, 3, 17)
    assert claim_block(zk, 3) == range(6712, 7712)
