"""Loads and mirrors in the console, from a real lake and a real topic of offset syncs."""

import pytest

from spark_loader import Loader
from tests.support.consoles import running_console
from tests.support.spark_records import publish
from zkbroker.mirror.offset_syncs import sync_message
from zkbroker.mirror.tracker import Place
from zkbroker.producer import KeyedMessage

ACKS = {"request.required.acks": "-1"}


@pytest.fixture(scope="module")
def cluster(local_cluster):
    with local_cluster(1) as cluster:
        cluster.create_topic("visits", partitions=2)
        cluster.create_topic("mirror-offset-syncs")
        yield cluster


def test_console_shows_runs_positions_and_lag_of_lake(spark, cluster, tmp_path):
    lake = tmp_path / "lake"
    messages = [KeyedMessage("visits", b"v", key=b"%d" % number) for number in range(20)]
    publish(cluster, "visits", messages, ACKS)
    loader = Loader(
        bootstrap=cluster.bootstrap_servers,
        topics=("visits",),
        output=str(lake),
        fallback="load-time",
    )
    assert loader.run(spark).rows == 20
    publish(cluster, "visits", messages[:3], ACKS)
    none = tmp_path / "none"
    with running_console(
        "-z", cluster.zookeeper, "--interval", "0.5", "--lake", str(lake), "--lake", str(none)
    ) as console:
        found, missing = console.eventually(
            "loads",
            lambda view: sum(each["lag"] or 0 for each in view["lakes"][0]["partitions"]) == 3,
        )["lakes"]
    (run,) = found["runs"]
    assert (run["rows"], run["state"], found["error"]) == (20, "load", None)
    assert run["started_ms"] <= run["ended_ms"]
    assert run["files"] >= 1
    assert run["bytes"] > 0
    assert sum(each["loaded_to"] for each in found["partitions"]) == 20
    assert found["quarantine"] == {"rows": 0, "files": 0}
    assert found["gaps"] == []
    assert "there is no lake" in missing["error"]
    assert missing["runs"] == []


def test_console_lists_mirrors_from_offset_sync_topic(cluster, tmp_path):
    place = Place("visits", 0, 5)
    publish(
        cluster,
        "visits",
        [
            sync_message("mirror-offset-syncs", "from", ("visits", 0), 1, place),
            sync_message("mirror-offset-syncs", "from", ("visits", 0), 2, place),
            sync_message("mirror-offset-syncs", "far away", ("other", 0), 9, place),
            KeyedMessage("mirror-offset-syncs", b"another program's", key=b"[1]", partition=0),
            KeyedMessage("mirror-offset-syncs", None, key=b'{"source":1}', partition=0),
            *[KeyedMessage("visits", b"v", partition=0) for _ in range(5)],
        ],
        ACKS,
    )
    for name in ("from", "to"):
        (tmp_path / name).write_text(f"zookeeper.connect={cluster.zookeeper}\n")
    with running_console(
        "--cluster", f"to={tmp_path / 'to'}", "--cluster", f"from={tmp_path / 'from'}",
        "--interval", "0.5",
    ) as console:  # fmt: skip
        end = console.eventually(
            "topics/visits", lambda view: (view["partitions"][0]["end"] or 0) >= 5
        )["partitions"][0]["end"]
        far, near = console.eventually(
            "mirrors",
            lambda view: len(view["mirrors"]) == 2 and view["mirrors"][1]["lag"] == end - 2,
        )["mirrors"]
        assert (far["name"], far["topics"], far["lag"]) == ("far away", ["other"], None)
    assert (near["source"], near["target"], near["topics"]) == ("from", "to", ["visits"])
    assert (near["state"], near["errors"]) == ("moving", [])
