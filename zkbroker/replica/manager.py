"""All partitions of which this broker has a replica.

Invariants: roles change only by the controller's requests (see `RoleChanges`) and when a data
directory fails: its partitions go offline, and the controller is notified. Every half lag time each
leader checks its ISR.
"""

import logging
from collections.abc import Callable

from zkbroker.log import LogManager, TopicPartition
from zkbroker.replica.fencing import ControllerFence
from zkbroker.replica.fetcher_manager import FetcherManager
from zkbroker.replica.leadership import LeaderSettings, Leadership
from zkbroker.replica.log_opening import LogOpening
from zkbroker.replica.partition import Partition
from zkbroker.replica.role_changes import (
    ConfigsOfTopics,
    RoleChanges,
    Subscriber,
)
from zkbroker.replica.state_writer import LeaderStateWriter
from zkbroker.runtime import OwnerLoop, Runtime

logger = logging.getLogger(__name__)


class ReplicaManager:
    """The partitions of a broker.

    Args:
        broker_id: this broker.
        logs: the started log manager.
        writer: writes the state of leaders to ZooKeeper.
        fence: shared with the handler of UpdateMetadata.
        topic_settings: reads the settings of topics before their first logs are created.
        runtime: for tasks, locks and its clock.
        settings: of leaderships.
        fetchers: copy the partitions that other brokers lead.
        open_limit: how many logs can be held open.
    """

    def __init__(
        self,
        broker_id: int,
        logs: LogManager,
        writer: LeaderStateWriter,
        fence: ControllerFence,
        topic_settings: ConfigsOfTopics,
        *,
        runtime: Runtime,
        settings: LeaderSettings,
        fetchers: FetcherManager,
        open_limit: Callable[[], int] = lambda: 2**31,
    ) -> None:
        self.broker_id = broker_id
        self._writer = writer
        self._runtime = runtime
        self.opening = LogOpening(broker_id, logs, open_limit)
        """Opens the logs."""
        self.roles = RoleChanges(
            broker_id,
            fence,
            self.opening,
            writer,
            fetchers,
            topic_settings,
            settings,
            runtime=runtime,
        )
        """Carries out the controller's requests."""
        self.partitions = self.roles.partitions
        """The partitions for which the controller has decided, by topic and number."""
        self._stopping = False
        self._check_every_ms = settings.lag_ms / 2
        self._check_due_ms = 0.0
        self._loop = OwnerLoop(runtime, self._check, name="replica-manager", logger=logger)
        self._failed_directories = False
        logs.use_high_watermarks(self.high_watermarks)
        logs.on_offline(self._directory_failed)

    # -- looking up

    def get(self, topic: str, number: int) -> Partition | None:
        """Return a partition; None if the controller has decided nothing for it."""
        return self.partitions.get((topic, number))

    def all(self) -> list[Partition]:
        """Return every partition."""
        return list(self.partitions.values())

    def led(self) -> list[Leadership]:
        """Return the leaderships of this broker."""
        return [each.leading for each in self.all() if each.leading is not None]

    def wait_for(self, key: tuple[str, int], timeout_s: float) -> Partition | None:
        """Wait until the controller has decided for a partition; None when the time is over."""
        until_ms = self._runtime.clock_ms() + timeout_s * 1000
        while (found := self.partitions.get(key)) is None and not self._stopping:
            left_s = (until_ms - self._runtime.clock_ms()) / 1000
            if left_s <= 0:
                break
            self.roles.decided.wait(left_s)
        return found

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """Return every known high watermark, for the checkpoint."""
        return self.opening.checkpointed | {
            each.key: each.high_watermark for each in self.all() if each.has_log
        }

    def subscribe(
        self,
        topic: str,
        lead: Callable[[Leadership], object],
        leave: Callable[[TopicPartition], object],
    ) -> None:
        """Call back when this broker begins to lead partitions of a topic, and when it ends.

        Partitions that it already leads are reported at once. The functions must not wait.
        """
        self.roles.subscribers[topic] = Subscriber(lead, leave)
        for leadership in self.led():
            if leadership.key.topic == topic:
                lead(leadership)

    def on_change(self, function: Callable[[], object]) -> Callable[[], None]:
        """Call back after each LeaderAndIsr; the function must not wait.

        Returns:
            a function that ends the subscription.
        """
        self.roles.listeners.append(function)
        return lambda: self.roles.listeners.remove(function)

    # -- life cycle

    def start(self) -> None:
        """Begin to check ISRs and data directories."""
        self._check_due_ms = self._runtime.clock_ms() + self._check_every_ms
        self._loop.start(self._check_every_ms / 1000)

    def leave(self) -> None:
        """Follow no further partitions: this broker is about to hand over its leaderships and stop.

        Otherwise its successors would admit it to their ISRs for a moment, and then wait for it.
        """
        self.roles.leaving = True

    def close(self, timeout_s: float) -> None:
        """End all roles; waiting requests are woken and fail."""
        self._stopping = True
        self._loop.close(timeout_s)
        self.roles.stop_all()

    def _check(self) -> float:
        """Do what is due; return after how many seconds to check the ISRs."""
        if self._failed_directories:
            self._failed_directories = False
            self.roles.mark_offline()
        clock_ms = self._runtime.clock_ms
        if clock_ms() >= self._check_due_ms:
            self._check_due_ms = clock_ms() + self._check_every_ms
            for leadership in self.led():
                leadership.check_isr()
                self._runtime.sleep(0)
        return max(0.0, (self._check_due_ms - clock_ms()) / 1000)

    def _directory_failed(self, path: str, lost: list[TopicPartition], reason: str) -> None:
        # Called where the error occurred, perhaps in another thread.
        self._failed_directories = True
        self._loop.set()

    def session_renewed(self) -> None:
        """Register all leaderships again: the registrations ended with the old session."""
        self._writer.register(self.led())
