import io

import click
import pytest
from click.testing import CliRunner
from rich.console import Console

from zkbroker.cli import mirror as tool
from zkbroker.cli.mirror import command, make_config, picture
from zkbroker.errors import ConfigError
from zkbroker.mirror import TopicStatus


@pytest.fixture
def files(tmp_path):
    def write(name, **settings):
        path = tmp_path / f"{name}.properties"
        lines = [f"{key.replace('_', '.')}={value}\n" for key, value in settings.items()]
        path.write_text("".join(lines))
        return path

    return (
        write("east", zookeeper_connect="east:2181", group_id="m"),
        write("west", bootstrap_servers="west:9092", group_id="m"),
        write("here", bootstrap_servers="here:9092"),
        write("all", whitelist="orders", num_streams="3"),
    )


def test_consumer_files_become_sources_in_order(files):
    east, west, here, _ = files
    config = make_config(None, (east, west), here, ("e", "w"), {"whitelist": "x"})
    assert [(each.name, each.label) for each in config.sources] == [("e", "e"), ("w", "w")]
    assert config.target == {"bootstrap.servers": "here:9092"}
    nameless = make_config(None, (east, west), here, (), {"whitelist": "x"})
    assert [(s.name, s.label) for s in nameless.sources] == [("", "east"), ("", "west")]


def test_number_of_source_names_must_match_sources(files):
    east, west, here, _ = files
    with pytest.raises(click.UsageError, match="one --source-name for each"):
        make_config(None, (east, west), here, ("e",), {"whitelist": "x"})


def test_options_override_the_config_file(files, monkeypatch):
    east, _, here, everything = files
    seen = {}

    def run(config, **options):
        seen.update(options, config=config)

    monkeypatch.setattr(tool, "run_mirror", run)
    given = ["--config", everything, "--consumer-config", east, "--producer-config", here]
    more = ["--whitelist", "visits", "--identity-partitions", "-X", "window.bytes=2048"]
    done = CliRunner().invoke(command, [*map(str, given), *more, "--until-caught-up"])
    assert done.exit_code == 0, done.output
    config = seen["config"]
    assert (config.whitelist, config.num_streams, config.window_bytes) == ("visits", 3, 2048)
    assert config.identity_partitions
    assert (seen["until_caught_up"], seen["live"]) == (True, False)


def test_exactly_once_needs_source_names(files):
    east, west, here, _ = files
    given = ["--consumer-config", east, "--consumer-config", west, "--producer-config", here]
    options = ["--whitelist", "x", "--exactly-once", "-X", "start.timeout.ms=0"]
    done = CliRunner().invoke(command, [*map(str, given), *options])
    assert isinstance(done.exception, ConfigError)
    assert "needs a name for each" in str(done.exception)


def test_offsets_of_several_sources_need_the_source_option(files):
    east, west, here, everything = files
    given = ["--config", everything, "--producer-config", here, "--group", "g"]
    for path in (east, west):
        given += ["--consumer-config", path]
    done = CliRunner().invoke(command, ["offsets", *map(str, given)])
    assert done.exit_code == 2
    assert "give --source, one of east, west" in done.output


def test_until_caught_up_waits_and_reports_dropped_messages(monkeypatch, capsys):
    class MirrorWithLag:
        total = 10

        def __init__(self, config):
            self.lefts = [10, 4, 0]
            self.waits = 0
            MirrorWithLag.last = self

        def __enter__(self):
            return self

        def __exit__(self, *error):
            pass

        def ends(self):
            return self

        def left(self):
            return self.lefts.pop(0)

        def wait(self, timeout_s):
            self.waits += 1

        def metrics(self):
            return {"messages": 10, "bytes": 90, "dropped_messages": 1}

    monkeypatch.setattr("zkbroker.mirror.Mirror", MirrorWithLag)
    tool.run_mirror(None, until_caught_up=True, live=True, metrics_port=None)
    printed = capsys.readouterr()
    assert (MirrorWithLag.last.lefts, MirrorWithLag.last.waits) == ([], 2)
    assert "mirrored 10 messages, 90 bytes" in printed.out + printed.err
    assert "dropped 1 messages" in printed.err


def test_table_shows_rates_between_two_statuses():
    before = [TopicStatus("east", "t", 100, 5000, 9)]
    now = [TopicStatus("east", "t", 300, 9000, 2), TopicStatus("east", "new", 7, 70, 0)]
    console = Console(width=100, file=io.StringIO())
    console.print(picture(before, now, 2.0))
    lines = console.file.getvalue().splitlines()
    rows = [line.split("│")[1:-1] for line in lines]
    cells = [[cell.strip() for cell in row] for row in rows if row]
    assert ["east", "t", "300", "100", "2,000", "2"] in cells
    assert ["east", "new", "7", "0", "0", "0"] in cells
