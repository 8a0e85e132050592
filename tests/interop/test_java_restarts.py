"""A genuine Java producer and a genuine consumer live through kills of every broker."""

import queue
import subprocess
import threading

import pytest

from tests.support import java_clients
from tests.support.clusters import module_cluster
from zkbroker.testing import LocalCluster

pytestmark = pytest.mark.skipif(not java_clients.versions(), reason=java_clients.REASON)

PARTITIONS = 6
LONG_S = 120


cluster = module_cluster(3, properties={"offsets.topic.num.partitions": "3"})


@pytest.mark.parametrize("version", java_clients.version_parameters())
def test_java_stream_survives_kill_of_each_broker(cluster: LocalCluster, version: str) -> None:
    topic = cluster.create_topic(partitions=PARTITIONS)
    command = java_clients.command(
        "Stream", version, cluster.bootstrap_servers, topic, str(PARTITIONS)
    )
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    lines: queue.Queue[list[str]] = queue.Queue()
    errors: list[str] = []
    threading.Thread(
        target=lambda: [lines.put(line.split()) for line in process.stdout], daemon=True
    ).start()
    threading.Thread(target=lambda: errors.extend(process.stderr), daemon=True).start()

    def wait_until_it_goes_on() -> None:
        while not lines.empty():
            lines.get_nowait()
        for _ in range(2):
            assert lines.get(timeout=LONG_S)[0] == "at", errors[-20:]

    try:
        wait_until_it_goes_on()
        for broker in cluster.brokers:
            broker.kill()
            broker.start()
            wait_until_it_goes_on()
        process.stdin.close()
        assert process.wait(LONG_S) == 0, errors[-20:]
    finally:
        process.kill()
        process.wait()
    while (line := lines.get(timeout=LONG_S))[0] == "at":
        pass
    assert line[0] == "read"
    assert int(line[1]) > 1000 * 2 * len(cluster.brokers)
    for broker in cluster.brokers:
        assert "Traceback" not in broker.log_path.read_text()
