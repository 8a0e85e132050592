"""Every endpoint of a real console under generated requests: a sentence, never a traceback.

Beside them run the collectors of the same process. 1,000 requests by default, 100,000 as a soak.
"""

import http.client
import json
import random
import socket
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest

from tests.support.consoles import running_console
from zkbroker.config.producer import ProducerConfig
from zkbroker.producer import KeyedMessage, Producer
from zkbroker.registry.group_offsets import commit_offset
from zkbroker.testing import LocalCluster
from zkbroker.zookeeper.session import ZkSession

MIB = 1024 * 1024
GROWTH = 300 * MIB
"""What a console may grow by, with readers of 10 MiB messages at work."""

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
def console(tmp_path_factory):
    properties = {
        "message.max.bytes": str(16 * MIB),
        "offsets.topic.num.partitions": "2",
        "auto.create.topics.enable": "false",
    }
    with LocalCluster(1, properties=properties) as cluster:
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
        with running_console(
            "-z", cluster.zookeeper, "--interval", "0.5", "--allow-changes"
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
            pairs.append(f"topic={chance.choice(('t', 'big'))}")
        found += "?" + "&".join(pairs)
    return found


def word(chance):
    """A text that an address can hold; `quote` makes bytes of it that may be no UTF-8."""
    return chance.choice(WORDS).encode("utf-8", "surrogatepass")


def send(console, method, path, body, headers):
    """Return status, type and bytes; of a stream only its head."""
    found = urlsplit(console.base)
    connection = http.client.HTTPConnection(found.hostname, found.port, timeout=60)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        kind = answer.headers.get_content_type()
        if kind == "text/event-stream":
            assert answer.status == 200
            connection.sock.shutdown(socket.SHUT_RDWR)
            return answer.status, kind, b""
        return answer.status, kind, answer.read()
    finally:
        connection.close()


def check(status, kind, data, said):
    assert b"Traceback" not in data, said
    assert status != 500, (said, data[:500])
    if status >= 400:
        assert kind == "application/json", (said, status, data[:200])
        found = json.loads(data)
        assert found["error"], said
        assert found["code"], said


def fuzz(console, count, seed):
    chance = random.Random(seed)
    token = console.csrf
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
            check(*send(console, "POST", path, body, headers), said)
        else:
            path = address(chance, chance.choice(VIEWS), console.cluster)
            check(*send(console, "GET", path, None, {}), ("GET", path))
    assert console.of("overview")["brokers"]


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
    fuzz(console, 1000, 1)
    assert resident(console) - before < GROWTH


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_generated_requests_for_long(console):
    assert console.cluster
    fuzz(console, 5_000, 2)
    before = resident(console)
    fuzz(console, 95_000, 3)
    assert resident(console) - before < GROWTH


@pytest.mark.parametrize("path", ["", "api/session", "static/index.html", "static/x", "x/y/z"])
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "OPTIONS", "HEAD", "TRACE"])
def test_every_method_of_every_page(console, path, method):
    status, _, data = send(console, method, f"/{path}", None, {})
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
