"""Mirrors in the console's page: one runs, falls behind, and continues."""

import pytest

from tests.support import chromium
from tests.support.chromium import Watched
from tests.support.consoles import running_console
from tests.support.mirroring import caught_up, config, source
from zkbroker.config.producer import ProducerConfig
from zkbroker.producer import KeyedMessage, Producer

pytestmark = [
    pytest.mark.skipif(chromium.missing() is not None, reason=str(chromium.missing())),
]


def send(cluster, count):
    found = ProducerConfig.from_properties(
        {"metadata.broker.list": cluster.bootstrap_servers, "request.required.acks": "-1"}
    )
    with Producer(found) as producer:
        for number in range(count):
            producer.send(KeyedMessage("visits", b"%d" % number, partition=number % 2))


def test_console_shows_mirror_partitions_and_lag(local_cluster, tmp_path):
    once = {"whitelist": "visits", "exactly_once": "true", "exactly_once_id": "east"}
    with (
        local_cluster(1) as east,
        local_cluster(1) as here,
        chromium.chromium() as browser,
    ):
        for cluster in (east, here):
            cluster.create_topic("visits", partitions=2)
        clusters = {"here": here, "east": east}
        arguments = ["--interval", "0.5"]
        for name, cluster in clusters.items():
            file = tmp_path / name
            file.write_text(f"zookeeper.connect={cluster.zookeeper}\n")
            arguments += ["--cluster", f"{name}={file}"]
        mirrored = config([source(east, name="east", group="shown")], here, **once)
        with running_console(*arguments) as console:
            reader = Watched(browser, console.base)
            send(east, 40)
            with caught_up(mirrored):
                page = reader.open("mirrors")
                page.get_by_role("region", name="Mirrors").get_by_text("east").first.wait_for()
                table = page.get_by_role("region", name="Partitions of east")
                rows = table.locator("tbody tr")
                rows.nth(1).wait_for()
                # Topic, partition, copied to, end, lag; once the source was looked at.
                for number in range(2):
                    wanted = f"visits {number} 20 20 0"
                    table.get_by_role("row", name=wanted, exact=True).wait_for()
                # A page that took long to open finds a mirror that has moved everything.
                page.get_by_text("moving").or_(page.get_by_text("caught up")).first.wait_for()
            # What comes while it does not run is its lag, without the page being loaded again.
            send(east, 7)
            table.get_by_role("row", name="visits 0 20 24 4", exact=True).wait_for()
            assert rows.first.inner_text().split() == ["visits", "0", "20", "24", "4"]
            page.get_by_role("region", name="Mirrors").get_by_role(
                "cell", name="7", exact=True
            ).wait_for()
            with caught_up(mirrored):
                table.get_by_role("row", name="visits 0 24 24 0", exact=True).wait_for()
            if chromium.axe_missing() is None:
                assert reader.serious() == []
            for width in (400, 1280):
                page.set_viewport_size({"width": width, "height": 900})
                reader.fits(width)
            assert not reader.faults
            assert reader.loads == 1
            reader.close()
