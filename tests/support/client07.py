"""A client of Kafka 0.7 with plain sockets and kazoo, written from the description of the protocol.

It shares no code with the library. A member of a group runs in a thread: it registers, rebalances
when a watch fires, fetches with one multifetch per broker, and commits byte positions.
"""

import contextlib
import json
import random
import re
import socket
import struct
import threading
import time
import uuid
import zlib

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError


def entry(payload, magic=1, attributes=0):
    crc = zlib.crc32(payload)
    body = struct.pack(">b", magic)
    if magic == 1:
        body += struct.pack(">b", attributes)
    body += struct.pack(">I", crc) + payload
    return struct.pack(">i", len(body)) + body


def gzip_wrapper(payloads):
    packer = zlib.compressobj(wbits=31)
    return entry(packer.compress(b"".join(map(entry, payloads))) + packer.flush(), 1, 1)


def text(value):
    data = value.encode()
    return struct.pack(">h", len(data)) + data


def parse(data):
    """Return (start, end, payloads) of each whole entry; the CRCs must be right."""
    found, at = [], 0
    while len(data) - at >= 4:
        (length,) = struct.unpack_from(">i", data, at)
        if len(data) - at - 4 < length:
            break
        body = data[at + 4 : at + 4 + length]
        magic = body[0]
        assert magic in (0, 1)
        attributes = body[1] if magic == 1 else 0
        crc, payload = struct.unpack_from(">I", body, 1 + magic)[0], body[5 + magic :]
        assert zlib.crc32(payload) == crc
        if attributes & 3 == 1:
            inner = parse(zlib.decompress(payload, 31))
            payloads = [each for _, _, inside in inner for each in inside]
        else:
            assert attributes & 3 == 0
            payloads = [payload]
        found.append((at, at + 4 + length, payloads))
        at += 4 + length
    return found


class Broker07:
    """A connection to one broker."""

    def __init__(self, host, port):
        self.socket = socket.create_connection((host, port), 60)

    def close(self):
        self.socket.close()

    def send(self, kind, body):
        self.socket.sendall(struct.pack(">ih", 2 + len(body), kind) + body)

    def receive(self):
        size = struct.unpack(">i", self.exactly(4))[0]
        data = self.exactly(size)
        return struct.unpack_from(">h", data)[0], data[2:]

    def exactly(self, size):
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                raise ConnectionError("closed")
            data += part
        return data

    def produce(self, topic, partition, messages):
        self.send(0, text(topic) + struct.pack(">ii", partition, len(messages)) + messages)

    def offsets(self, topic, partition, when, count=1):
        self.send(4, text(topic) + struct.pack(">iqi", partition, when, count))
        error, body = self.receive()
        assert error == 0
        return list(struct.unpack_from(f">{struct.unpack_from('>i', body)[0]}q", body, 4))

    def multifetch(self, wanted, size=100_000):
        """Fetch [(topic, partition, offset)]; returns an (error, bytes) for each."""
        bodies = [text(t) + struct.pack(">iqi", p, o, size) for t, p, o in wanted]
        self.send(2, struct.pack(">h", len(bodies)) + b"".join(bodies))
        error, body = self.receive()
        assert error == 0
        found, at = [], 0
        for _ in wanted:
            length, error = struct.unpack_from(">ih", body, at)
            found.append((error, body[at + 6 : at + 4 + length]))
            at += 4 + length
        assert at == len(body)
        return found


def broker_address(zk, broker):
    creator, host, port = zk.get(f"/brokers/ids/{broker}")[0].decode().split(":")
    assert creator
    return host, int(port)


def broker_partitions(zk, topic):
    """Return (broker, partition) pairs in numeric order, as a producer sees them."""
    pairs = []
    for broker in zk.get_children(f"/brokers/topics/{topic}"):
        count = int(zk.get(f"/brokers/topics/{topic}/{broker}")[0])
        pairs += [(int(broker), number) for number in range(count)]
    return sorted(pairs)


class Member07:
    """A member of a group, with threads for each topic.

    Args:
        hosts: ZooKeeper with the chroot of the 0.7 registry.
        group: the group.
        topics: topic -> number of threads.
    """

    def __init__(self, hosts, group, topics):
        self.group, self.topics = group, topics
        self.id = f"{group}_host-{int(time.time() * 1000)}-{uuid.uuid4().hex[:8]}"
        self.zk = KazooClient(hosts, timeout=30)
        self.messages = []
        self.claimed = {}
        self.owned = {}
        self.positions = {}
        self.first = {}
        self.resets = 0
        self._brokers = {}
        self._changed = threading.Event()
        self._stop = threading.Event()
        self._die = False
        self.failure = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        self.zk.start()
        self.zk.create(
            f"/consumers/{self.group}/ids/{self.id}",
            json.dumps(self.topics).encode(),
            ephemeral=True,
            makepath=True,
        )
        self._changed.set()
        self._thread.start()
        return self

    def close(self):
        """Leave the group: commit and release."""
        self._stop.set()
        self._thread.join(60)
        if self.failure is not None:
            raise self.failure
        self.zk.stop()
        self.zk.close()

    def die(self):
        """Stop without a commit; the session ends, and with it all claims."""
        self._die = True
        self._stop.set()
        self._thread.join(60)
        self.zk.stop()
        self.zk.close()

    def _run(self):
        try:
            while not self._stop.is_set():
                if self._changed.is_set():
                    self._changed.clear()
                    self._rebalance()
                if not self._fetch():
                    time.sleep(0.05)
            if not self._die:
                self._release()
        except Exception as error:  # noqa: BLE001 - raised by `close`
            self.failure = error

    def _watch(self, _event):
        self._changed.set()

    def _rebalance(self):
        for _ in range(50):
            self._release()
            if self._claim(self._plan()):
                return
            time.sleep(0.1)
        raise AssertionError("the rebalance did not succeed")

    def _plan(self):
        """Return {(topic, "N-P"): owner} for this member's threads."""
        base = f"/consumers/{self.group}/ids"
        threads = {}
        for member in self.zk.get_children(base, watch=self._watch):
            with contextlib.suppress(NoNodeError):
                for topic, count in json.loads(self.zk.get(f"{base}/{member}")[0]).items():
                    threads.setdefault(topic, []).extend(f"{member}-{n}" for n in range(count))
        plan = {}
        for topic in self.topics:
            path = f"/brokers/topics/{topic}"
            if self.zk.exists(path, watch=self._watch) is None:
                continue
            self.zk.get_children(path, watch=self._watch)
            names = sorted(f"{n}-{p}" for n, p in broker_partitions(self.zk, topic))
            everyone = sorted(threads[topic])
            each, extra = divmod(len(names), len(everyone))
            for i, thread in enumerate(everyone):
                if thread.rpartition("-")[0] == self.id:
                    begin = each * i + min(i, extra)
                    for name in names[begin : begin + each + (i < extra)]:
                        plan[topic, name] = thread
        return plan

    def _claim(self, plan):
        made = []
        for (topic, name), thread in plan.items():
            path = f"/consumers/{self.group}/owners/{topic}/{name}"
            try:
                self.zk.create(path, thread.encode(), ephemeral=True, makepath=True)
            except NodeExistsError:
                for each in made:
                    self.zk.delete(each)
                return False
            made.append(path)
        for topic, name in plan:
            try:
                path = f"/consumers/{self.group}/offsets/{topic}/{name}"
                position = int(self.zk.get(path)[0])
            except NoNodeError:
                position = self._ask(topic, name, -2)
            self.positions[topic, name] = position
            self.first.setdefault((topic, name), position)
        self.owned = plan
        return True

    def _release(self):
        self.commit()
        for topic, name in self.owned:
            with contextlib.suppress(NoNodeError):
                self.zk.delete(f"/consumers/{self.group}/owners/{topic}/{name}")
        self.owned = {}

    def commit(self):
        for key in self.owned:
            topic, name = key
            path = f"/consumers/{self.group}/offsets/{topic}/{name}"
            self.zk.ensure_path(path)
            self.zk.set(path, str(self.positions[key]).encode())

    def _ask(self, topic, name, when):
        broker, number = map(int, name.split("-"))
        return self._broker(broker).offsets(topic, number, when)[0]

    def _broker(self, number):
        if number not in self._brokers:
            self._brokers[number] = Broker07(*broker_address(self.zk, number))
        return self._brokers[number]

    def _fetch(self):
        got = False
        for broker in {name.split("-")[0] for _, name in self.owned}:
            keys = [key for key in self.owned if key[1].split("-")[0] == broker]
            wanted = [(t, int(name.split("-")[1]), self.positions[t, name]) for t, name in keys]
            try:
                answers = self._broker(int(broker)).multifetch(wanted)
            except (OSError, NoNodeError):
                # The broker is down: its nodes vanish, or it returns.
                self._brokers.pop(int(broker), None)
                continue
            for key, (error, data) in zip(keys, answers, strict=True):
                if error == 1:
                    self.positions[key] = self._ask(*key, -2)
                    self.resets += 1
                    self.commit()
                    continue
                assert error == 0
                for _, end, payloads in parse(data):
                    self.messages += [(*key, payload) for payload in payloads]
                    last = end
                    got = True
                if parse(data):
                    self.positions[key] += last
        return got


def produce(zk, topic, payloads, seed=0):
    """Send each payload to a random partition of a random broker, as the 0.7 producer does."""
    chosen = random.Random(seed)
    pairs = broker_partitions(zk, topic)
    brokers = {}
    for payload in payloads:
        number, partition = chosen.choice(pairs)
        if number not in brokers:
            brokers[number] = Broker07(*broker_address(zk, number))
        brokers[number].produce(topic, partition, entry(payload))
    for number, broker in brokers.items():
        # The broker has handled all messages once it answers a later request of the connection.
        broker.offsets(topic, 0, -1)
        assert re.fullmatch(r"\d+", str(number))
        broker.close()
