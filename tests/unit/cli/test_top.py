import io

from rich.console import Console

from zkbroker.cli.top import ClusterSnapshot, picture


def printed(before, now, width=120):
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(picture(before, now, width=width))
    return [" ".join(line.split()) for line in console.export_text().splitlines()]


def test_rates_lag_and_owners_of_two_snapshots():
    key, other, unread = ("t", 0), ("t", 1), ("t", 2)
    leaders = {key: 1, other: None, unread: 1}

    def groups(offset):
        return {
            ("g", "zookeeper"): {key: (offset, "c-0"), unread: (None, None)},
            ("h", "coordinator"): {other: (3, None)},
        }

    before = ClusterSnapshot(10.0, {1: "h:9092"}, leaders, {key: 100}, {key: 0}, groups(50))
    now = ClusterSnapshot(
        12.0, {1: "h:9092"}, leaders, {key: 300, unread: 9}, {key: 60, unread: 4}, groups(90)
    )
    text = "\n".join(printed(before, now)).replace("│", "").replace("|", "")
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert "1 h:9092 2 100" in rows
    assert "t 3 245 100" in rows
    assert "g zookeeper t 20 1 210 5 messages in 1 partition without a commit" in rows
    assert "h coordinator t 0 0 0 1 partition without a leader" in rows


def test_new_partition_has_no_rate():
    rows = printed(
        ClusterSnapshot(1.0), ClusterSnapshot(2.0, {1: "h:1"}, {("t", 0): 1}, {("t", 0): 9}, {})
    )
    assert any("t" in row and "9" in row and row.rstrip(" │").endswith("0") for row in rows)


def test_narrow_terminal_wraps_group_names():
    now = ClusterSnapshot(
        2.0, groups={("a-group-with-a-long-name", "zookeeper"): {("t", 0): (1, None)}}
    )
    *_, first, second, third, _ = printed(ClusterSnapshot(1.0), now, width=60)
    assert first.startswith("a-group-wi zookeeper t 0 ")
    assert (second, third) == ("th-a-long- partition", "name without a")


def test_failed_requests_are_listed_below_the_tables():
    now = ClusterSnapshot(2.0, troubles=["groups of coordinators are missing: gone"])
    assert printed(ClusterSnapshot(1.0), now)[-1] == "groups of coordinators are missing: gone"


def test_wide_output_has_whole_names_and_no_frames():
    group = "a-group-with-a-long-name"
    now = ClusterSnapshot(2.0, groups={(group, "zookeeper"): {("t", 0): (1, None)}})
    (row,) = [
        line for line in printed(ClusterSnapshot(1.0), now, 100_000) if line.startswith(group)
    ]
    assert row.split()[:3] == [group, "zookeeper", "t"]
