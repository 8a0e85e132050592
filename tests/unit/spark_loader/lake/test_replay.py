"""Replay moves quarantined records into the lake, each once."""

import json

from spark_loader import EventTime
from spark_loader.lake.checkpoint import Checkpoints
from spark_loader.lake.ledger import beside
from spark_loader.lake.replay import replay
from spark_loader.sink.partition import SinkOptions
from tests.support.inline_spark import crashes
from tests.support.loaded import loaded_offsets
from tests.support.loading import LOCAL, verified


def test_quarantined_records_are_replayed(run, output, command, lake):
    first = run(event_time=EventTime.regex(r"^[5-9]$", "s"))
    assert (first.rows, first.quarantined) == (10, 130)
    verified(output)
    _, [one, _] = beside(lake.table.entries())
    record = json.loads((output / one.path).read_text().splitlines()[0])
    assert (record["offset"], record["value"]) == (0, "MA==")
    assert "does not match" in record["reason"]
    printed = command(
        "replay-quarantine", output, "--event-time-regex", r"^\d{2}$",
        "--event-time-format", "s",
    )  # fmt: skip
    assert "120 records out of quarantine, 10 still in it" in printed
    assert verified(output).quarantined == 10
    assert not (output / one.path).exists()
    printed = command("replay-quarantine", output, "--event-time-fallback", "load-time")
    assert "10 records out of quarantine, 0 still in it" in printed
    assert command("replay-quarantine", output) == "the quarantine is empty\n"
    assert loaded_offsets(output) == {("t", 0): [*range(100)], ("t", 1): [*range(40)]}
    assert (verified(output).rows, verified(output).quarantined) == (140, 0)


def test_crashed_replay_counts_once(run, output, cluster):
    run(event_time=EventTime.regex(r"^[5-9]$", "s"))
    options = SinkOptions(event_time=EventTime.regex(r"^\d$", "s"))

    def replayed(filesystem):
        replay(Checkpoints(filesystem, str(output)), options)

    for _ in crashes(replayed, LOCAL, least=8):
        run()
        verified(output)
    assert verified(output).quarantined == 120
