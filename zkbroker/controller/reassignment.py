"""Moves partitions to other replicas, as /admin/reassign_partitions requests.

    requested --> assignment: old and new replicas; the new ones copy the log
              --> all new ones are in the ISR --> a leader among them --> the old ones are deleted
              --> assignment: the new ones; the partition leaves the node

Invariant: an old replica is stopped only after an ISR with every new replica is stored. The node
keeps every unfinished partition; it is written once for all that finish together.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from zkbroker.controller.context import ControllerContext
from zkbroker.controller.partitions import Partitions
from zkbroker.controller.requests import RequestBatch
from zkbroker.registry.operator_requests import store_reassignment
from zkbroker.registry.partition_states import Key
from zkbroker.registry.topics import replace_assignment
from zkbroker.zookeeper.nodes import Settable
from zkbroker.zookeeper.session import ZkSession

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Reassignment:
    """Moves partitions, and owns `context.reassigning`.

    Call `advance` when an ISR or a broker has changed.

    Args: watch makes the watch for a partition's state.
    """

    session: ZkSession
    context: ControllerContext
    partitions: Partitions
    batch: RequestBatch
    watch: Callable[[Key], Settable]

    def request(self, wanted: Mapping[Key, tuple[int, ...]]) -> None:
        """Begin the node's present request; a partition under way may get other replicas."""
        refused = False
        for key, replicas in wanted.items():
            if self.context.reassigning.get(key) == replicas:
                continue
            reason = self._refusal(key, replicas)
            if reason is not None:
                logger.warning(
                    "reassignment refused partition=%s-%d replicas=%s: %s",
                    *key,
                    list(replicas),
                    reason,
                )
                refused = True
                continue
            self.context.reassigning[key] = replicas
            self._begin(key, replicas)
        self.advance(store=refused or not self.context.reassigning)

    def _refusal(self, key: Key, replicas: tuple[int, ...]) -> str | None:
        if not self.context.replicas(key):
            return "there is no such partition"
        if key[0] in self.context.deleting:
            return "its topic is being deleted"
        if not replicas or len(set(replicas)) != len(replicas):
            return "name at least one broker, and each only once"
        away = [b for b in replicas if b not in self.context.brokers]
        if away and not set(away) <= set(self.context.replicas(key)):
            # Checked only at the beginning: a broker that stops later has a replica and is awaited.
            return f"brokers {away} are not running"
        return None

    def advance(self, *, store: bool = False) -> None:
        """Finish every partition that can.

        Args:
            store: write the node even if nothing finishes.
        """
        finished: dict[Key, tuple[int, ...]] = {}
        for key, replicas in list(self.context.reassigning.items()):
            if not self.context.replicas(key):
                del self.context.reassigning[key]  # its topic is gone
                store = True
            elif self._caught_up(key, replicas) and self._decide(key, replicas):
                finished[key] = replicas
        if finished:
            # Sent before the assignments are stored: if this term ends in between, the next one
            # finds there which replicas are to be stopped.
            self.batch.flush()
        for key, replicas in finished.items():
            self._finish(key, replicas)
        if store or finished:
            store_reassignment(
                self.session, self.context.reassigning, self.partitions.epoch_version, finished
            )

    def states_changed(self, keys: Iterable[Key]) -> None:
        """Read partitions whose states were written, and finish those that can."""
        moving = sorted(key for key in keys if key in self.context.reassigning)
        if moving:
            self._read_and_watch(moving)
            self.advance()

    def broker_joined(self, broker: int) -> None:
        """Send new replicas their partitions again; their broker was away at the beginning."""
        for key, replicas in self.context.reassigning.items():
            if broker in replicas and self.context.states.get(key) is not None:
                self.batch.decided(key, [broker], new=True)
        self.advance()

    def _caught_up(self, key: Key, replicas: tuple[int, ...]) -> bool:
        state = self.context.states.get(key)
        return state is not None and set(replicas) <= set(state.isr)

    def _begin(self, key: Key, replicas: tuple[int, ...]) -> None:
        present = self.context.replicas(key)
        if self._caught_up(key, replicas):
            return
        union = (*present, *(broker for broker in replicas if broker not in present))
        logger.info(
            "reassignment begun partition=%s-%d replicas=%s to=%s",
            *key,
            list(present),
            list(replicas),
        )
        if union != present:
            self._assign(key, union)
        self.partitions.raise_epoch(key)
        if key in self.context.states:
            online = self.context.online_replicas(key)
            self.batch.decided(key, [b for b in online if b in present])
            self.batch.decided(key, [b for b in online if b not in present], new=True)
        self.batch.metadata([key])
        self._read_and_watch([key])

    def _read_and_watch(self, keys: list[Key]) -> None:
        # Watch before reading, so that no change is missed in between.
        watched = [self.partitions.states.watched(key) for key in keys]
        self.session.exists_many(watched, [self.watch(key) for key in keys])
        self.partitions.read_again(keys)

    def _decide(self, key: Key, replicas: tuple[int, ...]) -> bool:
        """Store the decision for the new replicas alone, and stop the others; False if it waits."""
        present = self.context.replicas(key)
        dropped = tuple(broker for broker in present if broker not in replicas)
        if dropped or present != replicas:
            if not self.partitions.elect_among(key, replicas, dropped):
                logger.warning(
                    "reassignment waits partition=%s-%d: a new replica is not in sync, or none may "
                    "lead",
                    *key,
                )
                return False
            online = self.context.online_replicas(key, replicas)
            self.batch.decided(key, online, replicas=replicas)
            self.batch.stop(key, dropped, delete=False)
            self.batch.stop(key, dropped, delete=True)
        return True

    def _finish(self, key: Key, replicas: tuple[int, ...]) -> None:
        if self.context.replicas(key) != replicas:
            self._assign(key, replicas)
        del self.context.reassigning[key]
        self.batch.metadata([key])
        logger.info("reassignment done partition=%s-%d replicas=%s", *key, list(replicas))

    def _assign(self, key: Key, replicas: tuple[int, ...]) -> None:
        self.context.assignments[key[0]] = replace_assignment(
            self.session, key[0], {key[1]: replicas}, self.partitions.epoch_version
        )
