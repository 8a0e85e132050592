"""The picture of a cluster between two moments."""

from rich.console import Console

from zkbroker.cli.top import Snapshot, picture


def shown(before, now, width=120):
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(picture(before, now))
    return [" ".join(line.split()) for line in console.export_text().splitlines()]


def test_rates_lag_and_owners_come_from_the_difference():
    key, other, unread = ("t", 0), ("t", 1), ("t", 2)
    leaders = {key: 1, other: None, unread: 1}

    def groups(offset):
        return {
            ("g", "zookeeper"): {key: (offset, "c-0"), unread: (None, None)},
            ("h", "coordinator"): {other: (3, None)},
        }

    before = Snapshot(10.0, {1: "h:9092"}, leaders, {key: 100}, {key: 0}, groups(50))
    now = Snapshot(
        12.0, {1: "h:9092"}, leaders, {key: 300, unread: 9}, {key: 60, unread: 4}, groups(90)
    )
    text = "\n".join(shown(before, now)).replace("│", "").replace("|", "")
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert "1 h:9092 2 100" in rows
    assert "t 3 245 100" in rows
    assert "g zookeeper t 20 1 210 5 messages in 1 partition without a commit" in rows
    assert "h coordinator t 0 0 0 1 partition without a leader" in rows


def test_a_partition_seen_for_the_first_time_has_no_rate():
    rows = shown(Snapshot(1.0), Snapshot(2.0, {1: "h:1"}, {("t", 0): 1}, {("t", 0): 9}, {}))
    assert any("t" in row and "9" in row and row.rstrip(" │").endswith("0") for row in rows)


def test_a_narrow_terminal_breaks_names_and_cuts_none_off():
    group = "a-group-with-a-long-name"
    now = Snapshot(2.0, groups={(group, "zookeeper"): {("t", 0): (1, None)}})
    rows = shown(Snapshot(1.0), now, width=60)
    names = "".join(row.replace("│", " ").split()[0] for row in rows if row.startswith("│"))
    assert group in names


def test_what_could_not_be_asked_stands_below():
    now = Snapshot(2.0, troubles=["groups of coordinators are missing: gone"])
    assert shown(Snapshot(1.0), now)[-1] == "groups of coordinators are missing: gone"


def test_a_pipe_gets_no_frames_and_whole_names():
    group = "a-group-with-a-long-name"
    now = Snapshot(2.0, groups={(group, "zookeeper"): {("t", 0): (1, None)}})
    console = Console(width=100_000, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(picture(Snapshot(1.0), now, width=console.width))
    (row,) = [line for line in console.export_text().splitlines() if line.startswith(group)]
    assert row.split()[:3] == [group, "zookeeper", "t"]
