"""Writes the reference pages of the manual from the code they describe.

python scripts/generate_docs.py          writes them
python scripts/generate_docs.py --check  exit status 1 when a page is out of date
"""

import argparse
import ast
import importlib
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import MISSING, Field
from pathlib import Path
from typing import Any

import click

from zkbroker.cli.main import cli
from zkbroker.config.dynamic import CHANGEABLE, FOLLOWER_RATE, LEADER_RATE, WITHOUT_EFFECT
from zkbroker.config.ignored_broker_keys import IGNORED_PREFIXES
from zkbroker.config.schema import options
from zkbroker.config.secret import Secret
from zkbroker.protocol import plain
from zkbroker.protocol.table import protocol_markdown
from zkbroker.records import kernels
from zkbroker.zookeeper.embedded import EmbeddedZooKeeper

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.support.request_ways import (
    Way,
    fetch_way,
    leader_and_isr_way,
    produce_way,
    serving,
)

WIDTH = 100
ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
CONFIGURATIONS = (
    ("Broker", "zkbroker.config.broker", "BrokerConfig"),
    ("Log and topics", "zkbroker.config.log", "LogConfig"),
    ("All logs of a broker", "zkbroker.config.log", "LogManagerConfig"),
    ("Listener for Kafka 0.7", "zkbroker.config.legacy07", "Legacy07Config"),
    ("Producer", "zkbroker.config.producer", "ProducerConfig"),
    ("Consumer", "zkbroker.config.consumer", "ConsumerConfig"),
    ("Group consumer", "zkbroker.config.group_consumer", "GroupConsumerConfig"),
    ("Connections of all clients", "zkbroker.config.security", "ClientSecurity"),
    ("TLS of clients and listeners", "zkbroker.config.tls", "TlsSettings"),
    ("TLS of listeners", "zkbroker.config.broker_security", "ServerTlsOptions"),
    ("Logins of clients", "zkbroker.config.sasl_login", "SaslLogin"),
    ("Logins on listeners", "zkbroker.config.sasl_options", "LoginOptions"),
    ("Mechanisms of logins on listeners", "zkbroker.config.sasl_options", "MechanismOptions"),
    ("Mirror", "zkbroker.mirror.options", "MirrorOptions"),
    ("Producer for Kafka 0.7", "zkbroker.legacy07.producer_config", "ProducerConfig07"),
    ("Consumer for Kafka 0.7", "zkbroker.legacy07.consumer_config", "ConsumerConfig07"),
)


OF_TOPICS = "At once, for topics without a setting of their own."
_CLEANER = "From the next log on that is compacted."
EFFECTS = {
    "log.cleaner.backoff.ms": _CLEANER,
    "log.cleaner.dedupe.buffer.size": _CLEANER,
    "log.cleaner.io.buffer.load.factor": _CLEANER,
    "log.cleaner.io.buffer.size": _CLEANER,
    "log.cleaner.io.max.bytes.per.second": "At once.",
    "log.cleaner.threads": _CLEANER,
    "logger.levels": "At once; levels of a broker replace those of all brokers.",
    "max.connection.creation.rate": "For new connections.",
    "max.connections.per.ip": "For new connections.",
    "max.connections.per.ip.overrides": "For new connections.",
    "num.replica.fetchers": "At once: partitions move to other fetchers.",
    LEADER_RATE: "At once: bytes a second that replicas out of sync may copy from this broker.",
    FOLLOWER_RATE: "At once: bytes a second that this broker may copy for replicas out of sync.",
}


def configuration_markdown() -> str:
    """Return the configuration reference."""
    lines = [
        "# Configuration",
        "",
        "Property files of Kafka 0.7 to 2.x work unmodified: each option is accepted in the",
        "spelling of each generation, the first one of a row counts when several are given. An",
        "unknown name is a warning that names the nearest known one; a bad value is an error that",
        "says what is allowed.",
        "",
        "*This page is generated from the configuration classes.*",
    ]
    for title, module, name in CONFIGURATIONS:
        config = getattr(importlib.import_module(module), name)
        lines += [
            "",
            f"## {title}",
            "",
            "| Name | Default | Allowed | Meaning |",
            "|---|---|---|---|",
        ]
        # Required options come first.
        for declared, option in sorted(options(config), key=lambda each: not _required(each[0])):
            names = "<br>".join(
                f"`{key}`" + (f" (times {factor:,})" if factor != 1 else "")
                for key, factor in option.keys
            )
            default = declared.default
            if default is MISSING:
                default = "required" if _required(declared) else "none"
            lines.append(
                f"| {names} | {_shown(default)} | {_cell(option.kind.allowed)} "
                f"| {_cell(option.doc)} |"
            )
        ignored = dict(getattr(config, "IGNORED", {}))
        if name == "BrokerConfig":
            ignored |= {f"{prefix}…": reason for prefix, reason in IGNORED_PREFIXES.items()}
        if ignored:
            lines += ["", "Known and without effect:", "", "| Name | Why |", "|---|---|"]
            lines += [f"| `{key}` | {_cell(reason)} |" for key, reason in ignored.items()]
    lines += [
        "",
        "## Settings that change while a broker runs",
        "",
        "`AlterConfigs` (`kafka-configs --bootstrap-server … --entity-type brokers`) writes them",
        "into `/config/brokers/[id]`, or `/config/brokers/<default>` for all brokers; tools may",
        "write there too. A broker's own setting wins over that of all brokers, and both over the",
        "properties file. Any other setting is refused with the reason: it needs a restart.",
        "",
        "| Name | Effect |",
        "|---|---|",
        *(
            f"| `{key}` | {_cell(WITHOUT_EFFECT.get(key) or EFFECTS.get(key) or OF_TOPICS)} |"
            for key in sorted(CHANGEABLE)
        ),
    ]
    return "\n".join(lines) + "\n"


def _required(declared: Field[Any]) -> bool:
    return declared.default is MISSING and declared.default_factory is MISSING


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, Secret):
        return "none"
    return "none" if value is None or value == "" else _cell(str(value))


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def protocol_page() -> str:
    """Return the protocol reference."""
    return (
        "# Protocol\n\n"
        "The requests served and their fields, by version; ApiVersions announces the part of them\n"
        "that is for clients. *This page is generated from the message classes.*\n\n"
        + protocol_markdown().rstrip()
        + "\n"
    )


def command_line_page() -> str:
    """Return the command line reference: the help of every command."""
    lines = [
        "# Command line",
        "",
        "What `--help` shows of each command. *This page is generated from the commands.*",
        "",
        "Completion of commands and options in your shell (`zsh` and `fish` likewise):",
        "",
        "```console",
        '$ eval "$(_ZKBROKER_COMPLETE=bash_source zkbroker)"',
        "```",
    ]
    for name, command in _commands(cli, "zkbroker"):
        with click.Context(command, info_name=name, max_content_width=WIDTH) as context:
            lines += ["", f"## {name}", "", "```text", command.get_help(context).rstrip(), "```"]
    return "\n".join(lines) + "\n"


def _commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if isinstance(command, click.Group):
                yield from _commands(command, f"{path} {name}")
            elif command is not None:
                yield f"{path} {name}", command


TRACED = re.compile(r"(<!-- traced: (\w+) -->\n).*?(<!-- end of trace -->)", re.DOTALL)


def architecture_page() -> str:
    """Return the page of the architecture with the ways that requests take in a running broker.

    Without the C twins requests would pass their Python twins, so the page is not changed.
    """
    text = (DOCS / "ARCHITECTURE.md").read_text(encoding="utf-8")
    if not (kernels.NATIVE and plain.NATIVE):
        return text
    found = _traced_ways()
    return TRACED.sub(lambda match: match[1] + _way_table(found[match[2]]) + match[3], text)


def _traced_ways() -> dict[str, Way]:
    with (
        tempfile.TemporaryDirectory() as directory,
        EmbeddedZooKeeper() as zookeeper,
        serving(f"{zookeeper.connect_string}/ways", Path(directory)) as line,
    ):
        return {
            "produce": produce_way(line),
            "fetch": fetch_way(line),
            "leader_and_isr": leader_and_isr_way(line),
        }


def _way_table(way: Way) -> str:
    lines = [
        "",
        f"{len(way.files)} files, {way.count} calls:",
        "",
        "| File of `zkbroker/` | Subject | Called, in this order |",
        "|---|---|---|",
    ]
    for file in way.files:
        called = ", ".join(f"`{name}`" for place, name in way.calls if place == file)
        lines.append(f"| `{file}` | {_subject(file)} | {_cell(called)} |")
    return "\n".join([*lines, "", ""])


def _subject(file: str) -> str:
    """Return the first sentence of a module's docstring."""
    module = ast.parse((ROOT / "zkbroker" / file).read_text(encoding="utf-8"))
    first = (ast.get_docstring(module) or "").split("\n\n")[0]
    return _cell(first.rstrip("."))


PAGES = {
    "ARCHITECTURE.md": architecture_page,
    "command-line.md": command_line_page,
    "configuration.md": configuration_markdown,
    "protocol.md": protocol_page,
}


def main() -> int:
    """Write or check the pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only check whether they are current")
    check = parser.parse_args().check
    stale = []
    for name, make in PAGES.items():
        page = DOCS / name
        text = make()
        if check and (not page.exists() or page.read_text(encoding="utf-8") != text):
            stale.append(name)
        elif not check:
            page.write_text(text, encoding="utf-8")
    for name in stale:
        print(f"docs/{name} is out of date; run: make docs", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
