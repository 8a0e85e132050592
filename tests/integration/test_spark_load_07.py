"""The bulk load from a 0.7 cluster, whose offsets are bytes: each message is loaded once."""

import random
import uuid

import pyarrow.parquet as pq
import pytest

from examples.demo import access_log
from spark_loader import EventTime, Loader
from spark_loader.errors import DataLoss
from spark_loader.lake import audit as books
from spark_loader.lake import operate
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.optimize import vacuum
from spark_loader.lake.verify import verify
from spark_loader.reading.access import NetworkAccess
from spark_loader.reading.connect import ConnectOptions
from spark_loader.reading.cuts import split_at_cuts
from spark_loader.reading.positions import TopicPartition
from spark_loader.reading.splits import OffsetRange, divide
from tests.support.client07 import Broker07, broker_address, entry, gzip_wrapper, parse
from tests.support.cluster07 import cluster07, commits, ends, registry_tree
from tests.support.inline_spark import Crash, CrashingFileSystem, InlineSpark
from tests.support.loaded import loaded_files
from tests.support.loading import LOCAL, verified
from tests.support.zookeeper import until
from zkbroker.types import Partition07

PARTITIONS = [(broker, number) for broker in range(2) for number in range(2)]


@pytest.fixture(scope="module")
def cluster(zookeeper, tmp_path_factory):
    """Two brokers; `tree` of their registry, `brokers` as processes."""
    chroot = f"{zookeeper.connect_string}/spark07-{uuid.uuid4().hex[:8]}"
    with registry_tree(chroot) as tree:
        directory = tmp_path_factory.mktemp("cluster07")
        with cluster07(directory, chroot, tree, log_file_size=20_000) as brokers:
            tree.brokers = brokers
            tree.directory = directory
            yield tree


def write(tree, topic, lines, seed=0):
    """Write lines into all partitions, in sets that are plain or compressed by turns."""
    rolls = random.Random(seed)
    brokers = {n: Broker07(*broker_address(tree, n)) for n in range(2)}
    left = list(lines)
    while left:
        broker, number = rolls.choice(PARTITIONS)
        taken, left = left[: (size := rolls.randrange(1, 30))], left[size:]
        packed = rolls.random() < 0.5
        data = gzip_wrapper(taken) if packed else b"".join(map(entry, taken))
        brokers[broker].produce(topic, number, data)
    for connection in brokers.values():
        # A produce has no answer: a later answered request shows that it was received.
        connection.offsets(topic, 0, -1)
        connection.close()
    until(lambda: all(tree.exists(f"/brokers/topics/{topic}/{n}") for n in range(2)))


def loader(tree, topic, output, **more):
    given = {"event_time": EventTime.access_log(), "group": f"lake-{topic}", **more}
    return Loader(
        generation="0.7",
        zookeeper=tree.connect_string,
        topics=[topic],
        output=str(output),
        **given,
    )


def values(output):
    found = []
    for path in loaded_files(output):
        found += pq.read_table(path, columns=["value"]).column("value").to_pylist()
    return sorted(found)


def audited(output):
    report = verified(output)
    for book in books.audit(Checkpoints(LOCAL, str(output))):
        assert book.difference == 0, book
    return report


def lines_of_a_log(tmp_path, count):
    access_log.generate(tmp_path / "access.log", count)
    return (tmp_path / "access.log").read_bytes().splitlines()


def test_access_log_from_0_7_loads_once_by_event_hour(cluster, tmp_path):
    lines = lines_of_a_log(tmp_path, 10_000)
    write(cluster, "visits", lines[:9000])
    lake = tmp_path / "lake"
    result = loader(cluster, "visits", lake).run(InlineSpark())
    assert (result.rows, result.quarantined, result.lag) == (9000, 0, 0)
    write(cluster, "visits", lines[9000:], seed=1)
    assert loader(cluster, "visits", lake).run(InlineSpark()).rows == 1000
    assert loader(cluster, "visits", lake).run(InlineSpark()).rows == 0
    assert values(lake) == sorted(lines)
    report = audited(lake)
    assert report.rows == 10_000
    end = ends(cluster, "visits")
    covered = {str(each.partition): (each.start, each.until) for each in report.covered}
    assert covered == {name: (0, at) for name, at in end.items()}
    # Positions of the group and of the ledger are bytes, under partition names of 0.7.
    assert commits(cluster, "lake-visits", "visits") == end
    positions = Checkpoints(LOCAL, str(lake)).table.latest().positions
    assert {str(source.partition): at for source, at in positions.items()} == end
    for path in loaded_files(lake):
        table = pq.ParquetFile(path).read(["partition", "offset", "position"])
        places = [tuple(row.values()) for row in table.to_pylist()]
        assert places == sorted(places)
        assert {str(Partition07.from_number(number)) for number, _, _ in places} <= {*end}


@pytest.mark.parametrize("form", ["parquet", "json", "raw"])
def test_capped_runs_end_between_entries(cluster, tmp_path, form):
    topic = f"capped-{form}"
    lines = lines_of_a_log(tmp_path, 1500)
    write(cluster, topic, lines)
    lake = tmp_path / "lake"
    made = loader(cluster, topic, lake, max_records=120_000, split_bytes=15_000, format=form)
    runs = 0
    while (result := made.run(InlineSpark())).rows:
        assert sum(each.size for each in result.ranges) <= 120_000
        runs += 1
        audited(lake)
    assert runs > 1
    report = audited(lake)
    assert report.rows == 1500
    assert max(each.until for each in report.covered) > 40_000


def test_messages_load_once_after_crash_at_any_step(cluster, tmp_path):
    lines = lines_of_a_log(tmp_path, 120)
    write(cluster, "crashing", [*lines, b"no access log line"])
    steps = CrashingFileSystem(LOCAL)
    loader(cluster, "crashing", tmp_path / "whole", filesystem=steps).run(InlineSpark())
    # The disk is the same after a step and before the next one.
    stops = [at for at, step in enumerate(steps.steps) if step.startswith("before")]
    last_of_each_kind = {steps.steps[at]: at for at in stops}.values()
    for at in sorted({*last_of_each_kind, *stops[::16]}):
        lake = tmp_path / f"lake-{at}"
        crashing = CrashingFileSystem(LOCAL, at)
        with pytest.raises(Crash):
            loader(cluster, "crashing", lake, filesystem=crashing).run(InlineSpark())
        loader(cluster, "crashing", lake, filesystem=LOCAL).run(InlineSpark())
        report = audited(lake)
        assert (report.rows, report.quarantined) == (120, 1)
        assert values(lake) == sorted(lines)


def test_rewind_stops_between_entries_and_lost_lake_is_adopted(cluster, tmp_path):
    lines = lines_of_a_log(tmp_path, 600)
    write(cluster, "moved", lines)
    lake = tmp_path / "lake"
    loader(cluster, "moved", lake).run(InlineSpark())
    checkpoints = Checkpoints(LOCAL, str(lake))
    source = TopicPartition("moved", Partition07(1, 0))
    moved = operate.rewind(checkpoints, [source], 2000)
    assert moved[source] <= 2000
    audited(lake)
    loader(cluster, "moved", lake).run(InlineSpark())
    assert values(lake) == sorted(lines)
    audited(lake)
    # Files that the rewind replaced would otherwise be adopted as well.
    vacuum(checkpoints, retention_hours=0, allow_short=True)
    for path in [*(lake / "_zkbroker").rglob("*"), *(lake / "_delta_log").iterdir()]:
        if path.is_file():
            path.unlink()
    loader(cluster, "moved", lake, adopt=True).run(InlineSpark())
    audited(lake)
    write(cluster, "moved", lines[:50], seed=5)
    assert loader(cluster, "moved", lake).run(InlineSpark()).rows == 50
    assert values(lake) == sorted([*lines, *lines[:50]])
    audited(lake)


def test_verify_reports_changed_and_unreferenced_files(cluster, tmp_path):
    write(cluster, "proof", lines_of_a_log(tmp_path, 300))
    lake = tmp_path / "lake"
    loader(cluster, "proof", lake).run(InlineSpark())
    path = loaded_files(lake)[0]
    copy = path.with_name(path.name.replace(".parquet", "x.parquet"))
    copy.write_bytes(path.read_bytes())
    assert verify(LOCAL, str(lake)).unreferenced == 1
    copy.unlink()
    table = pq.read_table(path, partitioning=None)
    pq.write_table(table.slice(1), path)
    assert verify(LOCAL, str(lake)).problems


def test_partitions_of_stopped_broker_load_after_restart(cluster, tmp_path):
    lines = lines_of_a_log(tmp_path, 400)
    write(cluster, "away", lines[:300])
    lake = tmp_path / "lake"
    loader(cluster, "away", lake).run(InlineSpark())
    write(cluster, "away", lines[300:], seed=2)
    cluster.brokers[1].kill()
    until(lambda: cluster.get_children("/brokers/ids") == ["0"])
    some = loader(cluster, "away", lake).run(InlineSpark())
    assert {each.partition.broker for each in some.ranges} == {0}
    cluster.brokers[1].start()
    until(lambda: len(ends(cluster, "away")) == 4)
    rest = loader(cluster, "away", lake).run(InlineSpark())
    assert {each.partition.broker for each in rest.ranges} == {1}
    assert values(lake) == sorted(lines)
    audited(lake)
    source = TopicPartition("away", Partition07(0, 1))
    operate.set_position(Checkpoints(LOCAL, str(lake)), source, 10**6)
    with pytest.raises(DataLoss, match=r"away-0-1: the next offset to load is 1000000"):
        loader(cluster, "away", lake).run(InlineSpark())


def test_ranges_end_only_between_entries(cluster):
    bodies = [b"%03d" % n * 20 for n in range(100)]
    broker = Broker07(*broker_address(cluster, 0))
    for at in range(0, 100, 10):
        broker.produce("cuts", 1, b"".join(map(entry, bodies[at : at + 10])))
    broker.produce("cuts", 1, gzip_wrapper(bodies) * 3)
    until(lambda: cluster.exists("/brokers/topics/cuts/0"))
    source = TopicPartition("cuts", Partition07(0, 1))
    broker.produce("cuts", 1, entry(bytes(500_000)))
    end = broker.offsets("cuts", 1, -1)[0]
    ((_, data),) = broker.multifetch([("cuts", 1, 0)], size=end)
    places = [0, *(at for _, at, _ in parse(data))]
    view = NetworkAccess().view(
        ConnectOptions(generation="0.7", zookeeper=cluster.connect_string, fetch_bytes=1000)
    )
    try:
        for wanted in (1, 70, 71, 5000, places[-2] - 1, places[-2], end):
            expected = max([at for at in places if at <= wanted and at > 0], default=places[1])
            assert view.last_cut(source, 0, wanted) == expected
        # An entry larger than the fetch size is taken whole.
        start = view.latest([source])[source] - len(entry(bytes(500_000)))
        assert view.last_cut(source, start, start + 5) == view.latest([source])[source]
        pieces = divide(OffsetRange("cuts", source.partition, 0, end, end), 7)
        cut = split_at_cuts(view, pieces)
        assert [each.start for each in cut[1:]] == [each.until for each in cut[:-1]]
        assert (cut[0].start, cut[-1].until) == (0, end)
        assert {each.start for each in cut} <= {*view.cuts(source)}
    finally:
        view.close()
        broker.close()
