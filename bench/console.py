"""The console on a large cluster: how fast it opens, and what it costs brokers and itself.

    python -m bench.console [--topics 1000] [--partitions 10] [--viewers 10] [--seconds 60]

Three brokers share the partitions, one replica each; their share is that of the busiest. Printed
are the time from the start of the console until it knows all topics; the time in which a page gets
its overview and its first topics then; the share of one core that a broker takes without a console,
with one, and with viewers of its stream beside; the memory of the console.
"""

import argparse
import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from zkbroker.admin.wire_topics import controller_id
from zkbroker.client import Cluster, StaticSource
from zkbroker.protocol.messages import CreateTopicsRequest
from zkbroker.protocol.messages.topics import NewTopic
from zkbroker.runtime import get_runtime
from zkbroker.testing import LocalCluster

READY = "zkbroker console ready address="
_TICKS = os.sysconf("SC_CLK_TCK")
_BATCH = 50
_OPENINGS = 10


def cpu_seconds(pid: int) -> float:
    """Return the processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident_mib(pid: int) -> float:
    """Return the resident memory of a process."""
    return (
        int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20
    )


def share(pids: Sequence[int], seconds: float) -> float:
    """Return the share of one core that the busiest process takes for a while, in percent."""
    begun, before = time.monotonic(), [cpu_seconds(pid) for pid in pids]
    time.sleep(seconds)
    taken = [cpu_seconds(pid) - then for pid, then in zip(pids, before, strict=True)]
    return 100 * max(taken) / (time.monotonic() - begun)


def create(bootstrap: str, topics: int, partitions: int) -> None:
    """Create the topics at the broker that is the controller."""
    runtime = get_runtime("threads")
    with Cluster(StaticSource(bootstrap), runtime=runtime, request_timeout_ms=120_000) as cluster:
        controller = controller_id(cluster)
        if controller is None:
            raise RuntimeError("no broker is the controller")
        connection = cluster.connection(controller)
        for first in range(0, topics, _BATCH):
            new = [
                NewTopic(f"topic-{number:04d}", partitions, 1, [], [])
                for number in range(first, min(first + _BATCH, topics))
            ]
            answer = connection.request(CreateTopicsRequest(new, 100_000), timeout_s=120)
            failed = [each for each in answer.topics if each.error_code]
            if failed:
                raise RuntimeError(f"a topic was not created: {failed[0]}")


def get(base: str, path: str) -> bytes:
    """Return an answer of the console."""
    found = urlsplit(base)
    connection = http.client.HTTPConnection(found.hostname or "", found.port, timeout=60)
    connection.request("GET", path)
    data = connection.getresponse().read()
    connection.close()
    return data


def watch(base: str, path: str, ended: threading.Event) -> None:
    """Read a stream until the end."""
    found = urlsplit(base)
    connection = http.client.HTTPConnection(found.hostname or "", found.port, timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    while not ended.is_set() and answer.readline():
        pass


def main() -> None:
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=10)
    parser.add_argument("--viewers", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60)
    given = parser.parse_args()
    properties = {"log.segment.bytes": "1048576", "offsets.topic.num.partitions": "1"}
    with LocalCluster(3, properties=properties) as cluster:
        create(cluster.bootstrap_servers, given.topics, given.partitions)
        brokers = [each.pid for each in cluster.brokers if each.pid is not None]
        time.sleep(10)
        print(f"broker without a console {share(brokers, given.seconds):6.2f} % of a core")
        begun = time.monotonic()
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "zkbroker.cli",
                "console",
                "-z",
                cluster.zookeeper,
                "--port",
                "0",
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert process.stdout is not None
            base = process.stdout.readline().removeprefix(READY).strip()
            where = "/api/clusters/" + json.loads(get(base, "/api/session"))["clusters"][0]["id"]
            while json.loads(get(base, f"{where}/overview"))["topics"] < given.topics:
                time.sleep(0.05)
            print(f"topics known after       {time.monotonic() - begun:6.2f} s")
            while any(
                row["messages"] is None
                for row in json.loads(get(base, f"{where}/topics?limit=1000"))["topics"]
            ):
                time.sleep(0.2)
            print(f"all offsets known after  {time.monotonic() - begun:6.2f} s")
            times = []
            for _ in range(_OPENINGS):
                opened = time.monotonic()
                for path in ("/", f"{where}/overview", f"{where}/topics?limit=100"):
                    get(base, path)
                times.append(time.monotonic() - opened)
            print(
                f"a page opens in          {sorted(times)[len(times) // 2] * 1000:6.1f} ms (median)"
            )
            print(f"                         {max(times) * 1000:6.1f} ms (slowest of {_OPENINGS})")
            print(f"broker with a console    {share(brokers, given.seconds):6.2f} % of a core")
            ended = threading.Event()
            for _ in range(given.viewers):
                threading.Thread(
                    target=watch, args=(base, f"{where}/events", ended), daemon=True
                ).start()
            shown = share(brokers, given.seconds)
            print(f"broker with {given.viewers:2} viewers   {shown:6.2f} % of a core")
            print(
                f"console with them        {share([process.pid], given.seconds):6.2f} % of a core"
            )
            print(f"console's memory         {resident_mib(process.pid):6.1f} MiB")
            ended.set()
        finally:
            process.terminate()
            process.wait(30)


if __name__ == "__main__":
    main()
