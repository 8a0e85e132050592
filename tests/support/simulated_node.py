"""A broker of a simulated cluster, composed of real parts as a `BrokerNode` composes them.

Real: the replica manager with its partitions, fetchers and truncation, the writer of ISRs, the
controller with its election and channels, the fence, the view, and the handlers of requests between
brokers. Simulated: disk, clock, network, ZooKeeper session, and the registration, which reads the
addresses of the machine in a real broker.
"""

import os
from typing import TYPE_CHECKING, Any

from tests.support.simulated_logs import Disk, SimLogs, decode, encode
from tests.support.simulated_network import SimContext
from tests.support.simulated_real_logs import (
    RealDisk,
    RealLogs,
    decode_batches,
    encode_values,
    materialise,
)
from tests.support.simulated_session import SimSession
from tests.support.simulated_time import Process
from zkbroker.broker.errors import error_code
from zkbroker.broker.handlers.fetch import FetchHandler
from zkbroker.broker.handlers.list_offsets import ListOffsetsHandler
from zkbroker.broker.handlers.replication import ReplicationHandlers
from zkbroker.broker.metrics import BrokerMetrics
from zkbroker.broker.services import BrokerServices
from zkbroker.broker.view import ClusterView
from zkbroker.controller.controller import Controller
from zkbroker.errors import RegistryError, ZkbrokerError
from zkbroker.log import TopicPartition
from zkbroker.protocol import ApiKey
from zkbroker.protocol.messages import MESSAGES, ControlledShutdownRequest
from zkbroker.registry import paths
from zkbroker.registry.brokers import BrokerInfo
from zkbroker.registry.controller_election import current_controller
from zkbroker.registry.notifications import note_isr_changes
from zkbroker.registry.partition_states import PartitionStates
from zkbroker.registry.state_form import StateForm
from zkbroker.registry.topics_watch import TopicsView
from zkbroker.replica.acknowledgement import Unacknowledged, wait_for_acks
from zkbroker.replica.fencing import ControllerFence
from zkbroker.replica.fetcher_manager import FetcherManager
from zkbroker.replica.fetching import FetcherSettings
from zkbroker.replica.leadership import LeaderSettings, Leadership
from zkbroker.replica.manager import ReplicaManager
from zkbroker.replica.partition import Partition
from zkbroker.replica.state_writer import LeaderStateWriter
from zkbroker.zookeeper import Create, Delete, NodeExists, SessionState, TransactionFailed

if TYPE_CHECKING:
    from tests.support.simulated_cluster import SimCluster

LAG_MS = 1500
CONTROLLER_TIMEOUT_S = 1.5
FETCH_TIMEOUT_S = 1.5
FETCH_WAIT_MS = 500
ACKS_TIMEOUT_S = 3.0
RETRY_S = 0.3
TOPICS = ("t", "d")


class SimNode:
    """One process of a broker, from its start to its end."""

    def __init__(self, cluster: "SimCluster", broker_id: int, disk: Disk | RealDisk) -> None:
        self.cluster = cluster
        self.id = broker_id
        self.disk = disk
        self.process = Process(f"broker {broker_id}")
        random = cluster.random
        # The clocks of two brokers differ, and their rates differ by some percent.
        rate, start_s = random.uniform(0.9, 1.1), random.randrange(10**6)
        self.session = SimSession(cluster.server, self.process)
        self.runtime = self.session.runtime
        self.runtime.rate, self.runtime.start_s = rate, start_s
        self.stopping = False
        self.broker_epoch: int | None = None
        self._take_over = random.random() < 0.5
        states = self._states = PartitionStates(self.session, cluster.form)  # type: ignore[arg-type]
        settings = {
            "min_insync_replicas": cluster.min_insync_replicas,
            "flush_messages": cluster.flush_messages,
        }
        self._logs: Any = (
            SimLogs(disk, broker_id, self.runtime, random, cluster.checker, **settings)
            if isinstance(disk, Disk)
            else RealLogs(
                disk,
                broker_id,
                self.runtime,
                random,
                cluster.checker,
                now_ms=self.runtime.now_ms,
                **settings,
            )
        )
        self.writer = LeaderStateWriter(
            self.session,  # type: ignore[arg-type]
            states,
            broker_id,
            runtime=self.runtime,  # type: ignore[arg-type]
        )
        fence = ControllerFence(lambda: self.broker_epoch)
        fetchers = FetcherManager(
            broker_id,
            lambda leader, number: cluster.network.connect(
                broker_id, self.runtime, leader, FETCH_TIMEOUT_S
            ),
            FetcherSettings(max_wait_ms=FETCH_WAIT_MS, backoff_ms=400),
            runtime=self.runtime,  # type: ignore[arg-type]
        )
        self.replicas = ReplicaManager(
            broker_id,
            self._logs,
            self.writer,
            fence,
            lambda topics: {},
            runtime=self.runtime,  # type: ignore[arg-type]
            settings=LeaderSettings(
                lag_ms=LAG_MS,
                isr_proposed=self.writer.propose,
                epochs_may_fall=cluster.form is StateForm.PERSISTENT,
            ),
            fetchers=fetchers,
        )
        own = cluster.infos[broker_id]
        view = ClusterView(own)
        view.set_brokers(cluster.infos)
        assignments = {topic: cluster.assignment(topic) for topic in TOPICS}
        view.set_topics(TopicsView(assignments, {}, frozenset()))
        config: Any = cluster.config(broker_id)
        self.controller = Controller(
            config,
            self.session,  # type: ignore[arg-type]
            states,
            broker_id,
            lambda info: cluster.network.connect(
                broker_id, self.runtime, info.id, CONTROLLER_TIMEOUT_S
            ),
            view.last_led_by_others,
        )
        nothing: Any = None
        services = BrokerServices(
            config=config,
            dynamic=nothing,
            broker_id=broker_id,
            runtime=self.runtime,  # type: ignore[arg-type]
            session=nothing,
            logs=self._logs,
            view=view,
            replicas=self.replicas,
            fetchers=fetchers,
            topics=nothing,
            metrics=BrokerMetrics(10),
            clients=nothing,
            dialing=nothing,
            controller_id=lambda: None,
            draining=False,
        )
        self._handlers: dict[ApiKey, Any] = {
            ApiKey.FETCH: FetchHandler(services),
            ApiKey.LIST_OFFSETS: ListOffsetsHandler(services),
            **ReplicationHandlers(services, fence, self.controller, self._learn_epoch).all(),
        }
        for topic in TOPICS:
            self.replicas.subscribe(topic, self._report_leadership, lambda key: None)
        self._changed = self.runtime.event()
        self.session.on_state(lambda state: self._changed.set())
        self.runtime.spawn(self._keep_registered, name="registration")

    @property
    def alive(self) -> bool:
        return not self.process.dead

    def partition(self, key: TopicPartition) -> Partition | None:
        return self.replicas.get(*key)

    def _report_leadership(self, leadership: Leadership) -> None:
        self.cluster.checker.leadership_began(self, leadership)

    # -- registration

    def _keep_registered(self) -> None:
        registered: int | None = None
        lost_logs_found = started = controller_started = False
        while not self.stopping:
            self._changed.clear()
            try:
                if not lost_logs_found:
                    self._find_lost_logs()
                    lost_logs_found = True
                if registered != self.session.session_id:
                    self._register()
                    registered = self.session.session_id
                if not started:
                    started = True
                    self.writer.start()
                    self.replicas.start()
                if not controller_started:
                    self.controller.start()
                    controller_started = True
            except RegistryError:
                self.runtime.sleep(RETRY_S)
                continue
            if self.session.state is SessionState.CONNECTED:
                self._changed.wait()
            else:
                self._changed.wait(RETRY_S)

    def _find_lost_logs(self) -> None:
        """Leave the ISRs of logs that were lost with a directory, as a real broker does."""
        if not self.disk.new:
            return
        assigned = [
            (key.topic, key.partition)
            for key in self.cluster.keys
            if self.id in self.cluster.assignment(key.topic)[key.partition]
            and self._logs.get(key) is None
        ]
        lost = self._states.leave_isrs(self.id, assigned)
        note_isr_changes(self.session, assigned)  # type: ignore[arg-type]
        if lost.last or lost.others:
            self.cluster.checker.record_event(f"{self.id} has lost {lost}")
            self.replicas.opening.refuse_to_lead(lost.last, lost.others)
        else:
            self.disk.new = False

    def _register(self) -> None:
        path = paths.broker(self.id)
        data = self.cluster.infos[self.id].to_json()
        session = self.session
        while True:
            try:
                session.create(path, data, ephemeral=True)
                break
            except NodeExists:
                stat = session.exists(path)
            if stat is None:
                continue
            if stat.ephemeral_owner == session.session_id:
                break
            if self._take_over:
                # The lock of the data directory proves that the previous process is dead.
                try:
                    session.transaction(
                        [Delete(path, stat.version), Create(path, data, ephemeral=True)]
                    )
                    break
                except TransactionFailed:
                    continue
            self.runtime.sleep(RETRY_S)
        self._read_epoch()
        self.replicas.session_renewed()

    def _read_epoch(self) -> None:
        stat = self.session.exists(paths.broker(self.id))
        if stat is not None and stat.ephemeral_owner == self.session.session_id:
            self.broker_epoch = stat.czxid

    def _learn_epoch(self, requested: int) -> None:
        if self.broker_epoch is None or requested > self.broker_epoch:
            try:
                self._read_epoch()
            except RegistryError:
                pass

    # -- disk

    def ended(self, *, power: bool = False) -> None:
        """The process has ended, or its machine has lost power."""
        if isinstance(self._logs, RealLogs):
            self._logs.release()
        if power:
            self.disk.cut_power(self.cluster.random)
        elif isinstance(self.disk, RealDisk):
            self.disk.end_process()

    def write_back(self) -> None:
        """Write back the disk's caches, as the operating system eventually does."""
        self.disk.flush()

    def close_logs(self) -> None:
        """Flush and close the logs at the end of a clean stop."""
        if isinstance(self._logs, RealLogs):
            self._logs.close()
            return
        self.disk.high_watermarks = dict(self.replicas.high_watermarks())
        self.disk.flush()

    def fail_disk(self, directory: int) -> None:
        self._logs.fail(directory)

    def delete_records(self, key: TopicPartition) -> None:
        """Delete the records below the high watermark, as DeleteRecords does."""
        partition = self.partition(key)
        leading = None if partition is None else partition.leading
        if leading is None:
            return
        self.cluster.checker.record_event(
            f"{self.id} deletes records of {key} before {leading.high_watermark}"
        )

        def delete() -> None:
            try:
                self.cluster.checker.records_deleted(key, leading.high_watermark)
                leading.delete_records_before(-1)
            except ZkbrokerError:
                return

        self.runtime.spawn(delete, name="delete records")

    # -- controlled shutdown

    def stop(self) -> None:
        """Hand over all leaderships and end the process; one that is starting just ends."""
        self.stopping = True
        self.runtime.spawn(self._stop, name="stop")

    def _stop(self) -> None:
        epoch = self.broker_epoch
        try:
            chosen = None if epoch is None else current_controller(self.session)  # type: ignore[arg-type]
            if chosen == self.id and epoch is not None:
                self.controller.controlled_shutdown(self.id, epoch, CONTROLLER_TIMEOUT_S)
            elif chosen is not None and epoch is not None:
                connection = self.cluster.network.connect(
                    self.id, self.runtime, chosen, CONTROLLER_TIMEOUT_S
                )
                connection.send(ControlledShutdownRequest(self.id, epoch), 2)
                connection.close()
        except ZkbrokerError:
            pass
        self.cluster.stopped(self)

    # -- requests

    def serve(self, request: Any, context: SimContext) -> Any:
        """Answer a request, as the dispatcher would."""
        try:
            answer = self._handlers[request.api_key](request, context)
            return answer if isinstance(self.disk, Disk) else materialise(answer)
        except ZkbrokerError as error:
            response = MESSAGES[request.api_key][1]()
            response.error_code = error_code(error)
            return response

    def produce(self, key: TopicPartition, values: list[int], acks: int) -> None:
        """Append and wait for acks as a Produce request does; needs its own task."""
        partition = self.partition(key)
        if partition is None:
            return
        try:
            data = (
                encode(0, [(0, value) for value in values])
                if isinstance(self.disk, Disk)
                else encode_values(values)
            )
            leadership = partition.leadership()
            last_offset = leadership.append(data, acks=acks).last_offset
            if not isinstance(self.disk, Disk):
                self.cluster.checker.appended(key, self.id, leadership.leader_epoch)
            (error,) = wait_for_acks(
                [Unacknowledged(leadership, last_offset)],
                acks,
                ACKS_TIMEOUT_S,
                runtime=self.runtime,  # type: ignore[arg-type]
                park=lambda wake: SimContext(0).park(wake),
            )
        except ZkbrokerError:
            return
        if error is None and acks == -1:
            self.cluster.checker.acknowledged(
                self, leadership, last_offset - len(values) + 1, values
            )

    def consume(self, key: TopicPartition, offset: int) -> None:
        """Read as a consumer does."""
        partition = self.partition(key)
        if partition is None:
            return
        try:
            read = partition.leadership().read(offset, 10**6)
        except ZkbrokerError:
            return
        found: Any = read.found.slice
        if found is not None:
            if isinstance(self.disk, Disk):
                seen = decode(found)
            else:
                seen = decode_batches(os.pread(found.fd, found.size, found.position))
                found.close()
            for at, _, value in seen:
                self.cluster.checker.consumed(self, key, at, value)


def info(broker_id: int) -> BrokerInfo:
    return BrokerInfo(broker_id, "h", 9000 + broker_id)
