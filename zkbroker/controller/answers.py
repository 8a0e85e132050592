"""Brokers' answers to LeaderAndIsr and UpdateMetadata.

Invariant: an answer decides nothing. It changes the controller's state and sets a signal; the term
decides when it handles that signal.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from zkbroker.controller.context import ControllerContext
from zkbroker.errors import ErrorCode
from zkbroker.registry.controller_writes import ControllerMoved
from zkbroker.registry.partition_states import Key
from zkbroker.zookeeper.nodes import Settable

logger = logging.getLogger(__name__)

Answered = Callable[[int, Any], object]
"""Called with the broker and its answer, in the controller's task."""


@dataclass(slots=True)
class BrokerAnswers:
    """Takes answers, in the controller's task.

    Args:
        on_refused: set when a broker refused a request.
        on_offline: set when a broker reported offline replicas.
    """

    context: ControllerContext
    on_refused: Settable
    on_offline: Settable
    refused: set[int] = field(init=False, default_factory=set)
    """Brokers that refused a request and need all state again."""
    _offline: dict[int, dict[Key, None]] = field(init=False, default_factory=dict)

    def leader_and_isr(self, broker: int, response: Any) -> None:
        """Note which replicas of a broker are offline.

        Raises:
            ControllerMoved: the broker knows a later controller.
        """
        if self._is_refusal("LeaderAndIsr", broker, response):
            return
        offline: dict[Key, None] = {}
        for item in response.partitions:
            key = (item.topic, item.partition)
            if item.error_code == ErrorCode.KAFKA_STORAGE_ERROR:
                offline[key] = None
                self.context.offline_replicas.add((key, broker))
            else:
                self.context.offline_replicas.discard((key, broker))
        if offline:
            logger.warning("replicas offline broker=%d partitions=%d", broker, len(offline))
            self._offline.setdefault(broker, {}).update(offline)
            self.on_offline.set()

    def update_metadata(self, broker: int, response: Any) -> None:
        """Note a refusal.

        Raises:
            ControllerMoved: the broker knows a later controller.
        """
        self._is_refusal("UpdateMetadata", broker, response)

    def _is_refusal(self, api: str, broker: int, response: Any) -> bool:
        if response.error_code == ErrorCode.STALE_CONTROLLER_EPOCH:
            raise ControllerMoved(f"broker {broker} knows a later controller")
        if response.error_code == ErrorCode.NONE:
            return False
        logger.warning("%s refused broker=%d error=%d", api, broker, response.error_code)
        self.note_refused(broker)
        return True

    def note_refused(self, broker: int) -> None:
        """Note that a broker refused a request as a whole.

        Most likely its registration differs from the known one. A broker that registered again gets
        all state then; another gets it after a pause, see `ControllerTerm.resend_refused`.
        """
        self.refused.add(broker)
        self.on_refused.set()

    def take_refused(self) -> set[int]:
        """Return the brokers that refused a request, and forget them."""
        refused, self.refused = self.refused, set()
        return refused

    def take_offline(self) -> dict[int, list[Key]]:
        """Return the replicas reported offline since the last call, by broker."""
        found, self._offline = self._offline, {}
        return {broker: list(keys) for broker, keys in found.items()}

    def forget(self, brokers: set[int]) -> None:
        """Forget the answers of brokers whose registration is over."""
        self.refused -= brokers
        for broker in brokers:
            self._offline.pop(broker, None)
        self.context.offline_replicas = {
            each for each in self.context.offline_replicas if each[1] not in brokers
        }
