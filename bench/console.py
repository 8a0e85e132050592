"""The console on a large cluster: how fast it opens, and its cost for brokers and for itself.

    python -m bench.console [--topics 1000] [--partitions 10] [--viewers 10] [--rounds 3]
                            [--seconds 10] [--browser chromium] [--results DIR]

Three brokers share the partitions, one replica each; the share printed is that of the busiest.
Printed are the time from the start of the console until it knows all topics; the time in which a
page gets its overview and its first topics then, and in which a browser shows them (from navigation
to the first rows); the memory of the console. The cost for brokers is measured in rounds, each
without a console, with one, and with viewers of its stream. A round starts its own console, and the
median of the rounds' ratios counts, since the load of a machine changes.
"""

import argparse
import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from urllib.parse import urlsplit

from bench.figures import Comparison, Found, cpu_seconds, options, publish, resident_mb
from zkbroker.admin.wire_topics import ByBrokers
from zkbroker.client import Cluster, StaticSource
from zkbroker.protocol.messages import CreateTopicsRequest
from zkbroker.protocol.messages.topics import NewTopic
from zkbroker.runtime import get_runtime
from zkbroker.testing import LocalCluster

READY = "zkbroker console ready address="
_BATCH = 50
_OPENINGS = 10


def share(pids: Sequence[int], seconds: float) -> float:
    """Return the share of one core that the busiest process takes, in percent."""
    begun, before = time.monotonic(), [cpu_seconds(pid) for pid in pids]
    time.sleep(seconds)
    taken = [cpu_seconds(pid) - then for pid, then in zip(pids, before, strict=True)]
    return 100 * max(taken) / (time.monotonic() - begun)


def create(bootstrap: str, topics: int, partitions: int) -> None:
    """Create the topics at the controller."""
    runtime = get_runtime("threads")
    with Cluster(StaticSource(bootstrap), runtime=runtime, request_timeout_ms=120_000) as cluster:
        controller = ByBrokers(cluster).controller()
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


def shown_after_ms(chromium: str, base: str, path: str, rows: int) -> list[float]:
    """Return the times of a page from navigation to the rows of its table."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.add_init_script(
            """(() => {
              const look = () => {
                if (document.querySelectorAll("main tbody tr").length >= ROWS)
                  window.shownAfter = performance.now();
                else requestAnimationFrame(look);
              };
              requestAnimationFrame(look);
            })();""".replace("ROWS", str(rows))
        )
        taken = []
        for _ in range(_OPENINGS):
            page.goto(base + path)
            page.wait_for_function("() => window.shownAfter > 0", timeout=120_000)
            taken.append(float(page.evaluate("() => window.shownAfter")))
        browser.close()
    return taken


@contextmanager
def console(zookeeper: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a console; give its process and address."""
    command = [sys.executable, "-m", "zkbroker.cli", "console", "-z", zookeeper, "--port", "0"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().removeprefix(READY).strip()
    finally:
        process.terminate()
        process.wait(30)


def await_all(base: str, topics: int) -> tuple[str, float, float]:
    """Wait until a console knows everything; return its cluster's path, and the times of topics and
    of offsets in s.
    """
    begun = time.monotonic()
    where = "/api/clusters/" + json.loads(get(base, "/api/session"))["clusters"][0]["id"]
    while json.loads(get(base, f"{where}/overview"))["topics"] < topics:
        time.sleep(0.05)
    known = time.monotonic() - begun
    while any(
        row["messages"] is None
        for row in json.loads(get(base, f"{where}/topics?limit=1000"))["topics"]
    ):
        time.sleep(0.2)
    return where, known, time.monotonic() - begun


def openings(base: str, where: str, chromium: str | None) -> None:
    """Print how long a page takes."""
    times = []
    for _ in range(_OPENINGS):
        opened = time.monotonic()
        for path in ("/", f"{where}/overview", f"{where}/topics?limit=100"):
            get(base, path)
        times.append((time.monotonic() - opened) * 1000)
    print(
        f"answers to a page        {median(times):6.0f} ms (median), {max(times):.0f} ms (slowest)"
    )
    if chromium is None:
        return
    for name, path, rows in (("overview", "overview", 3), ("topics", "topics", 100)):
        taken = shown_after_ms(chromium, base, path, rows)
        load = os.getloadavg()[0]
        print(
            f"a browser shows {name:8} {median(taken):6.0f} ms (median), {max(taken):.0f} ms "
            f"(slowest of {_OPENINGS}; load {load:.1f})"
        )


def one_round(cluster: LocalCluster, given: argparse.Namespace, number: int) -> tuple[float, ...]:
    """Measure once without a console, with one, and with viewers; return the three shares."""
    brokers = [each.pid for each in cluster.brokers if each.pid is not None]
    without = share(brokers, given.seconds)
    with console(cluster.zookeeper) as (process, base):
        where, known, all_known = await_all(base, given.topics)
        if not number:
            print(f"topics known after       {known:6.2f} s, all offsets after {all_known:.2f} s")
            openings(base, where, given.browser)
        alone = share(brokers, given.seconds)
        ended = threading.Event()
        for _ in range(given.viewers):
            threading.Thread(
                target=watch, args=(base, f"{where}/events", ended), daemon=True
            ).start()
        seen = share(brokers, given.seconds)
        own = share([process.pid], given.seconds)
        ended.set()
        print(
            f"round {number + 1}: a broker takes {without:.2f} % of a core, with a console "
            f"{alone:.2f} %, with {given.viewers} viewers {seen:.2f} %; the console {own:.2f} %, "
            f"{resident_mb(process.pid):.0f} MiB; load {os.getloadavg()[0]:.1f}"
        )
    return without, alone, seen


def main() -> None:
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    parser = options(__doc__, rounds=3)
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=10)
    parser.add_argument("--viewers", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=10, help="of a look at CPU")
    parser.add_argument("--browser", help="Chromium, to measure the waits of a reader")
    given = parser.parse_args()
    properties = {"log.segment.bytes": "1048576", "offsets.topic.num.partitions": "1"}
    with LocalCluster(3, properties=properties) as cluster:
        create(cluster.bootstrap_servers, given.topics, given.partitions)
        time.sleep(min(10, given.seconds))
        rounds = [one_round(cluster, given, number) for number in range(given.rounds)]
    without, *others = ([each[at] for each in rounds] for at in range(3))
    held = f"{given.topics * given.partitions:,} partitions"
    works = (f"{held}, a console", f"{held}, a console and {given.viewers} viewers")
    found = [
        Comparison(work, "% of a core", "no console", shares, without, more_is_better=False)
        for work, shares in zip(works, others, strict=True)
    ]
    publish(Found("console", found), given.results)


if __name__ == "__main__":
    main()
