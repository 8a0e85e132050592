"""One owner loop that keeps a member's share of its group.

    wake (watch, state, request) ──> registered in this session? ──no──> register
                                          │
                       read members and partitions, compute the share
                                          │
               the share is what we own ──┴── it is not: stop, commit, release, read again,
               ──> settled                    claim all or nothing, load, start ──> settled
                                                     │ blocked by another owner
                                              watch its node; again when it went,
                                              or after the backoff, with jitter

Invariants: a registered member is settled or on its way to be; it never gives up. Partitions are
owned only in the current session: on LOST the client's own task drops them first, and a claim that
was under way is not used. Changes that arrive during a round cause one more.
"""

import logging
import random as random_module
from collections.abc import Callable, Mapping, Sequence

from zkbroker.errors import ConfigError, RegistryError, ZkbrokerError
from zkbroker.rebalance.assignor import Assignor, Shares, find_assignor, thread_ids
from zkbroker.rebalance.member import GroupMember, Owned, OwnershipListener
from zkbroker.rebalance.store import ZkGroupStore
from zkbroker.registry.groups import STATIC, StreamSubscription
from zkbroker.runtime import Runtime, Task, get_runtime
from zkbroker.types import PartitionKey
from zkbroker.zookeeper import ClaimBlocked, SessionLost, SessionState

logger = logging.getLogger(__name__)

TopicMatch = Callable[[str], bool]
CompileFilter = Callable[[str, str], TopicMatch]

JITTER_S = 0.05


class _Interrupted(Exception):
    """The round is obsolete: closing, or the session or the registration was lost."""


def _no_filters(pattern: str, expression: str) -> TopicMatch:
    raise ConfigError(f"{pattern} {expression!r} cannot be matched here")


class Rebalancer:
    """Keeps a member's share of its group.

    Args:
        store: the group.
        member: owns the partitions that are claimed.
        subscription: of the member.
        strategy: `range`, `roundrobin`, an import path, or an assignor; the same in all members.
        compile_filter: makes a matcher of topic names from a pattern name (`white_list`,
            `black_list`) and its expression, for the filters of all members.
        backoff_ms: how long to wait before another attempt after a failure.
        max_retries: attempts that another owner blocks before a warning is logged.
        listeners: the user's, of rebalances; later additions to it count.
        runtime: of the loop.
        random: the source of jitter.

    Raises:
        ConfigError: there is no such strategy, or the member's own filter is wrong.
    """

    def __init__(
        self,
        store: ZkGroupStore,
        member: GroupMember,
        *,
        subscription: StreamSubscription,
        strategy: str | Assignor = "range",
        compile_filter: CompileFilter = _no_filters,
        backoff_ms: int = 2000,
        max_retries: int = 4,
        listeners: Sequence[OwnershipListener] = (),
        runtime: str | Runtime = "threads",
        random: random_module.Random | None = None,
    ) -> None:
        assign = find_assignor(strategy) if isinstance(strategy, str) else strategy
        if subscription.pattern != STATIC:
            for expression in subscription.streams:
                compile_filter(subscription.pattern, expression)
        self._store = store
        self._session = store.session
        self._member = member
        self._subscription = subscription
        self._assign = assign
        self._compile_filter = compile_filter
        self._matches: dict[tuple[str, str], TopicMatch | None] = {}
        self._backoff_s = backoff_ms / 1000
        self._max_retries = max_retries
        self._blocked = 0
        self._listeners = listeners
        self._runtime = get_runtime(runtime)
        self._random = random or random_module.Random()  # noqa: S311 - jitter, no secret
        self._wake = self._runtime.event()
        self._closing = self._runtime.event()
        self.settled = self._runtime.event()
        """Set while the member owns its whole share, as the group was last read."""
        # Keeps `start` and `drop` apart; nothing waits while it is held.
        self._lock = self._runtime.lock()
        self._owned: dict[PartitionKey, int] = {}
        # Partitions whose owner nodes may be ours, even if the answer to a claim was lost.
        self._held: set[PartitionKey] = set()
        self._running_in: int | None = None
        self._registered_in: int | None = None
        self._unsubscribe: Callable[[], None] = lambda: None
        self._task: Task | None = None
        self.rebalances = 0

    # -- for the connector

    def start(self) -> None:
        """Register the member and start the loop.

        Raises:
            RegistryError: ZooKeeper does not answer.
        """
        self._unsubscribe = self._session.on_state(self._state_changed)
        if self._session.state is SessionState.CONNECTED:
            self._member.resume()
        else:
            self._member.pause()
        try:
            self._register(self._session.generation)
        except RegistryError:
            self._unsubscribe()
            raise
        self._wake.set()
        self._task = self._runtime.spawn(self._run, name="rebalance")

    def close(self, timeout_s: float | None = 10.0) -> bool:
        """Stop, commit, release and leave the group.

        Returns:
            False when it is not finished within `timeout_s`; it continues then.
        """
        self._closing.set()
        self._wake.set()
        return self._task is None or self._task.join(timeout_s)

    def request(self) -> None:
        """Make the loop read the group again."""
        self._wake.set()

    @property
    def owned(self) -> Owned:
        """The partitions owned at the moment."""
        with self._lock:
            return dict(self._owned)

    # -- state of the session; runs in the client's task

    def _state_changed(self, state: SessionState) -> None:
        if state is SessionState.SUSPENDED:
            self._member.pause()
        elif state is SessionState.LOST:
            self.settled.clear()
            with self._lock:
                self._owned = {}
                self._running_in = None
                self._member.drop()
        else:
            self._member.resume()
        self._wake.set()

    # -- the loop

    def _run(self) -> None:
        wait_s: float | None = None
        while not self._closing.is_set():
            self._wake.wait(wait_s)
            self._wake.clear()
            try:
                wait_s = self._round()
            except _Interrupted:
                wait_s = 0.0
            except RegistryError as error:
                logger.warning(
                    "rebalance repeated consumer=%s error=%s", self._store.consumer_id, error
                )
                wait_s = self._backoff()
                if self._session.closed:
                    break
            except Exception:
                logger.exception("rebalance failed consumer=%s", self._store.consumer_id)
                wait_s = self._backoff()
        self._leave()

    def _round(self) -> float | None:
        """Bring the owned partitions in line with the group.

        Returns:
            None when they are, else the seconds after which to try again at the latest.
        """
        generation = self._session.generation
        if self._registered_in != generation:
            # The owner nodes of an earlier session ended with it.
            self._held.clear()
            self._register(generation)
        share = self._share()
        with self._lock:
            unchanged = self._running_in == generation and share == self._owned
        if unchanged:
            self.settled.set()
            return None
        self.settled.clear()
        self.rebalances += 1
        self._stop_and_release(generation)
        self._check(generation)
        share = self._share()
        self._check(generation)
        self._held |= share.keys()
        try:
            self._store.claim(
                {
                    key: f"{self._store.consumer_id}-{number}"
                    for key, number in sorted(share.items())
                }
            )
        except ClaimBlocked as blocked:
            return self._await_owner(blocked)
        except SessionLost:
            self._registered_in = None
            raise
        self._own(generation, share)
        return None

    def _register(self, generation: int) -> None:
        self._store.register(self._subscription)
        self._registered_in = generation

    def _stop_and_release(self, generation: int) -> None:
        with self._lock:
            owned, running = dict(self._owned), self._running_in == generation
        self._member.stop()
        if running:
            self._commit()
            self._notify(lambda listener: listener.before_releasing_partitions(owned))
        with self._lock:
            self._owned = {}
            self._running_in = None
        if self._held and self._session.generation == generation:
            self._store.release(self._held)
            self._held.clear()

    def _own(self, generation: int, share: dict[PartitionKey, int]) -> None:
        self._check(generation)
        self._member.load(share)
        consumer_id = self._store.consumer_id
        self._notify(lambda listener: listener.before_starting_fetchers(consumer_id, share))
        self._check(generation)
        if not self._session.lease_valid():
            # This process stood still since the claim: the session may already be over.
            raise RegistryError("ZooKeeper was not heard for a session timeout")
        with self._lock:
            if self._session.generation != generation:
                raise _Interrupted
            self._owned = dict(share)
            self._running_in = generation
            self._member.start(share)
        self._blocked = 0
        logger.info(
            "rebalance settled consumer=%s partitions=%d rebalances=%d",
            self._store.consumer_id,
            len(share),
            self.rebalances,
        )
        if not self._wake.is_set():
            self.settled.set()

    def _await_owner(self, blocked: ClaimBlocked) -> float:
        self._blocked += 1
        level = logging.WARNING if self._blocked == self._max_retries + 1 else logging.INFO
        logger.log(
            level,
            "rebalance blocked consumer=%s attempts=%d by=%s",
            self._store.consumer_id,
            self._blocked,
            blocked,
        )
        if self._store.still_blocked(blocked, self._wake):
            self._wake.wait(self._backoff())
        # Members that waited for the same node must not all retry at the same moment.
        self._closing.wait(self._random.uniform(0, min(JITTER_S, self._backoff_s)))
        return 0.0

    def _leave(self) -> None:
        self.settled.clear()
        try:
            self._stop_and_release(self._session.generation)
            self._store.unregister()
        except RegistryError as error:
            # The end of the session does the same.
            logger.warning("group not left consumer=%s error=%s", self._store.consumer_id, error)
        except Exception:
            logger.exception("group not left consumer=%s", self._store.consumer_id)
        finally:
            # Last: a session that is lost while leaving must still drop the partitions.
            self._unsubscribe()

    def _check(self, generation: int) -> None:
        if self._closing.is_set() or self._session.generation != generation:
            raise _Interrupted

    def _backoff(self) -> float:
        return self._backoff_s * self._random.uniform(0.5, 1.5)

    def _commit(self) -> None:
        try:
            self._member.commit()
        except (ZkbrokerError, OSError) as error:
            logger.warning("commit failed consumer=%s error=%s", self._store.consumer_id, error)
        except Exception:
            logger.exception("commit failed consumer=%s", self._store.consumer_id)

    def _notify(self, call: Callable[[OwnershipListener], None]) -> None:
        for listener in list(self._listeners):
            try:
                call(listener)
            except Exception:
                # A listener's error must not stop the rebalance, or the other listeners.
                logger.exception("rebalance listener failed")

    # -- the share

    def _share(self) -> dict[PartitionKey, int]:
        """Read the group and compute this member's share.

        Raises:
            _Interrupted: the member is not registered any more.
        """
        members = self._store.subscriptions(self._wake)
        if self._store.consumer_id not in members:
            # Another client removed our registration.
            self._registered_in = None
            raise _Interrupted
        filtered = any(s is not None and s.pattern != STATIC for s in members.values())
        all_topics = self._store.topics(self._wake) if filtered else []
        threads = self._threads(members, all_topics)
        partitions = self._store.partitions(sorted(threads), self._wake)
        self._store.watch_brokers(self._wake)
        return self._own_part(self._assign(partitions, threads))

    def _threads(
        self, members: Mapping[str, StreamSubscription | None], all_topics: list[str]
    ) -> dict[str, list[str]]:
        threads: dict[str, list[str]] = {}
        for consumer_id, subscription in members.items():
            if subscription is None:
                continue
            for name, streams in self._streams(subscription, all_topics).items():
                threads.setdefault(name, []).extend(thread_ids(consumer_id, streams))
        return threads

    def _streams(
        self, subscription: StreamSubscription, all_topics: list[str]
    ) -> Mapping[str, int]:
        if subscription.pattern == STATIC:
            return subscription.streams
        streams: dict[str, int] = {}
        for expression, count in subscription.streams.items():
            match = self._match(subscription.pattern, expression)
            if match is not None:
                streams |= {name: count for name in all_topics if match(name)}
        return streams

    def _match(self, pattern: str, expression: str) -> TopicMatch | None:
        key = (pattern, expression)
        if key not in self._matches:
            try:
                self._matches[key] = self._compile_filter(pattern, expression)
            except (ZkbrokerError, ValueError) as error:
                logger.warning("filter of a member ignored %s=%r error=%s", *key, error)
                self._matches[key] = None
        return self._matches[key]

    def _own_part(self, shares: Shares) -> dict[PartitionKey, int]:
        prefix = self._store.consumer_id + "-"
        own: dict[PartitionKey, int] = {}
        for key, thread_id in shares.items():
            number = thread_id.removeprefix(prefix)
            if thread_id.startswith(prefix) and number.isdecimal():
                own[key] = int(number)
        return own
