"""Members of a ZooKeeper group for tests: a plain one of ours, and an independent implementation.

`IndependentMember` is written only from the description of the ZooKeeper paths and of rebalances;
it uses none of our code.
"""

import json
import random
import threading
import time
import uuid
from collections.abc import Mapping

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError

from zkbroker.rebalance import Owned, Rebalancer, ZkGroupStore
from zkbroker.registry.groups import StreamSubscription, new_consumer_id
from zkbroker.zookeeper import ZkSession


class PlainMember:
    """A member that consumes nothing and records its calls."""

    def __init__(self) -> None:
        self.owned: dict[tuple[str, int], int] = {}
        self.loaded: Owned | None = None
        self.paused = False
        self.log: list[str] = []

    def pause(self) -> None:
        self.paused = True
        self.log.append("pause")

    def resume(self) -> None:
        self.paused = False
        self.log.append("resume")

    def drop(self) -> None:
        self.owned = {}
        self.log.append("drop")

    def stop(self) -> None:
        self.owned = {}
        self.log.append("stop")

    def commit(self) -> None:
        self.log.append("commit")

    def load(self, owned: Owned) -> None:
        self.loaded = owned
        self.log.append("load")

    def start(self, owned: Owned) -> None:
        self.log.append("start")
        self.owned = dict(owned)  # last, since tests wait for it


class Consumer:
    """A session, a member and its rebalancer."""

    def __init__(
        self,
        connect: str,
        group: str,
        streams: Mapping[str, int],
        *,
        pattern: str = "static",
        runtime: str = "threads",
        session_timeout_ms: int = 30_000,
        consumer_id: str | None = None,
        **options: object,
    ) -> None:
        self.session = ZkSession(
            connect, session_timeout_ms=session_timeout_ms, runtime=runtime
        ).start()
        self.id = consumer_id or new_consumer_id(group)
        self.member = PlainMember()
        self.rebalancer = Rebalancer(
            ZkGroupStore(self.session, group, self.id),
            self.member,
            subscription=StreamSubscription(streams, pattern),
            backoff_ms=200,
            runtime=runtime,
            **options,
        )
        self.rebalancer.start()

    @property
    def owned(self) -> set[tuple[str, int]]:
        return set(self.member.owned)

    def close(self) -> None:
        assert self.rebalancer.close(20)
        self.session.close()


class IndependentMember:
    """Registration and rebalance as described, in plain blocking code."""

    def __init__(self, connect: str, group: str, streams: Mapping[str, int]) -> None:
        self.group, self.streams = group, dict(streams)
        self.id = f"{group}_independent-{int(time.time() * 1000)}-{uuid.uuid4().hex[:8]}"
        self.owned: dict[tuple[str, int], str] = {}
        self.problem: Exception | None = None
        self._zk = KazooClient(connect, timeout=30)
        self._zk.start()
        self._changed = threading.Event()
        self._stopping = False
        node = {
            "version": 1,
            "subscription": self.streams,
            "pattern": "static",
            "timestamp": str(int(time.time() * 1000)),
        }
        self._zk.create(
            f"/consumers/{group}/ids/{self.id}",
            json.dumps(node).encode(),
            ephemeral=True,
            makepath=True,
        )
        self._changed.set()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _fired(self, _event: object) -> None:
        self._changed.set()

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._changed.wait()
                self._changed.clear()
                if not self._stopping and not self._rebalance():
                    time.sleep(random.uniform(0, 0.1))
                    self._changed.set()
        except KazooException as error:
            self.problem = error

    def _rebalance(self) -> bool:
        self._release()
        threads: dict[str, list[str]] = {}
        for member in self._zk.get_children(f"/consumers/{self.group}/ids", watch=self._fired):
            try:
                data, _ = self._zk.get(f"/consumers/{self.group}/ids/{member}")
            except NoNodeError:
                continue
            for topic, count in json.loads(data)["subscription"].items():
                threads.setdefault(topic, []).extend(f"{member}-{n}" for n in range(count))
        self._zk.get_children("/brokers/ids", watch=self._fired)
        for topic in self.streams:
            data, _ = self._zk.get(f"/brokers/topics/{topic}", watch=self._fired)
            partitions = sorted(int(n) for n in json.loads(data)["partitions"])
            everyone = sorted(threads[topic])
            n, x = len(partitions) // len(everyone), len(partitions) % len(everyone)
            for i, thread in enumerate(everyone):
                if not thread.startswith(self.id):
                    continue
                start = n * i + min(i, x)
                for partition in partitions[start : start + n + (1 if i < x else 0)]:
                    if not self._claim(topic, partition, thread):
                        self._release()
                        return False
        return True

    def _claim(self, topic: str, partition: int, thread: str) -> bool:
        path = f"/consumers/{self.group}/owners/{topic}/{partition}"
        gone = threading.Event()
        try:
            self._zk.create(path, thread.encode(), ephemeral=True, makepath=True)
        except NodeExistsError:
            self._release()
            if self._zk.exists(path, watch=lambda _event: gone.set()):
                gone.wait(1)
            return False
        self.owned[topic, partition] = thread
        return True

    def _release(self) -> None:
        for topic, partition in list(self.owned):
            self._zk.delete(f"/consumers/{self.group}/owners/{topic}/{partition}")
            del self.owned[topic, partition]

    def close(self) -> None:
        self._stopping = True
        self._changed.set()
        self._thread.join(60)
        self._zk.stop()
        self._zk.close()
