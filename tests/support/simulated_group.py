"""A group of consumers on the virtual clock, with random faults and the rules that must hold.

The seed decides a schedule: consumers join, leave, crash, freeze, and lose their connections;
brokers start and stop, topics grow, ZooKeeper fails. At the end the group must settle.
"""

import random as random_module

from tests.support.simulated_session import SimSession
from tests.support.simulated_time import Clock, Process, SimRuntime
from tests.support.simulated_zookeeper import SimZooKeeper
from zkbroker.rebalance import ASSIGNORS, Owned, Rebalancer, ZkGroupStore, thread_ids
from zkbroker.registry import topics
from zkbroker.registry.groups import StreamSubscription
from zkbroker.zookeeper import SessionState

SESSION_TIMEOUT_S = 6.0
BACKOFF_MS = 2000
DISTURBED_S = 12.0
REST_S = 240.0
MAX_ROUNDS = 60


class SimConsumer:
    """A consumer process: a session, a rebalancer, and the member that the rebalancer calls."""

    def __init__(self, group: "SimGroup", number: int, streams: dict[str, int]) -> None:
        self.group = group
        self.id = f"g_host{number:02d}-{group.random.randrange(10**6)}"
        self.streams = streams
        self.process = Process(self.id)
        self.session = SimSession(group.server, self.process)
        self.owned: dict[tuple[str, int], int] = {}
        self.paused = False
        self.leaving = False
        self.left = False
        self.rounds_before = 0
        self.rebalancer = group.rebalancer(
            ZkGroupStore(self.session, "g", self.id),  # type: ignore[arg-type]
            self,
            subscription=StreamSubscription(streams),
            strategy=group.strategy,
            backoff_ms=BACKOFF_MS,
            runtime=SimRuntime(group.clock, self.process),  # type: ignore[arg-type]
            random=random_module.Random(group.random.random()),
        )
        group.clock.spawn(self.process, self._begin)

    def _begin(self) -> None:
        while True:
            try:
                self.rebalancer.start()
                return
            except Exception:  # noqa: BLE001 - an application would retry, too
                self.group.clock.sleep(self.process, 0.5)

    def leave(self) -> None:
        self.leaving = True
        self.group.clock.spawn(self.process, self._leave)

    def _leave(self) -> None:
        self.rebalancer.close(30)
        self.session.close()
        self.owned = {}
        self.left = True

    # -- the member

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    def drop(self) -> None:
        self.owned = {}

    def stop(self) -> None:
        self._take_time()
        self.owned = {}

    def commit(self) -> None:
        self._take_time()

    def load(self, owned: Owned) -> None:
        self._take_time()

    def start(self, owned: Owned) -> None:
        self.owned = dict(owned)
        self.group.check_exclusive(self)

    def _take_time(self) -> None:
        random = self.group.random
        if random.random() < 0.3:
            self.group.clock.sleep(self.process, random.uniform(0, 0.3))

    @property
    def knows_session_state(self) -> bool:
        """Whether the client's view of the session's end is that of the server."""
        return self.session.alive_at_server or self.session.state is SessionState.LOST


class SimGroup:
    """One schedule."""

    def __init__(self, seed: int, rebalancer: type[Rebalancer] = Rebalancer) -> None:
        self.rebalancer = rebalancer
        self.random = random_module.Random(seed)
        self.clock = Clock()
        self.server = SimZooKeeper(self.clock, self.random, SESSION_TIMEOUT_S)
        self.strategy = "roundrobin" if self.random.random() < 0.25 else "range"
        self.problems: list[str] = []
        self.consumers: list[SimConsumer] = []
        self.brokers: set[int] = set()
        self.created = 0
        self.counts = {"t": 1 + int(40 * self.random.random() ** 2)}
        if self.random.random() < 0.3:
            self.counts["u"] = self.random.randint(1, 10)
        for name, count in self.counts.items():
            self.server.create(
                f"/brokers/topics/{name}",
                topics.encode_assignment({n: [1] for n in range(count)}),
                parents=True,
            )
        self.server.create("/brokers/ids", parents=True)
        self.server.answers_lost = self.random.choice((0.0, 0.03, 0.1))
        self.server.on_answer_lost = self._cut
        # Small groups are more frequent than large ones: they show the same faults faster.
        self.max_members = 2 + int(11 * self.random.random() ** 2)
        self.quiet_from_s = 0.0
        self.settle_s = 0.0
        self.settle_rounds = 0

    # -- events

    def join(self) -> None:
        if len(self.live()) < self.max_members:
            self.created += 1
            streams = {"t": self.random.choice((1, 1, 1, 2, 3))}
            if "u" in self.counts and self.random.random() < 0.7:
                streams["u"] = 1
            self.consumers.append(SimConsumer(self, self.created, streams))

    def live(self) -> list[SimConsumer]:
        return [c for c in self.consumers if not c.process.dead and not c.leaving]

    def apply_random_event(self) -> None:
        random = self.random
        self._extend_disturbance(0.0)
        action = random.choices(
            ("join", "leave", "crash", "freeze", "cut", "broker", "grow", "outage"),
            (5, 3, 2, 4, 4, 1, 1, 0.3),
        )[0]
        live = self.live()
        match action:
            case "join":
                self.join()
            case "broker":
                broker = random.randrange(4)
                if broker in self.brokers:
                    self.server.delete(f"/brokers/ids/{broker}")
                else:
                    self.server.create(f"/brokers/ids/{broker}", b"{}")
                self.brokers ^= {broker}
            case "grow":
                name = random.choice(sorted(self.counts))
                self.counts[name] += random.randint(1, 3)
                self.server.set(
                    f"/brokers/topics/{name}",
                    topics.encode_assignment({n: [1] for n in range(self.counts[name])}),
                )
            case "outage":
                seconds = random.uniform(0.1, 2 * SESSION_TIMEOUT_S)
                self._extend_disturbance(seconds)
                for consumer in self.consumers:
                    if not consumer.process.dead:
                        consumer.session.break_link(seconds)
            case _ if live:
                self._harm_member(action, random.choice(live))

    def _extend_disturbance(self, seconds: float) -> None:
        self.quiet_from_s = max(self.quiet_from_s, self.clock.now + seconds)

    def _cut(self, session: SimSession) -> None:
        seconds = self.random.uniform(0, SESSION_TIMEOUT_S)
        self._extend_disturbance(seconds)
        session.break_link(seconds)

    def _harm_member(self, action: str, consumer: SimConsumer) -> None:
        random = self.random
        seconds = random.choice((random.uniform(0, 2), random.uniform(0, 3 * SESSION_TIMEOUT_S)))
        match action:
            case "leave":
                consumer.leave()
            case "crash":
                consumer.session.kill()
                # ZooKeeper keeps its session for that long.
                self._extend_disturbance(SESSION_TIMEOUT_S)
            case "cut":
                self._extend_disturbance(seconds)
                consumer.session.break_link(seconds)
            case "freeze" if not consumer.process.frozen:
                self._extend_disturbance(seconds)
                consumer.session.freeze(seconds)

    # -- rules

    def check_exclusive(self, starter: SimConsumer) -> None:
        """Check that no other consumer owns the partitions that one starts to consume.

        A consumer whose session has expired unnoticed, and whose lease is over, delivers nothing
        and does not count.
        """
        for other in self.consumers:
            if other is starter or other.process.dead or other.left:
                continue
            both = other.owned.keys() & starter.owned.keys()
            if both and (other.knows_session_state or other.session.lease_valid()):
                self.problems.append(
                    f"{self.clock.now:.3f}: {starter.id} and {other.id} own {sorted(both)}"
                )

    def owners(self) -> dict[tuple[str, int], str]:
        found = {}
        for path, node in self.server.nodes.items():
            parts = path.split("/")
            if len(parts) == 6 and parts[3] == "owners":
                found[parts[4], int(parts[5])] = node.data.decode()
        return found

    def expected(self) -> dict[tuple[str, int], str]:
        threads: dict[str, list[str]] = {}
        for consumer in self.live():
            for name, count in consumer.streams.items():
                threads.setdefault(name, []).extend(thread_ids(consumer.id, count))
        partitions = {name: range(self.counts[name]) for name in threads}
        return ASSIGNORS[self.strategy](partitions, threads)

    def settled(self) -> bool:
        live = self.live()
        if any(not consumer.rebalancer.settled.is_set() or consumer.paused for consumer in live):
            return False
        if any(f"/consumers/g/ids/{consumer.id}" not in self.server.nodes for consumer in live):
            return False
        if any(c.leaving and not (c.left or c.process.dead) for c in self.consumers):
            return False
        owned = {
            key: f"{consumer.id}-{number}"
            for consumer in live
            for key, number in consumer.owned.items()
        }
        everything = {
            (name, number)
            for name, count in self.counts.items()
            for number in range(count)
            if any(name in consumer.streams for consumer in live)
        }
        owners = self.owners()
        return owners.keys() == everything and owned == owners == self.expected()

    # -- the run

    def run(self) -> list[str]:
        """Run the schedule, and return every broken rule."""
        for _ in range(self.random.randint(1, self.max_members)):
            self.join()
        disturbed_until_s = self.random.uniform(2.0, DISTURBED_S)
        pace = self.random.choice((0.5, 1.5, 4.0))
        while self.clock.now < disturbed_until_s:
            self.clock.run(self.clock.now + self.random.expovariate(1 / pace))
            self.apply_random_event()
        if not self.live():
            self.join()
        self.server.answers_lost = 0.0
        self._extend_disturbance(0.0)
        self.clock.run(self.quiet_from_s)
        healed = self.clock.now
        for consumer in self.consumers:
            consumer.rounds_before = consumer.rebalancer.rebalances
        if not self.clock.run(healed + REST_S, self.settled):
            self.problems.append(f"not settled {REST_S:g} s after the last fault: {self._state()}")
        self.settle_s = self.clock.now - healed
        self.settle_rounds = max(
            consumer.rebalancer.rebalances - consumer.rounds_before for consumer in self.live()
        )
        if self.settle_rounds > MAX_ROUNDS:
            self.problems.append(f"{self.settle_rounds} rounds to settle")
        # A rebalance that has begun already may cost one more round.
        self.clock.run(self.clock.now + SESSION_TIMEOUT_S)
        # After that no member may rebalance any more.
        counts = [consumer.rebalancer.rebalances for consumer in self.live()]
        self.clock.run(self.clock.now + 3 * SESSION_TIMEOUT_S)
        if counts != [consumer.rebalancer.rebalances for consumer in self.live()]:
            self.problems.append("a member rebalanced after the group had settled")
        if not self.settled():
            self.problems.append(f"the group did not stay settled: {self._state()}")
        return self.problems

    def _state(self) -> str:
        expected, owners = self.expected(), self.owners()
        wrong = {k: (owners.get(k), expected.get(k)) for k in expected.keys() | owners.keys()}
        wrong = {k: v for k, v in wrong.items() if v[0] != v[1]}
        members = [
            f"{c.id} settled={c.rebalancer.settled.is_set()} owned={len(c.owned)} "
            f"state={c.session.state}"
            for c in self.live()
        ]
        leaving = [c.id for c in self.consumers if c.leaving and not c.left]
        paused = [c.id for c in self.live() if c.paused]
        return f"{members} wrong={wrong} leaving={leaving} paused={paused}"
