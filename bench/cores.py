"""Two brokers on two cores beside one: 16 KiB produces by plain sockets.

As many connections each time, from processes of their own, each to a partition of its own, five
requests in flight: all to one broker, then shared between two. The ways take turns. Reported:
medians of MB/s and of CPU-seconds of the brokers per GB, the ratio, and the load of the machine:
the clients need a part of the same cores.

    python -m bench.cores [--rounds 5] [--seconds 3] [--connections 2] [--magic 2]
"""

import argparse
import multiprocessing
import os
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.raw_socket import Client, Measured, cpu_seconds, produce_request
from zkbroker.cluster import ClusterProcesses
from zkbroker.registry.partition_states import PartitionStates
from zkbroker.registry.topics import create_topic
from zkbroker.zookeeper import ZkSession

TOPIC = "cores"


def stream(given: tuple[int, int, int, float, str]) -> Measured:
    port, pid, magic, seconds, topic = given
    request = produce_request(topic, magic, 16 * 1024)
    return Client(port).stream(request, seconds, pid, of_answers=False)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--connections", type=int, default=2)
    parser.add_argument("--magic", type=int, choices=(0, 1, 2), default=2)
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="zkbroker-cores-") as directory,
        ClusterProcesses(Path(directory), brokers=2) as cluster,
        ZkSession(cluster.zookeeper) as session,
        multiprocessing.get_context("spawn").Pool(options.connections) as clients,
    ):
        keys = [
            (f"{TOPIC}-{broker.id}-{number}", 0)
            for broker in cluster.brokers
            for number in range(options.connections)
        ]
        for broker in cluster.brokers:
            for number in range(options.connections):
                create_topic(session, f"{TOPIC}-{broker.id}-{number}", {0: [broker.id]})
        states = PartitionStates(session)
        while len(states.read(keys)) < len(keys):
            pass

        def run(brokers: Sequence[int]) -> tuple[float, float]:
            work, pids = [], set[int]()
            for number in range(options.connections):
                broker = cluster.broker(brokers[number % len(brokers)])
                assert broker.pid is not None
                pids.add(broker.pid)
                topic = f"{TOPIC}-{broker.id}-{number}"
                work.append((broker.address[1], broker.pid, options.magic, options.seconds, topic))
            before = sum(map(cpu_seconds, pids))
            rate = sum(each.rate for each in clients.map(stream, work, chunksize=1))
            used_s = sum(map(cpu_seconds, pids)) - before
            return rate, used_s / (rate * options.seconds / 1e3)

        found: dict[str, list[tuple[float, float]]] = {"one broker": [], "two brokers": []}
        ways = {"one broker": (1,), "two brokers": (1, 2)}
        for each in ways.values():
            run(each)  # to make its first segments
        for number in range(options.rounds):
            for name in sorted(ways, reverse=bool(number % 2)):
                found[name].append(run(ways[name]))
    print(
        f"{options.connections} connections, medians of {options.rounds}; {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.1f}"
    )
    medians = {}
    for name, each in found.items():
        medians[name] = statistics.median(rate for rate, _ in each)
        cpu = statistics.median(used for _, used in each)
        rates = sorted(rate for rate, _ in each)
        print(
            f"  {name:12} {medians[name]:7.1f} MB/s ({rates[0]:.0f} to {rates[-1]:.0f})  "
            f"{cpu:5.2f} CPU s/GB"
        )
    print(f"  ratio        {medians['two brokers'] / medians['one broker']:7.2f}")


if __name__ == "__main__":
    main()
