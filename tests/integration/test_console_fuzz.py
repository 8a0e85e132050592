"""Every endpoint of a real console under generated requests: a sentence, never a traceback.

Beside them run the collectors of the same process. 1,000 requests by default, 100,000 as a soak, by
four clients that keep their connections. Secrets of the console and of its broker are in no answer.
"""

import http.client
import json
import random
import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from tests.support import soak
from tests.support.consoles import running_console
from zkbroker.config.producer import ProducerConfig
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.registry.group_offsets import commit_offset
from zkbroker.zookeeper.session import ZkSession

MIB = 1024 * 1024
GROWTH = 300 * MIB
"""What a console may grow by, with readers of 10 MiB messages at work."""
CLIENTS = 4
SECRET = b"a-word-that-no-answer-has"

VIEWS = (
    "overview",
    "series",
    "topics",
    "topics/{word}",
    "topics/{word}/partitions/{number}/log",
    "topics/{word}/{word}",
    "groups",
    "groups/{kind}/{word}",
    "clients",
    "mirrors",
    "loads",
    "messages",
    "messages/value",
    "messages/tail",
    "settings",
    "events",
    "reassignments",
    "{word}",
)
POSTS = (
    "topics",
    "topics/{word}/alter",
    "topics/{word}/delete",
    "topics/{word}/elect",
    "topics/{word}/reassign",
    "topics/{word}/remove-throttle",
    "groups/{kind}/{word}/reset",
    "{word}",
)
PARAMETERS = (
    "topic", "partition", "from", "limit", "key", "contains", "at", "offset", "part", "search",
    "sort", "names", "since_ms", "what", "x",
)  # fmt: skip
WORDS = (
    "t", "big", "g", "none", "", ".", "..", "../..", "%", "%00", "\x00", "a/b", "é", "\ud800", "-5",
    "0", "1", "99999999999999999999", "-1", "1e9", "NaN", "earliest", "latest", "@2026-01-01",
    "@99999-01-01", "@x", "-10", "+3", "0:1", "0:1,0:1", "0:-1", "x" * 2000, "<script>", "name",
    "-messages", "null", "value", "key", "__consumer_offsets", "{}", "'", "\r\nX: y", "v",
    "cluster.offline,topic.t.bytes",
)  # fmt: skip
KINDS = ("coordinator", "zookeeper", "other", "")


@pytest.fixture(scope="module")
def console(local_cluster, tmp_path_factory):
    properties = {
        "message.max.bytes": str(16 * MIB),
        "offsets.topic.num.partitions": "2",
        "auto.create.topics.enable": "false",
        "ssl.keystore.password": SECRET.decode(),
    }
    with local_cluster(1, properties=properties) as cluster:
        cluster.create_topic("t", partitions=2)
        cluster.create_topic("big")
        config = ProducerConfig.from_properties(
            {"metadata.broker.list": cluster.bootstrap_servers, "max.request.size": str(16 * MIB)}
        )
        with Producer(config) as producer:
            for number in range(200):
                producer.send(KeyedMessage("t", b"v%d" % number, key=b"k"))
            for _ in range(4):
                producer.send(KeyedMessage("big", b"\x00" * (10 * MIB)))
        with ZkSession(cluster.zookeeper) as session:
            commit_offset(session, "g", "t", 0, 1)
        properties = tmp_path_factory.mktemp("console") / "fuzzed.properties"
        properties.write_text(
            f"zookeeper.connect={cluster.zookeeper}\n"
            f"console.admin.user=console\nconsole.admin.password={SECRET.decode()}\n"
        )
        with running_console(
            "--cluster", f"fuzzed={properties}", "--interval", "0.5", "--allow-changes"
        ) as client:
            client.eventually("overview", lambda view: view["topics"] >= 2)
            client.eventually("groups", lambda view: view["total"] >= 1)
            yield client


def generated(chance, depth=0):
    """Some JSON."""
    kind = chance.randrange(8 if depth < 3 else 5)
    if kind == 0:
        return chance.choice((None, True, False))
    if kind == 1:
        return chance.choice((0, 1, -1, 2**31, 2**64, 10**400, 1.5, 1e300))
    if kind < 5:
        return chance.choice(WORDS).encode("utf-8", "replace").decode()
    if kind == 5:
        return [generated(chance, depth + 1) for _ in range(chance.randrange(4))]
    names = (
        "name", "partitions", "replication", "settings", "assignment", "brokers", "to", "topic",
        "partition", "dry_run", "confirm", "0", "retention.ms",
    )  # fmt: skip
    return {chance.choice(names): generated(chance, depth + 1) for _ in range(chance.randrange(5))}


def address(chance, form, cluster):
    """An address of a view."""
    path = form
    while "{" in path:
        path = path.replace("{word}", quote(word(chance), safe=""), 1)
        path = path.replace("{number}", chance.choice(("0", "1", "-1", "x", "9" * 20, "%2e")), 1)
        path = path.replace("{kind}", chance.choice(KINDS), 1)
    found = f"/api/clusters/{cluster if chance.random() < 0.95 else 'none'}/{path}"
    if chance.random() < 0.8:
        pairs = [
            f"{chance.choice(PARAMETERS)}={quote(word(chance), safe='')}"
            for _ in range(chance.randrange(5))
        ]
        if "messages" in form and chance.random() < 0.7:
            pairs.append(f"topic={'big' if chance.random() < 0.1 else 't'}")
        found += "?" + "&".join(pairs)
    return found


def word(chance):
    """A text that an address can hold; `quote` makes bytes of it that may be no UTF-8."""
    return chance.choice(WORDS).encode("utf-8", "surrogatepass")


class Sender:
    """One client: keeps its connection as long as the console does."""

    def __init__(self, console):
        found = urlsplit(console.base)
        self._connection = http.client.HTTPConnection(found.hostname, found.port, timeout=300)

    def send(self, method, path, body, headers):
        """Return status, type and bytes; of a stream only its head."""
        self._connection.request(method, path, body, headers)
        answer = self._connection.getresponse()
        kind = answer.headers.get_content_type()
        if kind == "text/event-stream":
            assert answer.status == 200
            self._connection.sock.shutdown(socket.SHUT_RDWR)
            self._connection.close()
            return answer.status, kind, b""
        return answer.status, kind, answer.read()

    def close(self):
        self._connection.close()


def check(status, kind, data, said):
    assert b"Traceback" not in data, said
    assert SECRET not in data, said
    assert status != 500, (said, data[:500])
    assert not 300 <= status < 400, (said, status)
    if status >= 400:
        assert kind == "application/json", (said, status, data[:200])
        found = json.loads(data)
        assert found["error"], said
        assert found["code"], said


def fuzz(console, count, seed):
    """Send generated requests; return how many got which status."""
    chance = random.Random(seed)
    token = console.csrf
    statuses = Counter()
    sender = Sender(console)
    for _ in range(count):
        if chance.random() < 0.3:
            body = json.dumps(generated(chance)).encode()
            if chance.random() < 0.1:
                body = chance.randbytes(chance.randrange(200))
            headers = {"Content-Type": "application/json", "X-CSRF-Token": token}
            if chance.random() < 0.1:
                headers["X-CSRF-Token"] = "other"
            path = address(chance, chance.choice(POSTS), console.cluster)
            said = ("POST", path, body[:300])
            answer = sender.send("POST", path, body, headers)
        else:
            path = address(chance, chance.choice(VIEWS), console.cluster)
            said = ("GET", path)
            answer = sender.send("GET", path, None, {})
        check(*answer, said)
        statuses[answer[0]] += 1
    sender.close()
    assert console.of("overview")["brokers"]
    return statuses


def fuzz_at_once(console, count, seed):
    """Send them by all clients; return how many got which status."""
    with ThreadPoolExecutor(CLIENTS) as pool:
        shares = pool.map(
            fuzz, repeat(console), repeat(count // CLIENTS, CLIENTS), range(seed, seed + CLIENTS)
        )
        return sum(shares, Counter())


def resident(console):
    line = next(
        each
        for each in Path(f"/proc/{console.process.pid}/status").read_text().splitlines()
        if each.startswith("VmRSS")
    )
    return int(line.split()[1]) * 1024


def test_generated_requests_get_sentences_within_bounded_memory(console):
    assert console.cluster
    before = resident(console)
    fuzz_at_once(console, 1000, 1)
    assert resident(console) - before < GROWTH
    assert SECRET.decode() not in console.log()


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_generated_requests_for_long(console):
    assert console.cluster
    fuzz_at_once(console, 5_000, 100 + soak.SEED)
    before = resident(console)
    count = soak.part_of(95_000)
    statuses = fuzz_at_once(console, count, 200 + soak.SEED)
    grown = resident(console) - before
    print(f"answers by status: {sorted(statuses.items())}; grown by {grown / MIB:.0f} MiB")
    assert statuses.total() == count
    assert grown < GROWTH
    assert SECRET.decode() not in console.log()


@pytest.mark.parametrize("path", ["", "api/session", "static/index.html", "static/x", "x/y/z"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "TRACE"])
def test_every_method_of_every_page(console, path, method):
    sender = Sender(console)
    status, _, data = sender.send(method, f"/{path}", None, {})
    sender.close()
    assert status != 500
    assert b"Traceback" not in data


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET /\r\n\r\n",
        b"\x00\x01\x02\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: " + b"x" * 9000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: [::\r\n\r\n",
        b"POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n",
        b"POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n",
        b"POST /api/login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nCookie: zkbroker_console=\xff\xfe\r\n\r\n",
    ],
)
def test_what_is_hardly_a_request_breaks_nothing(console, raw):
    found = urlsplit(console.base)
    with socket.create_connection((found.hostname, found.port), 30) as peer:
        peer.sendall(raw)
        peer.shutdown(socket.SHUT_WR)
        answer = b""
        while part := peer.recv(65536):
            answer += part
    assert b"Traceback" not in answer
    assert b" 500 " not in answer.split(b"\r\n")[0]
    assert console.of("overview")["brokers"]
