"""Make the manual's pictures from a running cluster with load: `make screenshots`.

Three brokers, a few topics with traffic in waves, groups that read it, a console and Debian's
Chromium. Pictures go to docs/images as WebP; a picture of more than 150 kB is an error.
"""

import argparse
import json
import math
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer
from playwright.sync_api import Browser, Page, sync_playwright

from scripts.terminal_pictures import picture, run_in_terminal
from zkbroker.testing import LocalCluster
from zkbroker.zookeeper.embedded import free_port

ROOT = Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
MOST_BYTES = 150_000
HISTORY_S = 90
ZKBROKER = [sys.executable, "-m", "zkbroker.cli"]
LOADER = [str(Path(sys.executable).with_name("zkbroker-load"))]
TOPICS = {"page-views": 6, "payments": 3, "signups": 1}


class Traffic:
    """Producers in waves, a group that keeps up and one that falls behind."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._servers = cluster.bootstrap_servers
        self._ended = threading.Event()
        works: list[Callable[[], None]] = [
            self._publish,
            lambda: self._read("billing", ["payments"], 0),
            lambda: self._read("billing", ["payments"], 0),
            lambda: self._read("analytics", ["page-views"], 0.004),
        ]
        self._threads = [threading.Thread(target=work) for work in works]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *exc_info: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _publish(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self._servers, "client.id": "shop", "compression.type": "lz4"}
        )
        chance = random.Random(7)  # noqa: S311 - the same pictures each time
        started = time.monotonic()
        number = 0
        while not self._ended.wait(0.1):
            wave = 1 + math.sin((time.monotonic() - started) / 9)
            for topic, share in (("page-views", 40), ("payments", 8), ("signups", 2)):
                for _ in range(int(share * (0.4 + wave) * chance.uniform(0.7, 1.3))):
                    number += 1
                    user = f"user-{chance.randrange(5000)}"
                    value = {
                        "id": number,
                        "user": user,
                        "page": chance.choice(["/", "/cart", "/pay", "/search?q=kettle"]),
                        "amount": round(chance.expovariate(0.05), 2),
                        "at": int(time.time() * 1000),
                    }
                    producer.produce(
                        topic, json.dumps(value).encode(), user.encode(), headers={"v": "2"}
                    )
            producer.poll(0)
        producer.flush(10)

    def _read(self, group: str, topics: list[str], pause_s: float) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": group,
                "client.id": f"{group}-{threading.get_ident() % 97}",
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": 1000,
            }
        )
        consumer.subscribe(topics)
        while not self._ended.is_set():
            if consumer.poll(0.5) is not None and pause_s:
                self._ended.wait(pause_s)
        consumer.close()


@contextmanager
def console(cluster: LocalCluster, admin_port: int, *more: str) -> Iterator[str]:
    """Give the address of a console that allows changes."""
    pages = [
        argument
        for at, broker in enumerate(cluster.brokers)
        for argument in ("--admin-page", f"{broker.id}=http://127.0.0.1:{admin_port + at}")
    ]
    command = [*ZKBROKER, "console", "-z", cluster.zookeeper, "--port", "0", "--interval", "1"]
    process = subprocess.Popen(
        [*command, "--allow-changes", *pages, *more], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip().rpartition("address=")[2]
    finally:
        process.terminate()
        process.wait(30)


class Pictures:
    """Pages of one browser, kept as WebP files."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self.kept: list[Path] = []

    @contextmanager
    def page(self, width: int, height: int, scheme: str = "light") -> Iterator[Page]:
        """Give a page of a size in CSS pixels."""
        context = self._browser.new_context(
            viewport={"width": width, "height": height},
            device_scale_factor=1.5,
            color_scheme="dark" if scheme == "dark" else "light",
            locale="en-GB",
        )
        context.set_default_timeout(60_000)
        try:
            yield context.new_page()
        finally:
            context.close()

    def keep(self, page: Page, name: str, element: Any = None) -> None:
        """Write the visible page, or one element of it."""
        clip = None
        if element is not None:
            box = element.bounding_box()
            clip = {**box, "scale": 1}
        asked: dict[str, Any] = {"format": "webp", "quality": 80}
        if clip:
            asked |= {"clip": clip, "captureBeyondViewport": True}
        taken = page.context.new_cdp_session(page).send("Page.captureScreenshot", asked)
        content = b64decode(taken["data"])
        if len(content) > MOST_BYTES:
            raise SystemExit(f"{name}: {len(content)} bytes are more than {MOST_BYTES}")
        path = IMAGES / f"{name}.webp"
        path.write_bytes(content)
        self.kept.append(path)
        print(f"{path.name}: {len(content):,} bytes")


def views(pictures: Pictures, base: str, *, lake: bool) -> None:
    """Take the console's pictures."""
    for scheme in ("light", "dark"):
        with pictures.page(1280, 860, scheme) as page:
            page.goto(f"{base}overview")
            page.locator(".legend b").first.wait_for()
            page.locator("[aria-labelledby=brokers] tbody tr").nth(2).wait_for()
            page.wait_for_timeout(3000)  # a few samples, so that rates are known
            pictures.keep(page, f"console-overview-{scheme}")
    with pictures.page(1280, 860) as page:
        page.goto(f"{base}topics/page-views")
        page.locator("[aria-labelledby=partitions] tbody tr").nth(5).wait_for()
        page.wait_for_timeout(2000)
        pictures.keep(page, "console-topic")
        page.get_by_role("button", name="Move replicas").click()
        page.get_by_role("combobox", name="Way").select_option("assignment")
        rows = page.locator("[aria-labelledby=partitions] tbody tr")
        replicas = [rows.nth(n).locator("td").nth(2).inner_text().split(", ") for n in (0, 1)]
        moves = [f"{n}: {', '.join(each[1:] + each[:1])}" for n, each in enumerate(replicas)]
        page.get_by_role("textbox", name="Assignment").fill("\n".join(moves))
        page.get_by_role("button", name="Show the plan").click()
        page.get_by_label("to confirm").fill("page-vi")
        pictures.keep(page, "console-action")
    with pictures.page(1280, 760) as page:
        page.goto(f"{base}groups/coordinator/analytics")
        page.locator("[aria-labelledby=offsets] tbody tr").nth(5).wait_for()
        page.wait_for_timeout(2000)
        pictures.keep(page, "console-group")
        page.goto(f"{base}clients")
        page.locator("[aria-labelledby=clients] tbody tr").nth(2).wait_for()
        pictures.keep(page, "console-clients")
        page.goto(f"{base}messages?topic=payments&limit=20")
        page.locator("button.toggle").nth(1).click()
        page.locator("pre").nth(1).wait_for()
        pictures.keep(page, "console-messages")
        if lake:
            page.goto(f"{base}loads")
            page.get_by_role("table", name="Runs").locator("tbody tr").first.wait_for()
            pictures.keep(page, "console-loads")
    with pictures.page(400, 800, "dark") as page:
        page.goto(f"{base}overview")
        page.locator(".legend b").first.wait_for()
        page.wait_for_timeout(2000)
        pictures.keep(page, "console-phone")


def commands(pictures: Pictures, cluster: LocalCluster) -> None:
    """Take pictures of commands that show the cluster."""
    zookeeper = cluster.zookeeper
    shown = {
        "top": ([*ZKBROKER, "top", "-z", zookeeper, "--once"], "zkbroker top -z zk1:2181"),
        "doctor": ([*ZKBROKER, "doctor", "-z", zookeeper], "zkbroker doctor -z zk1:2181"),
    }
    for name, (command, words) in shown.items():
        lines = run_in_terminal(command, columns=108, paths={f"{ROOT}/": "", zookeeper: "zk1:2181"})
        with pictures.page(1200, 900) as page:
            pictures.keep(page, f"terminal-{name}", picture(page, words, lines))


def loader(pictures: Pictures, cluster: LocalCluster, lake: Path) -> None:
    """Take a picture of a load while it runs, and keep the lake."""
    command = [*LOADER, "-b", cluster.bootstrap_servers, "-t", "payments", "--output", lake.name]
    lines = run_in_terminal(
        command, columns=108, directory=str(lake.parent), during=lambda text: "rows/s" in text
    )
    with pictures.page(1200, 900) as page:
        words = "zkbroker-load -b broker1:9092 -t payments --output lake"
        pictures.keep(page, "terminal-load", picture(page, words, lines))


def demo(pictures: Pictures) -> None:
    """Take a picture of the demo's end."""
    with tempfile.TemporaryDirectory() as data:
        command = [sys.executable, "-m", "examples.demo", "--data", f"{data}/demo-data"]
        lines = run_in_terminal(command, columns=108, paths={f"{data}/": ""})
    with pictures.page(1200, 1000) as page:
        pictures.keep(page, "terminal-demo", picture(page, "make demo", lines[-32:]))


def cluster_pictures(pictures: Pictures, *, with_spark: bool) -> None:
    """Start a cluster with load, and take the pictures that need one."""
    admin_port = free_port()
    with ExitStack() as stack:
        lake = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "lake"
        cluster = stack.enter_context(
            LocalCluster(3, replication=3, properties={"admin.port": admin_port})
        )
        for topic, partitions in TOPICS.items():
            cluster.create_topic(topic, partitions=partitions)
        stack.enter_context(Traffic(cluster))
        base = stack.enter_context(console(cluster, admin_port, "--lake", str(lake)))
        started = time.monotonic()
        commands(pictures, cluster)
        if with_spark:
            loader(pictures, cluster, lake)
        time.sleep(max(0, HISTORY_S - (time.monotonic() - started)))
        views(pictures, base, lake=with_spark)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--without-spark", action="store_true", help="leave loader and demo out")
    without_spark = parser.parse_args().without_spark
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SystemExit("install chromium first: apt-get install chromium")
    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        pictures = Pictures(browser)
        cluster_pictures(pictures, with_spark=not without_spark)
        if not without_spark:
            demo(pictures)
        browser.close()
    print(f"{sum(path.stat().st_size for path in pictures.kept):,} bytes in all")


if __name__ == "__main__":
    main()
