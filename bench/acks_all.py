"""Where the time of a produce with acks=all goes, one message a request, on three brokers.

Every step is noted in the brokers with the machine's clock: from the client's request over the
leader, the fetch that waits, the follower and its next fetch to the high watermark and the answer.
Of the two followers the later one counts, since the ISR waits for it. Medians, in microseconds
since the client began to send, and what each step took.

    python -m bench.acks_all [--requests 500] [--bytes 1024]
"""

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path

from bench.raw_socket import Client
from zkbroker.cluster import ClusterProcesses
from zkbroker.cluster.process import BrokerProcess
from zkbroker.protocol import RequestHeader, encode_request
from zkbroker.protocol.messages import ProduceRequest
from zkbroker.protocol.messages.produce import ProduceRequestPartition, ProduceRequestTopic
from zkbroker.records import encode_message_set
from zkbroker.registry.partition_states import PartitionStates
from zkbroker.registry.topics import create_topic
from zkbroker.zookeeper import ZkSession

ROOT = Path(__file__).resolve().parent.parent
STEPS = (
    ("produce received", "the leader has the request"),
    ("appended", "it is in the leader's log; fetches that wait are woken"),
    ("fetch answered", "the later fetch has read it"),
    ("answer read", "the later follower has it"),
    ("copied", "it is in the later follower's log"),
    ("next fetch", "that follower fetches again"),
    ("fetch received", "the leader has that fetch"),
    ("high watermark", "every replica in sync has it"),
    ("produce answered", "the waiting produce is woken, and answered"),
)
BOTH = {"fetch answered", "answer read", "copied", "next fetch", "fetch received"}
"""Steps that happen for each follower."""


def request_of(size: int) -> bytes:
    data = encode_message_set([(None, bytes(size), 1_700_000_000_000, ())])
    request = ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topics=[ProduceRequestTopic("acks", [ProduceRequestPartition(0, data)])],
    )
    return b"".join(encode_request(RequestHeader(0, 2, 1, "bench"), request))  # type: ignore[arg-type]


def send(port: int, request: bytes, count: int) -> list[tuple[int, int]]:
    """Send requests one by one; when each began and was answered, in ns."""
    client = Client(port)
    spans = []
    for number in range(count + 50):
        started = time.monotonic_ns()
        client.socket.sendall(request)
        client.answer()
        if number >= 50:
            spans.append((started, time.monotonic_ns()))
        time.sleep(0.002)  # the followers wait again by then
    return spans


def steps_of(span: tuple[int, int], events: list[tuple[int, str]]) -> dict[str, int] | None:
    """When each step of one request happened; None where it went another way."""
    found: dict[str, list[int]] = {}
    for at, name in events:
        if span[0] <= at <= span[1]:
            found.setdefault(name, []).append(at)
    steps, before = {}, span[0]
    for name, _ in STEPS:
        at = found.get(name, [])
        if len(at) < (2 if name in BOTH else 1):
            return None
        before = steps[name] = at[1] if name in BOTH else at[-1]
    return steps if before <= span[1] else None


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--bytes", type=int, default=1024)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="zkbroker-acks-") as name:
        hooks, trace = Path(name, "hooks"), Path(name, "trace")
        hooks.mkdir()
        trace.mkdir()
        (hooks / "sitecustomize.py").write_text(
            f"import sys; sys.path.append({str(ROOT)!r})\n"
            "if 'zkbroker.cli' in sys.orig_argv: import bench.acks_hooks\n"
        )
        environment = {"PYTHONPATH": str(hooks), "ACKS_TRACE": str(trace)}
        with (
            ClusterProcesses(
                Path(name, "cluster"),
                brokers=3,
                make_broker=lambda directory, properties: BrokerProcess(
                    directory, properties, environment=environment
                ),
            ) as cluster,
            ZkSession(cluster.zookeeper) as session,
        ):
            create_topic(session, "acks", {0: [1, 2, 3]}, {})
            states, key = PartitionStates(session), ("acks", 0)
            while len(getattr(states.read([key]).get(key), "isr", ())) < 3:
                time.sleep(0.05)
            time.sleep(2)
            spans = send(cluster.broker(1).address[1], request_of(options.bytes), options.requests)
        events = []
        for path in trace.iterdir():
            for line in path.read_text().splitlines():
                at, _, step = line.partition(" ")
                events.append((int(at), step))
    events.sort()
    rows = []
    for span in spans:
        steps = steps_of(span, events)
        if steps is not None:
            rows.append([at - span[0] for at in steps.values()] + [span[1] - span[0]])
    print(
        f"{len(rows)} of {len(spans)} requests, {options.bytes} bytes; {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f}; medians in microseconds"
    )
    p50 = 0.0
    texts = [text for _, text in STEPS] + ["the client has the answer"]
    for number, text in enumerate(texts):
        at = statistics.median(row[number] for row in rows) / 1000
        took = statistics.median(row[number] - (row[number - 1] if number else 0) for row in rows)
        print(f"  {at:8.0f}  +{took / 1000:6.0f}  {text}")
        p50 = at
    spans_us = sorted((end - start) / 1000 for start, end in spans)
    print(f"  p50 {p50:.0f}, p99 {spans_us[len(spans_us) * 99 // 100]:.0f}")


if __name__ == "__main__":
    main()
