"""Where the time of a produce with acks=all goes, one message a request, on three brokers.

The brokers record every step with the machine's clock: the client's request, the leader, the
waiting fetch, the follower and its next fetch, the high watermark and the answer. Of the two
followers the later one counts, since the ISR waits for it. Medians, in microseconds since the
client began to send, and the duration of each step. In the brokers `sitecustomize` loads this
module, which records steps in memory and writes them to `$ACKS_TRACE/PID` at the end.

    python -m bench.acks_all [--requests 500] [--bytes 1024]
"""

import argparse
import atexit
import functools
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.raw_socket import Client, one_message, produce_request
from zkbroker.broker.dispatcher import Dispatcher
from zkbroker.cluster import ClusterProcesses
from zkbroker.cluster.process import BrokerProcess
from zkbroker.network.client.inter_broker import InterBrokerConnection
from zkbroker.protocol.messages import FetchRequest
from zkbroker.registry.partition_states import PartitionStates
from zkbroker.registry.topics import create_topic
from zkbroker.replica.delayed import Waiters
from zkbroker.replica.fetcher import ReplicaFetcher
from zkbroker.zookeeper import ZkSession

ROOT = Path(__file__).resolve().parent.parent
STEPS = (
    ("produce received", "the leader receives the request"),
    ("appended", "the leader appends the message and wakes waiting fetches"),
    ("fetch answered", "the later follower's fetch reads the message"),
    ("answer read", "the later follower receives the message"),
    ("copied", "the later follower appends the message"),
    ("next fetch", "that follower fetches again"),
    ("fetch received", "the leader receives that fetch"),
    ("high watermark", "the leader knows that every replica in sync has the message"),
    ("produce answered", "the leader wakes the waiting produce and answers it"),
)
PRODUCE, FETCH = b"\x00\x00", b"\x00\x01"
_events: list[tuple[int, str]] = []
BOTH = {"fetch answered", "answer read", "copied", "next fetch", "fetch received"}
"""Steps that happen for each follower."""


def note(name: str) -> None:
    _events.append((time.monotonic_ns(), name))


def around(owner: type, method: str, before: Callable[..., str], after: Callable[..., str]) -> None:
    """Record the results of two functions, unless empty, before and after a method."""
    plain = getattr(owner, method)

    @functools.wraps(plain)
    def noted(*args: Any, **options: Any) -> Any:
        if name := before(*args):
            note(name)
        answer = plain(*args, **options)
        if name := after(*args):
            note(name)
        return answer

    setattr(owner, method, noted)


def _nothing(*_: object) -> str:
    return ""


def _kind(frame: memoryview, produce: str, fetch: str) -> str:
    key = bytes(frame[:2])
    return produce if key == PRODUCE else fetch if key == FETCH else ""


def watch() -> None:
    """Record the steps of this process from now on."""
    around(
        Dispatcher,
        "handle",
        lambda _, session, frame: _kind(frame, "produce received", "fetch received"),
        lambda _, session, frame: _kind(frame, "produce answered", "fetch answered"),
    )
    around(Waiters, "appended", lambda *_: "appended", _nothing)
    around(Waiters, "advanced", lambda *_: "high watermark", _nothing)
    around(
        InterBrokerConnection,
        "send",
        lambda _, request, *rest: "next fetch" if isinstance(request, FetchRequest) else "",
        lambda _, request, *rest: "answer read" if isinstance(request, FetchRequest) else "",
    )
    around(ReplicaFetcher, "_apply", _nothing, lambda *_: "copied")
    atexit.register(_write)


def _write() -> None:
    lines = "".join(f"{at} {name}\n" for at, name in _events)
    Path(os.environ["ACKS_TRACE"], str(os.getpid())).write_text(lines, encoding="ascii")


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
        time.sleep(0.002)  # until the followers wait again
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
            "if 'zkbroker.cli' in sys.orig_argv:\n    import bench.acks_all\n"
            "    bench.acks_all.watch()\n"
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
            while (state := states.read([key]).get(key)) is None or len(state.isr) < 3:
                time.sleep(0.05)
            time.sleep(2)
            request = produce_request("acks", 1, one_message(1, options.bytes), acks=-1)
            spans = send(cluster.broker(state.leader).address[1], request, options.requests)
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
