"""The picture of a cluster between two moments."""

from rich.console import Console

from zkbroker.cli.top import Snapshot, picture


def shown(before, now):
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(picture(before, now))
    return [" ".join(line.split()) for line in console.export_text().splitlines()]


def test_rates_lag_and_owners_come_from_the_difference():
    key, other = ("t", 0), ("t", 1)
    leaders = {key: 1, other: None}
    before = Snapshot(10.0, {1: "h:9092"}, leaders, {key: 100}, {key: 0}, {"g": {key: (50, "c-0")}})
    now = Snapshot(12.0, {1: "h:9092"}, leaders, {key: 300}, {key: 60}, {"g": {key: (90, "c-0")}})
    text = "\n".join(shown(before, now)).replace("│", "").replace("|", "")
    rows = [" ".join(line.split()) for line in text.splitlines()]
    assert "1 h:9092 1 100" in rows
    assert "t 2 240 100" in rows
    assert "g t 20 210 1" in rows


def test_a_partition_seen_for_the_first_time_has_no_rate():
    rows = shown(Snapshot(1.0), Snapshot(2.0, {1: "h:1"}, {("t", 0): 1}, {("t", 0): 9}, {}))
    assert any("t" in row and "9" in row and row.rstrip(" │").endswith("0") for row in rows)
