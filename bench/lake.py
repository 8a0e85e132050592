"""The lake: files and queries before and after an optimize, and publication into a full table.

    python -m bench.lake [--rows N] [--loads N] [--files N]

`--rows` records over 100 hours and 32 partitions are loaded in `--loads` small loads.
Queries are those of DuckDB over the files of the table, medians of five, the first one left out.
Publication is one small load into a table of `--files` files against the same load into an empty
one, without Spark; both include the check of the directory.
"""

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

import spark_loader
from bench.spark_load import publish_values
from spark_loader import EventTime, Loader, session
from spark_loader.lake.adopt import table_file
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.ledger import now_text
from spark_loader.lake.optimize import optimize, vacuum
from spark_loader.lake.verify import verify
from spark_loader.storage.files import FileStatus, LocalFileSystem, sha256_of
from tests.support.inline_spark import InlineSpark
from zkbroker.testing import LocalCluster

HOURS = 100
PARTITIONS = 32
BEGIN = 1_431_820_800
QUERIES = {
    "count of an hour": "SELECT count(*) FROM read_parquet($f, hive_partitioning=true) "
    "WHERE date = '2015-05-18' AND hour = 7",
    "rows of each hour": "SELECT date, hour, count(*) "
    "FROM read_parquet($f, hive_partitioning=true) GROUP BY ALL",
    "bytes of each partition": 'SELECT partition, sum(octet_length(value)), max("offset") '
    "FROM read_parquet($f) GROUP BY ALL",
}


def value(number: int) -> bytes:
    at = BEGIN + number * 7919 % HOURS * 3600
    return b'{"at": %d, "n": %d, "text": "%s"}' % (at, number, b"x" * 60)


def query_seconds(files: list[str], sql: str) -> float:
    with duckdb.connect() as connection:
        connection.execute("SET threads = 2")
        taken = []
        for _ in range(6):
            began = time.perf_counter()
            connection.execute(sql, {"f": files}).fetchall()
            taken.append(time.perf_counter() - began)
    return statistics.median(taken[1:])


def small_files(cluster: LocalCluster, place: Path, rows: int, loads: int) -> None:
    lake = str(place / "lake")
    topic = cluster.create_topic(partitions=PARTITIONS)
    spark = session("local[2,4]")
    filesystem = LocalFileSystem()
    loader = Loader(
        zookeeper=cluster.zookeeper,
        topics=[topic],
        output=lake,
        event_time=EventTime.json("at"),
    )
    taken = []
    share = rows // loads
    for number in range(loads):
        first = number * share
        publish_values(cluster, topic, map(value, range(first, first + share)), PARTITIONS)
        began = time.perf_counter()
        assert loader.run(spark).rows == share
        taken.append(time.perf_counter() - began)
    spark.stop()
    print(f"{rows:,} rows, {HOURS} hours, {PARTITIONS} partitions, {loads} loads")
    print(f"a load{'':<24}{statistics.median(taken):>10.2f} s, the last {taken[-1]:.2f} s")
    before = spark_loader.files(lake)
    seconds = {name: query_seconds(before, sql) for name, sql in QUERIES.items()}
    proved = verify(filesystem, lake)
    began = time.perf_counter()
    done = optimize(Checkpoints(filesystem, lake))
    print(f"optimize{'':<22}{time.perf_counter() - began:>10.2f} s")
    print(f"files before, after{'':<11}{done.before:>10,} {done.after:>10,}")
    after = spark_loader.files(lake)
    for name, sql in QUERIES.items():
        then = query_seconds(after, sql)
        print(
            f"{name:<30}{seconds[name]:>10.3f} s {then:>8.3f} s   ratio {seconds[name] / then:.1f}"
        )
    vacuum(Checkpoints(filesystem, lake), retention_hours=0, allow_short=True)
    again = verify(filesystem, lake)
    assert (again.problems, again.rows, again.rows_crc) == ([], proved.rows, proved.rows_crc)


def fill(lake: str, files: int) -> None:
    """Add copies of the table's first file, under a topic without loads."""
    filesystem = LocalFileSystem(sync=False)
    table = Checkpoints(filesystem, lake).table
    first = Path(lake) / table.files()[0].path
    content, footer, digest = first.read_bytes(), pq.read_metadata(first), sha256_of(first)
    added = []
    for number in range(files):
        hour = f"date=2015-05-{number % 28 + 1:02d}/hour={number % 24:02d}"
        path = f"topic=other/{hour}/{number}.parquet"
        (Path(lake) / path).parent.mkdir(parents=True, exist_ok=True)
        (Path(lake) / path).write_bytes(content)
        added.append(table_file(FileStatus(path, len(content)), footer, digest))
    latest = table.latest()
    assert latest is not None
    checksums = {each.path: digest for each in added}
    table.commit(
        replace(latest, run=latest.run + 1, created=now_text(), ranges=(), checksums=checksums),
        added,
    )


def publication(cluster: LocalCluster, place: Path, files: int) -> None:
    topic = cluster.create_topic(partitions=PARTITIONS)
    medians = []
    for count in (0, files):
        lake = str(place / f"lake-{count}")
        loader = Loader(
            zookeeper=cluster.zookeeper,
            topics=[topic],
            output=lake,
            event_time=EventTime.json("at"),
        )
        publish_values(cluster, topic, map(value, range(1000)), PARTITIONS)
        loader.run(InlineSpark())
        if count:
            fill(lake, count)
        taken = []
        for _ in range(5):
            publish_values(cluster, topic, map(value, range(64)), PARTITIONS)
            taken.append(timed(lambda loader=loader: loader.run(InlineSpark())))
        medians.append(statistics.median(taken))
        print(f"a small load, {count:>6,} files      {medians[-1]:>8.2f} s")
    print(f"more with {files:,} files           {medians[1] - medians[0]:>8.2f} s")


def timed(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=960_000)
    parser.add_argument("--loads", type=int, default=30)
    parser.add_argument("--files", type=int, default=10_000)
    given = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="zkbroker-bench-"))
    try:
        with LocalCluster(1) as cluster:
            publication(cluster, place, given.files)
            small_files(cluster, place, given.rows, given.loads)
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
