"""Generated requests to every endpoint of a console get no traceback and no secret in a response.

1,000 requests by default, 100,000 as a soak, by four clients that keep their connections.
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
from tests.support.consoles import open_producer, running_console
from zkbroker.producer import KeyedMessage
from zkbroker.registry.group_offsets import commit_offset
from zkbroker.zookeeper.session import ZkSession

MIB = 1024 * 1024
GROWTH = 300 * MIB
"""Largest growth of the process, which reads messages of 10 MiB."""
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
        with open_producer(cluster, **{"max.request.size": str(16 * MIB)}) as producer:
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


def random_json(rng, depth=0):
    """Return a random JSON value."""
    kind = rng.randrange(8 if depth < 3 else 5)
    if kind == 0:
        return rng.choice((None, True, False))
    if kind == 1:
        return rng.choice((0, 1, -1, 2**31, 2**64, 10**400, 1.5, 1e300))
    if kind < 5:
        return rng.choice(WORDS).encode("utf-8", "replace").decode()
    if kind == 5:
        return [random_json(rng, depth + 1) for _ in range(rng.randrange(4))]
    names = (
        "name", "partitions", "replication", "settings", "assignment", "brokers", "to", "topic",
        "partition", "dry_run", "confirm", "0", "retention.ms",
    )  # fmt: skip
    return {rng.choice(names): random_json(rng, depth + 1) for _ in range(rng.randrange(5))}


def random_path(rng, form, cluster):
    """Return a URL path of a view with random names and parameters."""
    path = form
    while "{" in path:
        path = path.replace("{word}", quote(random_word(rng), safe=""), 1)
        path = path.replace("{number}", rng.choice(("0", "1", "-1", "x", "9" * 20, "%2e")), 1)
        path = path.replace("{kind}", rng.choice(KINDS), 1)
    found = f"/api/clusters/{cluster if rng.random() < 0.95 else 'none'}/{path}"
    if rng.random() < 0.8:
        pairs = [
            f"{rng.choice(PARAMETERS)}={quote(random_word(rng), safe='')}"
            for _ in range(rng.randrange(5))
        ]
        if "messages" in form and rng.random() < 0.7:
            pairs.append(f"topic={'big' if rng.random() < 0.1 else 't'}")
        found += "?" + "&".join(pairs)
    return found


def random_word(rng):
    """Return bytes for `quote`, which may be invalid UTF-8."""
    return rng.choice(WORDS).encode("utf-8", "surrogatepass")


class Sender:
    """One client, which keeps its connection."""

    def __init__(self, console):
        found = urlsplit(console.base)
        self._connection = http.client.HTTPConnection(found.hostname, found.port, timeout=300)

    def send(self, method, path, body, headers):
        """Return status, type and bytes; a stream is closed after its headers."""
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


def check_response(status, kind, data, request):
    assert b"Traceback" not in data, request
    assert SECRET not in data, request
    assert status != 500, (request, data[:500])
    assert not 300 <= status < 400, (request, status)
    if status >= 400:
        assert kind == "application/json", (request, status, data[:200])
        found = json.loads(data)
        assert found["error"], request
        assert found["code"], request


def fuzz(console, count, seed):
    """Send generated requests; return the number of each status."""
    rng = random.Random(seed)
    token = console.csrf
    statuses = Counter()
    sender = Sender(console)
    for _ in range(count):
        if rng.random() < 0.3:
            body = json.dumps(random_json(rng)).encode()
            if rng.random() < 0.1:
                body = rng.randbytes(rng.randrange(200))
            headers = {"Content-Type": "application/json", "X-CSRF-Token": token}
            if rng.random() < 0.1:
                headers["X-CSRF-Token"] = "other"
            path = random_path(rng, rng.choice(POSTS), console.cluster)
            request = ("POST", path, body[:300])
            answer = sender.send("POST", path, body, headers)
        else:
            path = random_path(rng, rng.choice(VIEWS), console.cluster)
            request = ("GET", path)
            answer = sender.send("GET", path, None, {})
        check_response(*answer, request)
        statuses[answer[0]] += 1
    sender.close()
    assert console.of("overview")["brokers"]
    return statuses


def fuzz_in_parallel(console, count, seed):
    """Send requests by all clients; return the number of each status."""
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


def test_generated_requests_use_bounded_memory(console):
    assert console.cluster
    before = resident(console)
    fuzz_in_parallel(console, 1000, 1)
    assert resident(console) - before < GROWTH
    assert SECRET.decode() not in console.log()


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_many_generated_requests(console):
    assert console.cluster
    fuzz_in_parallel(console, 5_000, 100 + soak.SEED)
    before = resident(console)
    count = soak.part_of(95_000 // CLIENTS) * CLIENTS
    statuses = fuzz_in_parallel(console, count, 200 + soak.SEED)
    grown = resident(console) - before
    print(f"answers by status: {sorted(statuses.items())}; grown by {grown / MIB:.0f} MiB")
    assert statuses.total() == count
    assert grown < GROWTH
    assert SECRET.decode() not in console.log()


@pytest.mark.parametrize("path", ["", "api/session", "static/index.html", "static/x", "x/y/z"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "TRACE"])
def test_every_method_on_every_path(console, path, method):
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
def test_malformed_request_does_not_stop_the_console(console, raw):
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
